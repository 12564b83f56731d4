"""Runs the tests of a workspace, inside a sandbox, and prints what came of them as one line of JSON.

It is copied into the folder of the workspace and never imported by the simulation. What it prints has no times and no
addresses, so the same files give the same line.
"""

import contextlib
import io
import json
import os
import re
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_LONGEST = 300
_OPTIONS = ("-q", "-p", "no:cacheprovider", "--rootdir", ".", "--continue-on-collection-errors")


class Outcomes:
    """A plugin of pytest that collects the outcome of each test."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the call of a test, and a preparation that failed or skipped it."""
        if report.when == "call" or report.outcome != "passed":
            self._note(report.nodeid, report)

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that cannot be collected."""
        if report.outcome == "failed":
            self._note(report.nodeid, report)

    def _note(self, name: str, report: Any) -> None:
        known = self.found.get(name, {}).get("outcome")
        outcome = "failed" if "failed" in (known, report.outcome) else report.outcome
        self.found[name] = {"outcome": outcome, "message": _message(report) if report.outcome == "failed" else ""}


def _message(report: Any) -> str:
    """Return the last line of an error, without addresses."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else str(crash.message)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    line = lines[0] if crash is not None else lines[-1].removeprefix("E").strip()
    return _ADDRESS.sub("0x", line)[:_LONGEST]


class Coverage:
    """Counts the lines of the modules in a folder that are run."""

    def __init__(self, folder: Path, own: Path) -> None:
        self._folder = folder
        self._inside = f"{folder}/"
        self._own = own
        self._run: dict[str, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow a call if it is of a module in the folder."""
        name = frame.f_code.co_filename
        if not name.startswith(self._inside) or name == str(self._own):
            return None
        lines = self._run.setdefault(name, set())
        lines.add(frame.f_lineno)

        def follow(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return follow

        return follow

    def percent(self) -> float | None:
        """Return the share of lines that ran, in per cent; None if there is no module."""
        run = known = 0
        for path in sorted(self._folder.rglob("*.py")):
            if path.name.startswith(("test_", "conftest")) or path == self._own:
                continue
            lines = _lines(path)
            known += len(lines)
            run += len(lines & self._run.get(str(path), set()))
        return round(100 * run / known, 1) if known else None


def _lines(path: Path) -> set[int]:
    """Return the lines of a module that can run; none if it cannot be compiled."""
    try:
        waiting = [compile(path.read_text(encoding="utf-8"), str(path), "exec")]
    except (SyntaxError, ValueError):
        return set()
    found: set[int] = set()
    for code in waiting:
        found |= {line for _, _, line in code.co_lines() if line}
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def run(paths: list[str]) -> dict[str, Any]:
    """Run the tests in some files or folders, and return what came of them."""
    try:
        import pytest
    except ImportError:
        return {"fault": "pytest is not installed"}
    own, outcomes = Path(sys.argv[0]).resolve(), Outcomes()
    coverage = Coverage(own.parent, own)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sys.settrace(coverage)
        threading.settrace(coverage)
        code = pytest.main([*_OPTIONS, *paths], plugins=[outcomes])
        sys.settrace(None)
    tests = [{"name": name, **one} for name, one in sorted(outcomes.found.items())]
    counts = {word: sum(one["outcome"] == word for one in tests) for word in ("passed", "failed", "skipped")}
    return {"exit_code": int(code), **counts, "coverage": coverage.percent(), "tests": tests}


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    real = sys.stdout
    report = run(sys.argv[1:])
    real.write("\n" + json.dumps(report, sort_keys=True) + "\n")
    real.flush()
    os._exit(0)

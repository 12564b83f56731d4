"""Runs the tests of a workspace, inside a sandbox, and prints what became of them as one line of JSON.

It runs as `python -P -s -c PROGRAM PATHS...` in the folder of the workspace and is never imported by the simulation.
Standard input holds a secret, which begins the line. So the code under test can print and exit as it likes: what it
prints goes nowhere, and without the line the run has failed. The line has no times and no addresses, so the same files
give the same line.
"""

import contextlib
import io
import json
import os
import re
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_MARK = re.compile(r"^(E|ERROR:|INTERNALERROR>) +")
_LONGEST = 300
_LONGEST_NAME = 200
_MOST_TESTS = 200
"""The most tests that are listed, those that failed first. All are counted."""
_MOST_BYTES = 60_000  # of the line; the sandbox keeps 64 KiB

# Which tests there are, is not for the files of the workspace to say. A project may set anything else, as usual.
_SETTINGS = (
    "addopts=",
    "testpaths=",
    "python_files=test_*.py *_test.py",
    "python_classes=Test",
    "python_functions=test",
)
_OPTIONS = (
    "-q", "-p", "no:cacheprovider", "--rootdir", ".", "--continue-on-collection-errors",
    *(part for setting in _SETTINGS for part in ("-o", setting)),
)  # fmt: skip
_HOOKS = ("pytest_addoption", "pytest_configure", "pytest_generate_tests", "pytest_make_parametrize_id")
"""The hooks that files of the workspace may have. Others could change what became of a test, and are left out."""
_FAULTS = (3, 4)  # exit codes of pytest: an internal error, a wrong use


class Outcomes:
    """A plugin of pytest that collects what became of each test.

    Args:
        folder: the folder of the workspace.
    """

    def __init__(self, folder: Path) -> None:
        self.found: dict[str, dict[str, str]] = {}
        self._inside = f"{folder}/"

    def pytest_plugin_registered(self, plugin: object, manager: Any) -> None:
        """Leave the hooks of the workspace out, from the moment at which this plugin is known."""
        if plugin is not self:
            return
        options = manager.parse_hookimpl_opts

        def of_others(plugin: object, name: str) -> Any:
            found = options(plugin, name)
            if found is None or name in _HOOKS:
                return found
            code = getattr(getattr(plugin, name), "__code__", None)
            return None if isinstance(code, CodeType) and code.co_filename.startswith(self._inside) else found

        manager.parse_hookimpl_opts = of_others

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave no file out, whatever a `conftest.py` says."""
        return False if collection_path.name != "__pycache__" else None

    def pytest_collection_finish(self, session: Any) -> None:
        """Count each test as failed until there is a report of it."""
        for item in session.items:
            self.found.setdefault(item.nodeid, {"outcome": "failed", "message": "the test run ended before it"})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the call of a test, and a preparation that failed or skipped it."""
        if report.when == "call" or report.outcome != "passed":
            self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        """Note a file that cannot be collected."""
        if report.outcome == "failed" or self._skipped_by_code(report):
            self._note(report)

    def _note(self, report: Any) -> None:
        known = self.found.get(report.nodeid, {})
        failed = report.outcome == "failed" or self._skipped_by_code(report)
        if known.get("outcome") == "failed" and known.get("reported"):
            return  # a test that failed is not saved by what comes after it
        outcome, message = ("failed", _message(report)) if failed else (report.outcome, "")
        self.found[report.nodeid] = {"outcome": outcome, "message": message, "reported": "yes"}

    def _skipped_by_code(self, report: Any) -> bool:
        """Return whether the code under test, and not the test, skipped a test."""
        if report.outcome != "skipped":
            return False
        crash = getattr(report.longrepr, "reprcrash", None)
        path = Path(str(report.longrepr[0] if crash is None else crash.path)).absolute()
        return str(path).startswith(self._inside) and not _is_test(path)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name.endswith("_test.py") or path.name == "conftest.py"


def _message(report: Any) -> str:
    """Return the last line of an error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.outcome == "skipped":
        return "the code under test skipped it"
    text = str(report.longrepr) if crash is None else str(crash.message)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return _plain(lines[0] if crash is not None else lines[-1])


def _plain(line: str) -> str:
    """Return a line of pytest without its mark and without addresses."""
    return _ADDRESS.sub("0x", _MARK.sub("", line))[:_LONGEST]


class Coverage:
    """Counts the lines of the modules in a folder that are run.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._inside = f"{folder}/"
        self._known = {str(path): _lines(path) for path in sorted(folder.rglob("*.py")) if not _is_test(path)}
        self._run: dict[str, set[int]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow a call if it is of a module in the folder."""
        name = frame.f_code.co_filename
        if not name.startswith(self._inside):
            return None
        lines = self._run.setdefault(name, set())
        lines.add(frame.f_lineno)

        def follow(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return follow

        return follow

    def percent(self) -> float | None:
        """Return the share of lines that ran, in per cent; None if there is no module."""
        known = sum(len(lines) for lines in self._known.values())
        run = sum(len(lines & self._run.get(name, set())) for name, lines in self._known.items())
        return round(100 * run / known, 1) if known else None


def _lines(path: Path) -> set[int]:
    """Return the lines of a module that can run; none if it cannot be compiled."""
    try:
        waiting = [compile(path.read_text(encoding="utf-8"), str(path), "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[int] = set()
    for code in waiting:
        found |= {line for _, _, line in code.co_lines() if line}
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def run(paths: list[str]) -> dict[str, Any]:
    """Run the tests in some files or folders, and return what became of them."""
    try:
        import pytest
    except ImportError:
        return {"fault": "pytest is not installed"}
    # Plugins that happen to be installed would make the outcome depend on the machine, and take most of the time.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # noqa: TID251 - of the sandbox, where this is the main program
    folder = Path.cwd()
    sys.path.insert(0, str(folder))  # after all that the driver needs is imported: a workspace can have a `json.py`
    outcomes, coverage, told, errors = Outcomes(folder), Coverage(folder), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(errors):
        sys.settrace(coverage)
        threading.settrace(coverage)
        code = int(pytest.main([*_OPTIONS, *paths], plugins=[outcomes]))
        sys.settrace(None)
    report = _report(outcomes.found)
    if code in _FAULTS:
        marked = [line for line in told.getvalue().splitlines() if _MARK.match(line)]
        lines = [*marked, *(line.strip() for line in errors.getvalue().splitlines() if line.strip())]
        report["ended"] = f"pytest cannot run: {_plain(lines[-1]) if lines else f'exit code {code}'}"
    return {**report, "exit_code": code, "coverage": coverage.percent()}


def _report(found: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the numbers of tests by file and outcome, and a list of tests, those that failed first."""
    files: dict[str, dict[str, int]] = {}
    for name, one in sorted(found.items()):
        counts = files.setdefault(name.partition("::")[0], dict.fromkeys(("passed", "failed", "skipped"), 0))
        counts[one["outcome"]] += 1
    order = sorted(found, key=lambda name: (found[name]["outcome"] != "failed", name))
    tests = [
        {"name": name[:_LONGEST_NAME], "outcome": found[name]["outcome"], "message": found[name]["message"]}
        for name in order[:_MOST_TESTS]
    ]
    return {"files": files, "tests": tests}


def main() -> None:
    """Read the secret, run the tests, and print the secret and the report."""
    dumps, write, leave = json.dumps, os.write, os._exit  # what they are before the code under test runs
    sys.modules["__main__"] = ModuleType("__main__")  # so that it cannot change the functions of this program
    secret, printed, nothing = os.read(0, 99).decode(), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.dont_write_bytecode = True
    report = run(sys.argv[1:])
    line = dumps(report, sort_keys=True)
    while len(line) > _MOST_BYTES and report["tests"]:
        report["tests"] = report["tests"][: len(report["tests"]) // 2]
        line = dumps(report, sort_keys=True)
    write(printed, f"\n{secret}{line}\n".encode())
    leave(0)


if __name__ == "__main__":
    main()

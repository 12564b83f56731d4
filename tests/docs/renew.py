"""Writes the figures that pages print anew: `uv run python -m tests.docs.renew [PAGE ...]`.

Runs the commands of docs/gallery.md and of the tutorials, and puts the figures that they print in the place of those
that the page shows. Needed after a change of the records of shipped scenarios; the words around the figures are read
again by hand, and the pictures are drawn by docs/pictures.py and docs/gallery_pictures.py. `uv run python -m
benchmarks.front` measures the figures of the README.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from tests.docs.test_gallery_page import ROOT, SHOWN
from tests.docs.test_tutorial_pages import BLOCK, PAGES, commands_of, file_of, run
from tests.llm.endpoint import Endpoint, fitting

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
GALLERY = ROOT / "docs" / "gallery.md"


def renewed(shown: Iterable[str], printed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each line that is shown, and the same line with the figures of the first printed line of its form.

    Raises:
        LookupError: no line that is left has the words of a line that is shown.
    """
    left = list(printed)
    for line in shown:
        form = _form(line)
        found = next((row for row in left if form in _form(row)), None)
        if found is None:
            raise LookupError(f"nothing printed has the form of {line!r}")
        left.remove(found)
        yield line, _filled(line, found)


def _form(line: str) -> str:
    return " ".join(NUMBER.sub("0", line).split())


def _filled(line: str, found: str) -> str:
    """Return `line` with the figures of `found`, each right-aligned where the old one was."""
    start = len(NUMBER.findall(_before(line, found)))
    figures = iter(NUMBER.findall(found)[start:])
    parts: list[str] = []
    for text, old in zip_longest(NUMBER.split(line), NUMBER.findall(line)):
        parts.append(text)
        if old is None:
            continue
        new = next(figures)
        grown = len(new) - len(old)
        if grown > 0 and parts[-1].endswith(" " * (grown + 1)):
            parts[-1] = parts[-1][:-grown]
        elif grown < 0 and parts[-1].endswith("  "):
            parts[-1] += " " * -grown
        parts.append(new)
    return "".join(parts)


def _before(line: str, found: str) -> str:
    """Return what stands in `found` before the text of the form of `line`."""
    words, rows = _form(line).split(), found.split()
    forms = [_form(row) for row in rows]
    (first, *_) = (n for n in range(len(rows)) if " ".join(forms[n:]).startswith(" ".join(words)))
    return " ".join(rows[:first])


def renew_gallery() -> None:
    """Write the tables of docs/gallery.md."""
    text = GALLERY.read_text(encoding="utf-8")
    for command, shown in (one.values for one in SHOWN):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "scenarios").symlink_to(ROOT / "scenarios")
            done = subprocess.run(
                [sys.executable, "-m", *shlex.split(str(command))],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
        lines = str(shown).splitlines()
        new = "".join(f"{line}\n" for _, line in renewed(lines, done.stdout.splitlines()))
        text = text.replace(str(shown), new)
        GALLERY.write_text(text, encoding="utf-8")


def renew_tutorial(page: Path) -> None:
    """Write what the commands of a tutorial print."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Endpoint(lambda seen: fitting(seen, "yes")) as endpoint:
        environment = {**os.environ, "OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": "secret", "COLUMNS": "120"}
        for language, block in BLOCK.findall(text):
            if language in ("yaml", "py"):
                (Path(folder) / file_of(language, block)).write_text(block, encoding="utf-8")
            for line, _ in commands_of(block) if language == "console" else []:
                if line.startswith("export ") or "mesa_" in line:
                    continue
                printed = run(line, Path(folder), environment).splitlines()
                shown = block.partition(f"$ {line}\n")[2].partition("$ ")[0].splitlines()
                for old, new in renewed([row for row in shown if row.strip()], printed):
                    text = text.replace(old, new, 1)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["gallery", *(page.stem for page in PAGES)]
    for name in wanted:
        if name == "gallery":
            renew_gallery()
        else:
            renew_tutorial(next(page for page in PAGES if page.stem == name))

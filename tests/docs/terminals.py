"""Plays the commands of a page in two terminals: a run in one of them, and what people do in the other."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.helpers import command
from tests.inbox.helpers import going_on

SIM = [sys.executable, "-m", "sim"]


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a page or a part of it."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def words(line: str) -> list[str]:
    """Return the arguments of a command line `uv run sim ...`."""
    found = shlex.split(line, comments=True)
    assert found[:3] == ["uv", "run", "sim"]
    return found[3:]


def play(first: str, others: list[str], runs: Path) -> tuple[int, str]:
    """Run the command of the first block, and those of the others meanwhile; each must print what its block shows.

    Args:
        first: the block with the run, which must end by one of the other commands.
        others: the other blocks.
        runs: the folder of the runs.

    Returns:
        The number of commands in the other blocks, and what the run printed.
    """
    count = 0
    with subprocess.Popen(
        [*SIM, *words(first.strip().removeprefix("$ "))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            going_on(runs)
            for part in (part for block in others for part in block.split("$ ")[1:]):
                line, _, shown = part.partition("\n")
                code, out, err = command(*words(line))
                if shown:
                    assert _timeless(out + err) == _timeless(shown), line
                else:
                    assert code == 0, err
                count += 1
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    return count, out


def _timeless(text: str) -> str:
    """Replace times, which differ from one run to the next."""
    return re.sub(r"\(at [0-9dhms.]+\)", "(at TIME)", text)

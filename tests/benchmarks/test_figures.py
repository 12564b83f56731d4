"""What benchmarks print is measured: CPU time is that of the system's account, and no figure replaces a missing one."""

import re
import time
from pathlib import Path

import pytest

from benchmarks import attribution, call_parts, play_frames, play_peers
from sim.experiments.attribution.forks import FORKS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="processes are not forked here")
def test_all_cpu_time_of_a_question_counts(monkeypatch, capfd):
    """The CPU seconds of a question are all that its process took, also those between two looks at its memory."""

    def busy(run: Path) -> None:
        begun = time.process_time()
        while time.process_time() < begun + 0.6:
            pass

    monkeypatch.setattr(attribution, "QUESTIONS", {"busy": busy})
    monkeypatch.setattr(attribution, "_LOOK", 1.0)
    attribution.ask("busy", ROOT)
    found = re.search(r"(\d+) s of CPU", capfd.readouterr().out)
    assert found
    assert int(found[1]) == 1


def test_ticks_are_those_of_the_system():
    """No benchmark takes a number of clock ticks a second for granted."""
    using = [file for file in (ROOT / "benchmarks").glob("*.py") if '/stat"' in file.read_text(encoding="utf-8")]
    assert using
    assert [file for file in using if 'sysconf("SC_CLK_TCK")' not in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("clock", "updates"), [("running at 3s of 1h, 20 updates a second", 20.0), ("a, 1 update a second", 1.0)]
)
def test_updates_are_read_from_the_clock(clock, updates):
    """The updates a second are those that the clock of the page shows."""
    assert play_frames.updates_in(clock) == updates


def test_a_clock_without_updates_is_an_error():
    """Where the clock names no updates, there is no figure, and not 0."""
    with pytest.raises(ValueError, match="names no updates a second: 'paused at 3s'"):
        play_frames.updates_in("paused at 3s")


@pytest.mark.slow
def test_the_lines_of_each_page_are_those_of_its_files():
    """The lines of code that docs/play.md has beside SolaraViz are those of the files, in the order of the table."""
    pytest.importorskip("mesa", reason="the group bench has Mesa")
    page = (ROOT / "docs" / "play.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| page | lines of code |")
    assert [int(count) for count in re.findall(r"\| (\d+) \| [\d.]+ s \|", table)] == list(
        play_peers.written().values()
    )


def test_comments_and_docstrings_are_no_lines_of_code():
    """A line counts if it has code."""
    text = '"""About."""\n\n# Note\nx = 1  # one\n\n\ndef f():\n    """What\n\n    it does."""\n    return """a\nb"""\n'
    assert play_peers.lines(text, python=True) == 4
    assert play_peers.lines("# Note\n\na: 1\n", python=False) == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/me/sim/sim/llm/client.py", "models: plan, limits, retries, prices"),
        ("/home/me/project/sim/world/world.py", "agents, actions, resources"),
        ("/x/.venv/lib/python3.11/site-packages/anyio/_core/_tasks.py", "event loop"),
        ("/usr/lib/python3.11/asyncio/events.py", "event loop"),
        ("/x/.venv/lib/python3.11/site-packages/openai/_client.py", "client"),
        ("<attrs generated methods sim.llm.types.Answer>", "records"),
        ("/usr/lib/python3.11/queue.py", "other libraries"),
    ],
)
def test_each_function_belongs_to_one_part(path, name):
    """What a model call costs is added up by the package of each function, wherever the packages are installed."""
    assert call_parts.part(path) == name

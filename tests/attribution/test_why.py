"""What decided an outcome: single causes, redundant ones, certain inputs."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sim
from sim.base.errors import RunError
from sim.experiments.attribution.analysis import Analysis, AttributionOptions
from sim.experiments.attribution.forks import FORKS
from tests.helpers import command

pytestmark = pytest.mark.skipif(not FORKS, reason="processes are not forked here")

VOTES = """
name: votes
until: 8s
agents:
  - name: chair
    state: {aye: 0, passed: 0}
    rules:
      - {when: message is not None and aye + message.data >= NEEDED, set: {aye: "=aye + message.data", passed: 1}}
      - {when: message is not None, set: {aye: "=aye + message.data"}}
      - {do: {sleep: {message: true}}}
  - name: voter
    count: 4
    start: "=index + 1"
    state: {weight: "=3 if index in [1, 2] else 0"}
    rules:
      - {when: iteration == 1, do: {send: {to: chair, topic: vote, data: "=weight"}}}
      - do: {sleep: {for: 1h}}
metrics: {every: 1s, values: {passed: "mean('chair', 'passed')", aye: "mean('chair', 'aye')"}}
"""


def voted(folder: Path, needed: int) -> Path:
    """Return a run of votes, of which two weigh 3."""
    (folder / "votes.yaml").write_text(VOTES.replace("NEEDED", str(needed)), encoding="utf-8")
    return Path(str(sim.run(folder / "votes.yaml", out=folder / "runs").run))


def test_a_redundant_pair_is_no_single_decider(tmp_path):
    """If one of two votes is enough, neither is named as what decided it, and both together are."""
    found = sim.why(voted(tmp_path, 3), "last('passed') == 1", budget=100)
    assert found is not None
    pair = next(one for one in found.causes if one.kind == "event")
    assert [name.partition(":")[2] for name in pair.names] == [
        " message vote to chair at 2s", " message vote to chair at 3s",
    ]  # fmt: skip
    assert pair.here == 1.0
    assert pair.effect is not None
    assert (pair.effect.mean, pair.effect.half) == (1.0, 0.0)
    assert "Among the messages and published events there is no single decider" in found.verdict


@pytest.mark.proof
def test_each_of_two_that_are_needed_is_named(tmp_path):
    """If both votes are needed, each alone is found, and it is said that each is needed."""
    found = sim.why(voted(tmp_path, 6), "last('passed') == 1", budget=200)
    assert found is not None
    events = [one for one in found.causes if one.kind == "event"]
    assert [(len(one.names), one.here) for one in events] == [(1, 1.0), (1, 1.0)]
    assert "each of 2 or more is needed for it" in found.verdict


@pytest.mark.proof
def test_the_state_that_decides_is_found(coin):
    """A value in which one agent differs from the others at the start is found as what decided a number."""
    found = sim.why(coin, "last('mood')", budget=150)
    assert found is not None
    (cause,) = (one for one in found.causes if one.kind == "state")
    assert cause.names == ("listener-2.mood = 2 at the start (others: 1)",)
    assert (cause.here, cause.significant) == (1.0, True)
    assert "decided it (also with new draws)" in found.verdict
    assert found.sentences()[-1].startswith("Effects that were found by leaving something out hold in the model")


def test_messages_that_are_not_on_record_are_named(tmp_path):
    """Of a run that was recorded at the level `samples`, it is said that no message could be left out."""
    (tmp_path / "votes.yaml").write_text(VOTES.replace("NEEDED", "6"), encoding="utf-8")
    run = sim.run(tmp_path / "votes.yaml", out=tmp_path / "runs", recording="samples")
    found = sim.why(run, "last('passed') == 1", budget=100)
    assert found is not None
    assert "messages and published events are not on record, so that none was left out" in found.lacks
    assert found.lacks in found.sentences()
    assert "event" not in {one.kind for one in found.hunts}


OFFSET = """
name: offset
until: 8s
agents:
  - name: sum
    state: {total: 0}
    rules:
      - {when: message is not None, set: {total: "=total + message.data"}}
      - {do: {sleep: {message: true}}}
  - name: giver
    count: 2
    start: "=index + 1"
    rules:
      - {when: iteration == 1, do: {send: {to: sum, topic: part, data: "=5 if index == 0 else -5"}}}
      - do: {sleep: {for: 1h}}
metrics: {every: 1s, values: {total: "mean('sum', 'total')"}}
"""


def test_messages_that_offset_each_other_are_named(tmp_path):
    """If two messages offset each other, each is found, and it is said that all change nothing."""
    (tmp_path / "offset.yaml").write_text(OFFSET, encoding="utf-8")
    found = sim.why(sim.run(tmp_path / "offset.yaml", out=tmp_path / "runs"), "last('total')", budget=100)
    assert found is not None
    assert [(len(one.names), one.here) for one in found.causes if one.kind == "event"] == [(1, 5.0), (1, -5.0)]
    assert found.verdict.startswith(
        "Leaving out all messages and published events together makes no difference, as they offset each other: event"
    )
    assert "Without all 2 messages and published events, the outcome is the same; 3 groups were left out." in (
        found.sentences()
    )


LOAD = """
name: load
until: 3m
agents:
  - name: sink
    state: {total: 0.0}
    loop: {mailbox_size: 1000}
    rules:
      - {when: message is not None, set: {total: "=total + message.data"}}
      - {do: {sleep: {message: true}}}
  - name: source
    state: {left: 60, heavy: "=randint(1, 60)"}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: left == 0, do: stop}
      - set: {left: "=left - 1"}
        do: {send: {to: sink, topic: load, data: "=gauss(0, 1) + (30 if left == heavy else 0)"}}
metrics: {every: 30s, values: {total: "mean('sink', 'total')"}}
"""


@pytest.mark.proof
def test_the_message_of_weight_is_found_with_its_effect(tmp_path):
    """Of 60 messages, the one of weight comes first; with new draws after it, its effect has an interval around it."""
    (tmp_path / "load.yaml").write_text(LOAD, encoding="utf-8")
    run = Path(str(sim.run(tmp_path / "load.yaml", out=tmp_path / "runs").run))
    with sim.open(run) as stored:
        ((heavy,),) = stored.query(
            "SELECT id FROM events WHERE topic = 'message.sent' ORDER BY data ->> '$.data' + 0 DESC LIMIT 1"
        )
    found = sim.why(run, "last('total')", budget=150)
    assert found is not None
    assert found.causes[0].names[0].startswith(f"event {heavy}: message load to sink")
    assert found.causes[0].effect is not None
    assert 25 < found.causes[0].effect.mean < 35
    assert f"event {heavy}" in found.verdict


def test_the_command_prints_json_and_a_picture(coin, tmp_path):
    """The command prints what was found as JSON, and writes a picture."""
    arguments = ("why", coin, "--outcome", "last('side') > 0", "--budget", 100)
    code, out, err = command(*arguments, "--to", tmp_path / "a.svg", "--json")
    assert code == 0, err
    assert json.loads(out)["note"].startswith("Effects that were found")
    assert (tmp_path / "a.svg").exists()
    code, out, err = command("why", coin, "--outcome", "last('side') > 0", "--to", tmp_path / "a.png")
    assert code == 2
    assert "its name ends with .svg" in err


UNHEARD = """
name: unheard
until: 6s
agents:
  - name: source
    state: {turn: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: turn % 2 == 1, set: {turn: "=turn + 1"}, do: {publish: {topic: news.heard, data: "=turn"}}}
      - {set: {turn: "=turn + 1"}, do: {publish: {topic: noise.made, data: "=turn"}}}
  - name: listener
    state: {heard: 0}
    rules:
      - {when: event is not None, set: {heard: "=heard + event.data"}}
      - {do: {sleep: {event: "news.*"}}}
metrics: {every: 1s, values: {heard: "mean('listener', 'heard')"}}
"""


@pytest.fixture(scope="module")
def unheard(tmp_path_factory) -> Path:
    """A run whose agent publishes under two topics, of which only one is listened to."""
    folder = tmp_path_factory.mktemp("unheard")
    (folder / "unheard.yaml").write_text(UNHEARD, encoding="utf-8")
    return Path(str(sim.run(folder / "unheard.yaml", out=folder / "runs").run))


@pytest.mark.parametrize("fork", [True, False])
def test_published_events_to_which_nothing_listened_are_not_left_out(unheard, fork):
    """Futures are spent on events of topics that somebody listened to; how many others there are is said."""
    found = sim.why(unheard, "last('heard')", budget=100, fork=fork, jobs=2)
    assert found is not None
    assert found.lacks == "3 published events were not left out, because nothing listened to their topics in the run."
    assert found.lacks in found.sentences()
    (hunt,) = (one for one in found.hunts if one.kind == "event")
    assert (hunt.count, hunt.whole) == (3, found.value)
    assert {name.split()[4] for one in found.causes if one.kind == "event" for name in one.names} == {"news.heard"}


def test_a_time_limit_before_the_first_future_is_an_error(unheard):
    """Nothing is known then, so that no result is printed, and the exit code is that of a failed run."""
    message = "the time limit of 0.000000001s ended before the first future"
    with pytest.raises(RunError, match=message):
        sim.why(unheard, "last('heard')", budget=100, max_wall="1ns")
    with pytest.raises(RunError, match=message):
        sim.turning_point(unheard, "last('heard') > 2", budget=100, max_wall="1ns")
    code, out, err = command("why", unheard, "--outcome", "last('heard')", "--max-wall", "1ns", "--yes")
    assert (code, out, "--max-wall" in err) == (1, "", True), err


def test_the_time_limit_says_which_steps_it_ended():
    """Each step that it ended is named, with the futures; if it ended none, nothing is said."""
    options = AttributionOptions(budget=100, max_wall="10s")
    session: Any = SimpleNamespace(futures=SimpleNamespace(carried_out=3))
    said = Analysis.cut(session, options, ["the search for steps", "the tests with new draws"])
    assert said == (
        "The time limit of 10s ended the search for steps and the tests with new draws, with 3 of up to 100 futures;"
        " more time may change what is found."
    )
    assert Analysis.cut(session, options, []) == ""


def test_time_that_a_person_takes_to_confirm_is_not_counted(unheard):
    """The limit begins when the cost is confirmed."""

    def think(text: str, money: bool) -> bool:
        time.sleep(1.5)
        return True

    found = sim.turning_point(unheard, "last('heard') > 2", budget=100, jobs=1, max_wall="1.4s", confirm=think)
    assert found is not None
    assert found.futures > 0


def test_the_cost_names_the_time_limit(unheard):
    """Before the first future it is said how long all can take, and that none begins after the limit."""
    told: list[str] = []

    def refuse(text: str, money: bool) -> bool:
        told.append(text)
        return False

    assert sim.why(unheard, "last('heard')", budget=1_000_000, jobs=1, confirm=refuse) is None
    assert sim.why(unheard, "last('heard')", jobs=1, confirm=refuse, max_wall="5m") is None
    assert "in 1 process with a core each; --max-wall 10m ends this after ten minutes, and says what was not" in told[0]
    assert told[1].endswith("; after 5m, no more of them begin")
    code, _, err = command("why", unheard, "--outcome", "last('heard')", "--max-wall", "0s")
    assert (code, "max_wall must be above 0 s" in err) == (2, True), err

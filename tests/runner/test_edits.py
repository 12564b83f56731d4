"""Events that a branch or an intervention leaves out or replaces."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.record import open_run
from tests.helpers import command

ROOT = Path(__file__).parents[2]
NEWS = """
name: news
until: 1m
seed: 4
agents:
  - name: press
    loop: {min_loop_delay: 5s}
    rules:
      - {when: iteration == 1, do: {send: {to: readers, topic: rumour, data: 1}}}
      - {when: iteration == 2, do: {publish: {topic: flash, data: {size: 1}}}}
      - {when: iteration == 3, do: {send: {to: reader-1, topic: late, data: 2, after: 7s}}}
      - {when: iteration == 4, do: {send: {to: readers, topic: rumour, data: 3}}}
      - {when: iteration < 9, record: {luck: "=uniform(0, 1)"}, do: noop}
      - do: {sleep: {for: 1h}}
  - name: reader
    count: 3
    group: readers
    state: {heard: 0, flashes: 0}
    rules:
      - when: message is not None
        set: {heard: "=heard + message.data"}
        do: {publish: {topic: heard, data: "=heard"}}
      - {when: event is not None and event.topic == 'flash', set: {flashes: "=flashes + event.data.size"}}
      - do: {sleep: {any: [{message: true}, {event: flash}]}}
"""


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A recorded run of the scenario."""
    file = tmp_path / "news.yaml"
    file.write_text(NEWS, encoding="utf-8")
    return str(sim.run(file, out=tmp_path / "runs").run)


Row = tuple[int, int, int, str, str, str]


def rows(run: str | None) -> list[Row]:
    """Return the events of a run: time, source, counter, actor, topic, data."""
    with open_run(Path(str(run))) as stored:
        return stored.query("SELECT time_ns, source, counter, actor, topic, data FROM events ORDER BY id")


def number(run: str, topic: str, nth: int = 0, /, **data: Any) -> int:
    """Return the number of the nth event of a topic whose data has these values."""
    with open_run(Path(run)) as stored:
        found = stored.query("SELECT id, data FROM events WHERE topic = ? ORDER BY id", (topic,))
    return int([id for id, text in found if not data or data.items() <= json.loads(text).items()][nth])


def states(run: str | None) -> dict[str, Any]:
    """Return the final state variables of the readers."""
    with open_run(Path(str(run))) as stored:
        agents = (stored.info.digest or {})["agents"]
    return {name: agents[name]["state"] for name in agents if name.startswith("reader")}


def test_a_message_does_not_arrive_and_nothing_else_differs(run):
    """Its receiver never wakes for it; the sender's events keep their identities, draws and results; others differ
    only as the message would have caused."""
    left_out = number(run, "message.sent", to="reader-2", topic="rumour")
    branch = sim.branch(run, without=[left_out])
    before, after = rows(run), rows(branch.run)
    assert states(branch.run)["reader-2"]["heard"] == states(run)["reader-2"]["heard"] - 1
    assert {name: one for name, one in states(branch.run).items() if name != "reader-2"} == {
        name: one for name, one in states(run).items() if name != "reader-2"
    }
    suppressed = [row for row in after if row[4] == "message.suppressed"]
    original = before[left_out - 1]
    assert [(*row[:4], row[5]) for row in suppressed] == [(*original[:4], original[5])]
    assert [row for row in after if row[3] == "press" and row[4] != "message.suppressed"] == [
        row for row in before if row[3] == "press" and row != original
    ]
    assert branch.services["edits"] == {"suppressed": 1, "replaced": 0}


def test_a_message_arrives_with_other_data(run):
    """The new data is on record and with the receiver; the message keeps its identity."""
    which = number(run, "message.sent", to="reader-2", topic="rumour")
    branch = sim.branch(run, replace={which: 50})
    assert states(branch.run)["reader-2"]["heard"] == states(run)["reader-2"]["heard"] + 49
    assert [row[:5] for row in rows(branch.run)] == [row[:5] for row in rows(run)]
    assert branch.services["edits"] == {"suppressed": 0, "replaced": 1}


def test_a_published_event_reaches_nobody_or_is_another(run):
    """Sleepers do not wake for an event that is left out; with other data they read that."""
    which = number(run, "flash")
    silent, louder = sim.branch(run, without=[which]), sim.branch(run, replace={which: {"size": 9}})
    assert {one["flashes"] for one in states(silent.run).values()} == {0}
    assert {one["flashes"] for one in states(louder.run).values()} == {9}
    assert sum(row[4] == "event.suppressed" for row in rows(silent.run)) == 1
    assert sum(row[4] == "flash" for row in rows(silent.run)) == 0


def test_a_delayed_message_never_arrives(run):
    """A message under way for some time is left out when it is sent."""
    branch = sim.branch(run, without=[number(run, "message.sent", topic="late")])
    assert states(branch.run)["reader-1"]["heard"] == states(run)["reader-1"]["heard"] - 2


@pytest.mark.slow
def test_what_is_edited_repeats(run, tmp_path):
    """A branch with edits replays, is the same on the other event loop, and a branch of it has its edits as well."""
    first, second = (number(run, "message.sent", nth, to="reader-3", topic="rumour") for nth in (0, 1))
    branch = sim.branch(run, without=[first, second])
    assert sim.replay(str(branch.run)).hash == branch.hash
    assert sim.branch(run, without=[second, first], backend="trio", out=tmp_path / "other").hash == branch.hash
    again = sim.branch(str(branch.run), at="40s", seed=9)
    assert states(again.run)["reader-3"]["heard"] == 0
    assert sim.replay(str(again.run)).hash == again.hash
    later = sim.branch(run, without=[first])
    both = sim.branch(str(later.run), without=[number(str(later.run), "message.sent", to="reader-3", topic="rumour")])
    assert (states(both.run), both.services["edits"]["suppressed"]) == (states(branch.run), 2)


def test_an_event_of_time_zero_can_be_left_out(run):
    """A branch that begins at time 0 has no past: the scenario runs again, and the event does not arrive."""
    which = number(run, "message.sent", to="reader-1", topic="rumour")
    assert rows(run)[which - 1][0] == 0
    branch = sim.branch(run, without=[which])
    assert states(branch.run)["reader-1"]["heard"] == states(run)["reader-1"]["heard"] - 1
    assert sim.replay(str(branch.run)).hash == branch.hash


def test_what_does_not_happen_again_is_reported(run):
    """An event that an earlier edit prevents cannot be edited; the result says which one it was."""
    flash, heard = number(run, "message.sent", to="reader-1", topic="rumour"), number(run, "heard")
    branch = sim.branch(run, without=[flash, heard])
    assert branch.services["edits"] == {"suppressed": 1, "replaced": 0, "missed": 1}
    assert any(f"event {heard} of the original run did not" in warned["text"] for warned in branch.warnings)


def test_the_ids_that_are_shown_are_those_that_branches_take(run, monkeypatch):
    """The command line leaves out and replaces what `sim show RUN messages` and the view `events` number."""
    monkeypatch.chdir(Path(run).parents[1])
    code, out, err = command("show", run, "messages", "--json")
    assert code == 0, err
    table = json.loads(out)
    sent = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    which = next(row for row in sent if row["receiver"] == "reader-2" and row["topic"] == "rumour")
    code, _, err = command("branch", run, "--without", which["id"], "--quiet", "--tag", "without")
    assert code == 0, err
    code, out, err = command("branch", run, "--replace", f"{which['id']}:50", "--quiet", "--json")
    assert code == 0, err
    assert states(json.loads(out)["run"])["reader-2"]["heard"] == states(run)["reader-2"]["heard"] + 49
    for option, words in (
        ("17", "does not have the form ID:JSON"), ("17:x", "the data is not JSON"), ("x:1", "does not have the form"),
    ):  # fmt: skip
        code, _, err = command("branch", run, "--replace", option)
        assert (code, words in err) == (2, True), err
    code, _, err = command("branch", run, "--replace", "1:2", "--replace", "1:3")
    assert (code, "--replace is given twice for 1" in err) == (2, True), err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the time of the branch is missing"),
        ({"at": "1s", "at_event": 3}, "given twice"),
        ({"at_event": 10**6}, "there is no event 1000000"),
        ({"without": [10**6]}, "there is no event 1000000"),
        ({"without": ["state"]}, "says what has happened"),
        ({"without": ["rumour"], "at": "30s"}, "before the branch begins"),
        ({"without": ["rumour"], "replace": {"rumour": 1}}, "is left out and replaced"),
        ({"replace": {"rumour": {1, 2}}}, "the new data"),
    ],
)
def test_what_cannot_be_edited_is_refused(run, options, words, tmp_path):
    """Each refusal is one sentence, and no run is made."""
    ids = {"rumour": number(run, "message.sent", topic="rumour"), "state": number(run, "agent.state")}
    given: dict[str, Any] = dict(options)
    if "without" in given:
        given["without"] = [ids.get(one, one) for one in given["without"]]
    if "replace" in given:
        given["replace"] = {ids[key]: value for key, value in given["replace"].items()}
    with pytest.raises(UsageError, match=words):
        sim.branch(run, **given)
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_an_event_from_outside_is_refused_with_what_to_do(tmp_path):
    """What a host program published is not repeated by a branch, so it cannot be edited: the hint says what to do."""
    file = tmp_path / "news.yaml"
    file.write_text(NEWS, encoding="utf-8")
    result = sim.run(
        file, out=tmp_path / "runs", begun=lambda runner: sim.Control(runner.simulation.manager).publish("storm", 1)
    )
    with pytest.raises(UsageError, match="came from outside") as caught:
        sim.branch(str(result.run), without=[number(str(result.run), "storm")])
    assert caught.value.hint is not None


def intervened(folder: Path, entry: str) -> sim.RunResult:
    """Run the scenario with an intervention."""
    file = folder / "news.yaml"
    file.write_text(f"{NEWS}interventions: [{entry}]\n", encoding="utf-8")
    return sim.run(file, out=folder / "runs")


@pytest.mark.parametrize(
    ("entry", "heard", "flashes"),
    [
        ("{at: 0s, suppress: {message: rumour}}", [2, 0, 0], 1),
        ("{at: 10s, suppress: {message: '*'}}", [1, 1, 1], 1),
        ("{at: 0s, suppress: {message: rumour, to: [reader-2]}}", [6, 0, 4], 1),
        ("{at: 0s, suppress: {message: rumour, count: 2}}", [5, 3, 4], 1),
        ("{at: 0s, suppress: {message: rumour, for: 3s}}", [5, 3, 3], 1),
        ("{at: 0s, suppress: {message: rumour, from: readers}}", [6, 4, 4], 1),
        ("{at: 0s, replace: {message: rumour, data: 10, from: press}}", [22, 20, 20], 1),
        ("{at: 0s, suppress: {event: flash}}", [6, 4, 4], 0),
        ("{at: 0s, replace: {event: '*', from: press, data: {size: 5}}}", [6, 4, 4], 5),
    ],
)
def test_interventions_suppress_and_replace(tmp_path, entry, heard, flashes):
    """From its time on, an intervention edits what its topic, sender, receiver, number and time describe."""
    result = intervened(tmp_path, entry)
    found = states(result.run)
    assert [found[f"reader-{n}"]["heard"] for n in (1, 2, 3)] == heard
    assert {one["flashes"] for one in found.values()} == {flashes}
    assert sim.replay(str(result.run)).hash == result.hash
    assert sum(row[4] == "intervention.applied" for row in rows(result.run)) == 1


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{at: 0s, suppress: {}}", "expected message or event"),
        ("{at: 0s, suppress: {message: a, event: b}}", "expected message or event"),
        ("{at: 0s, suppress: {event: flash, to: readers}}", "has no `to`"),
        ("{at: 0s, suppress: {event: agent.state}}", "is not for agents"),
        ("{at: 0s, suppress: {event: a..b}}", "not a topic pattern"),
        ("{at: 0s, replace: {message: rumour}}", "data"),
        ("{at: 0s, suppress: {message: rumour, from: pres}}", "pres"),
        ("{at: 0s, agents: press, suppress: {message: rumour}}", "has no agents and no where"),
        ("{at: end, suppress: {message: rumour}}", "would change nothing"),
        ("{at: 0s, suppress: {message: rumour, count: 0}}", "count"),
    ],
)
def test_wrong_interventions_are_refused(tmp_path, entry, words):
    """Each fault is told at its line, before anything runs."""
    with pytest.raises(ScenarioError, match=words) as caught:
        intervened(tmp_path, entry)
    assert all(problem.line == NEWS.count("\n") + 1 for problem in caught.value.problems)


@pytest.mark.proof
def test_only_infecting_messages_matter(tmp_path):
    """In an outbreak, leaving out a message by which somebody fell ill changes who is ill when; leaving out one to a
    person who was ill or immune changes nothing."""
    run = str(sim.run(ROOT / "scenarios" / "contagion.yaml", out=tmp_path / "runs").run)

    def infections(folder: str | None) -> list[tuple[int, str]]:
        return [(row[0], row[3]) for row in rows(folder) if row[4] == "person.infected"]

    events, ill = rows(run), dict[str, int]()
    causes: dict[int, str] = {}
    with open_run(Path(run)) as stored:
        sql = (
            "SELECT m.id, i.actor, i.time_ns FROM events i JOIN events m ON m.source = i.cause_source AND m.counter ="
            " i.cause_counter WHERE i.topic = 'person.infected' AND m.topic = 'message.sent' ORDER BY i.id"
        )
        for id, actor, time_ns in stored.query(sql):
            causes[id] = actor
            ill[actor] = time_ns
    base = infections(run)
    assert len(causes) > 15
    for which, person in list(causes.items())[:8]:
        changed = infections(sim.branch(run, without=[which], record=True).run)
        assert (ill[person], person) not in changed
    inert = [
        at
        for at, row in enumerate(events, 1)
        if row[4] == "message.sent" and at not in causes and (to := _receiver(row)) in ill and ill[to] < row[0]
    ]
    for which in inert[:: max(1, len(inert) // 8)]:
        assert infections(sim.branch(run, without=[which]).run) == base


def _receiver(row: Row) -> str:
    """Return to whom a message was sent."""
    return str(json.loads(row[5])["to"])

"""What rules can do with pools: filtered get, giving up, preemption; and messages that arrive later."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.record import open_run
from sim.runner import replay

BOTH = [("autonomous", "asyncio"), ("autonomous", "trio"), ("tick", "asyncio"), ("tick", "trio")]


class Played:
    """A recorded run: its result and its events as (seconds, agent, topic, data)."""

    def __init__(self, result: sim.RunResult) -> None:
        self.result = result
        assert result.run is not None
        with open_run(Path(result.run)) as stored:
            events: list[Any] = list(stored.events())
        self.events = [(row[0] / 1e9, row[5], row[6], row[7]) for row in events]

    def actions(self, agent: str, kind: str) -> list[tuple[float, Any]]:
        """Return when an agent did an action of a kind, and its result, or why it was refused."""
        rows = [(time, data) for time, who, topic, data in self.events if (who, topic) == (agent, f"action.{kind}")]
        return [(time, data["error"] if data.get("error") else data.get("result")) for time, data in rows]


@pytest.fixture(params=BOTH, ids="-".join)
def play(request, tmp_path):
    """Run a scenario in each mode and backend, and replay it on the other backend."""
    mode, backend = request.param
    path = tmp_path / "scenario.yaml"

    def run(text: str) -> Played:
        path.write_text("name: pools\nuntil: 1h\nexecution: {tick: {period: 1s}}\n" + text)
        result = sim.run(path, mode=mode, backend=backend, out=tmp_path / "runs")
        assert result.run is not None
        again = replay(result.run, backend="trio" if backend == "asyncio" else "asyncio")
        assert again.same, again.difference
        return Played(result)

    return run


def test_a_filtered_get_takes_the_first_item_that_passes(play):
    """`where` sees the item and the agent's names; an item that does not pass stays for others, and one that comes
    later and passes ends the wait.
    """
    played = play("""
pools: {jobs: {kind: store, items: [{skill: cook}, {skill: paint}]}}
agents:
  - {name: painter, state: {skill: paint}, rules: [{do: {get: {pool: jobs, where: item.skill == skill}}}]}
  - name: boss
    start: 10m
    rules: [{when: iteration == 1, do: {put: {pool: jobs, item: {skill: paint, n: 2}}}}, {do: stop}]
metrics: {every: 1h, values: {left: level('jobs')}}
""")
    got = played.actions("painter", "get")

    assert [data for _, data in got] == [{"skill": "paint"}, {"n": 2, "skill": "paint"}]
    assert got[1][0] >= 600
    assert played.result.metrics["left"][-1] == 1


def test_a_wait_gives_up_after_its_timeout(play):
    """Without a slot in time the result has the error `timeout`; the agent holds nothing, and did not fail."""
    played = play("""
pools: {desk: {kind: resource}}
agents:
  - {name: owner, rules: [{when: iteration == 1, do: {acquire: {pool: desk}}}, {do: {sleep: {for: 2h}}}]}
  - name: guest
    start: 1m
    rules:
      - {when: result and result.error == 'timeout', record: {held: "=holds('desk')"}, do: stop}
      - {do: {acquire: {pool: desk, timeout: 5m}}}
""")
    ((time, error),) = played.actions("guest", "acquire")

    assert error == "timeout"
    assert 360 <= time <= 362
    assert played.result.errors == 0
    assert played.result.observations["held"].maximum == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "action"),
    [
        ("{kind: resource}", "acquire: {pool: p, amount: 1, or_event: bell.*}"),
        ("{kind: store}", "get: {pool: p, or_event: bell.*}"),
        ("{kind: container, capacity: 1, level: 1}", "put: {pool: p, amount: 1, or_event: bell.*}"),
    ],
)
def test_a_wait_gives_up_at_an_event(play, pool, action):
    """Whatever is waited for, an event of the pattern ends the wait, and the result names its topic."""
    first = "{acquire: {pool: p}}" if "resource" in pool else "noop"
    played = play(f"""
pools: {{p: {pool}}}
agents:
  - {{name: owner, rules: [{{when: iteration == 1, do: {first}}}, {{do: {{sleep: {{for: 2h}}}}}}]}}
  - {{name: guest, start: 1m, rules: [{{when: iteration == 1, do: {{{action}}}}}, {{do: stop}}]}}
events: [{{at: 30s, topic: bell.early}}, {{at: 7m, topic: bell.noon}}]
""")
    ((time, error),) = played.actions("guest", action.partition(":")[0])

    assert (time, error) == (420, "event bell.noon")
    assert played.result.errors == 0


def test_what_is_there_is_taken_at_once(play):
    """With a timeout of 0, an action succeeds if nothing has to be waited for, and else gives up at once."""
    played = play("""
pools: {jobs: {kind: store, items: [one]}}
agents:
  - {name: worker, rules: [{when: iteration <= 2, do: {get: {pool: jobs, timeout: 0}}}, {do: stop}]}
""")

    assert [what for _, what in played.actions("worker", "get")] == ["one", "timeout"]


PREEMPTED = """
pools: {machine: {kind: preemptive, slots: 1}}
agents:
  - name: job
    state: {done: 0, lost: 0}
    rules:
      - {when: holds('machine') == 0 and done == 0, do: {acquire: {pool: machine, priority: 5}}}
      - {when: woken_by == 'time' and holds('machine') == 1, do: {release: {pool: machine}}, set: {done: 1}}
      - {when: done == 0, do: {sleep: {any: [{for: 20m}, {event: pool.preempted, where: data.agent == me}]}}}
      - {do: stop}
  - name: boss
    start: 5m
    rules:
      - {when: iteration == 1, do: {acquire: {pool: machine, priority: 1, preempt: PREEMPT}}}
      - {when: iteration == 2, do: {sleep: {for: 10m}}}
      - {when: holds('machine') == 1, do: {release: {pool: machine}}}
      - {do: stop}
"""


def test_a_slot_is_preempted(play):
    """A request of a lower number takes the slot of its user, which holds it no longer, gets an event, and may ask
    again; the slot is handed on when the other one is through.
    """
    played = play(PREEMPTED.replace("PREEMPT", "true"))
    (lost,) = [(time, data) for time, _, topic, data in played.events if topic == "pool.preempted"]

    assert lost == (pytest.approx(300, abs=2), {"agent": "job", "by": "boss", "pool": "machine"})
    assert len(played.actions("job", "acquire")) == 2
    assert played.actions("job", "acquire")[1][0] == pytest.approx(900, abs=5)
    assert played.result.errors == 0


def test_a_slot_is_not_preempted_unasked(play):
    """With `preempt: false` the request waits in line, in front of those of higher numbers."""
    played = play(PREEMPTED.replace("PREEMPT", "false"))

    assert played.actions("boss", "acquire")[0][0] >= 1200
    assert not [row for row in played.events if row[2] == "pool.preempted"]


def test_a_stopped_agent_gives_its_preemptive_slot_back(play):
    """An agent that stops holds nothing: the next one in line gets the slot."""
    played = play("""
pools: {machine: {kind: preemptive}}
agents:
  - name: first
    rules:
      - {when: iteration == 1, do: {acquire: {pool: machine}}}
      - {when: iteration == 2, do: {sleep: {for: 5m}}}
      - {do: stop}
  - {name: second, start: 1m, rules: [{when: iteration == 1, do: {acquire: {pool: machine}}}, {do: stop}]}
""")

    assert played.actions("second", "acquire")[0][0] == pytest.approx(300, abs=5)


def test_slots_of_a_preemptive_pool_are_acquired_one_by_one(play):
    """An amount other than 1 is refused with the reason."""
    played = play("""
pools: {machine: {kind: preemptive, slots: 3}}
agents: [{name: a, rules: [{when: iteration == 1, do: {acquire: {pool: machine, amount: 2}}}, {do: stop}]}]
""")

    assert "one by one, not 2" in played.actions("a", "acquire")[0][1]


def test_a_message_arrives_later(play):
    """With `after` the sender goes on at once, and the message arrives so much later, with the time of its arrival."""
    played = play("""
agents:
  - {name: ann, rules: [{when: iteration == 1, do: {send: {to: bob, data: hi, topic: note, after: 10m}}}, {do: stop}]}
  - {name: bob, rules: [{when: message, record: {came: =message.time}}, {do: {sleep: {message: true}}}]}
""")
    ((sent, data),) = [(time, data) for time, _, topic, data in played.events if topic == "message.sent"]

    assert played.actions("ann", "send")[0][0] < 5
    assert sent == played.actions("ann", "send")[0][0]
    assert data["arrives"] == pytest.approx(600, abs=2)
    assert played.result.observations["came"].minimum == data["arrives"]


def test_a_late_message_to_an_agent_that_has_stopped_is_reported(play):
    """A message that cannot be delivered when it arrives leaves an event that says why."""
    played = play("""
agents:
  - {name: ann, rules: [{when: iteration == 1, do: {send: {to: bob, after: 10m}}}, {do: {sleep: {for: 20m}}}]}
  - {name: bob, rules: [{do: stop}]}
""")
    (refused,) = [data for _, _, topic, data in played.events if topic == "message.refused"]

    assert (refused["to"], refused["reason"]) == ("bob", "bob has stopped")


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("get: {pool: jobs, where: itme.n > 1}", "there is no name 'itme' here"),
        ("get: {pool: jobs, where: level('jobs')}", "there is no function 'level' here"),
        ("get: {pool: jobs, timeout: soon}", "timeout"),
        (
            "acquire: {pool: jobs}",
            "the pool 'jobs' is of kind store, but this needs resource or priority or preemptive",
        ),
        ("get: {pool: jobs, or_event: 'not a topic'}", "is not a topic pattern"),
        ("send: {to: a, after: -5m}", "after"),
    ],
)
def test_wrong_input_is_refused_with_its_line(tmp_path, action, what):
    """A filter, a timeout or an event that makes no sense is refused before the run, with the line."""
    path = tmp_path / "scenario.yaml"
    path.write_text(
        f"name: wrong\npools: {{jobs: {{kind: store}}}}\nagents:\n  - name: a\n    rules:\n      - do: {{{action}}}\n"
    )

    with pytest.raises(sim.ScenarioError, match=what) as raised:
        sim.run(path)
    assert {problem.line for problem in raised.value.problems} == {6}

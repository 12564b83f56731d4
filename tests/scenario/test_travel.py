"""Agents that travel between islands: what they take along, how messages follow them, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import CausalityError, ScenarioError
from sim.record import open_run
from sim.record.summary import pairs
from sim.runner.shards import run_on_shards
from sim.scenario import loads

HEAD = """name: isles
until: 2m
islands: {latency: 10s, of: {north: [envoy, shop], south: [clerk], west: [smith]}, home: {pools: {desk: north}}}
pools: {desk: {kind: resource, slots: 9}}
agents:
"""

TRIP = (
    HEAD
    + """  - name: envoy
    state: {at: north, got: [], heard: []}
    subscribe: [bell.*]
    loop: {min_loop_delay: 1s}
    rules:
      - {when: now < 20, do: {sleep: {for: 20s}}}
      - {when: "at == 'north'", do: {travel: {to: south, after: 15s}}, set: {at: south}}
      - when: message is not None and result['success']
        do: noop
        set: {got: "=got + [[message.data, message.time, now]]"}
      - {when: event is not None, do: noop, set: {heard: "=heard + [event.topic]"}}
      - {do: {sleep: {any: [{message: true}, {event: 'bell.*'}]}}}
  - name: shop
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: n == 0, do: {send: {to: envoy, data: before, after: 5s}}, set: {n: 1}}
      - {when: n == 1, do: {send: {to: envoy, data: follows, after: 24s}}, set: {n: 2}}
      - {do: [{publish: {topic: bell.north}}, {sleep: {for: 30s}}]}
  - name: clerk
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: n == 0, do: {sleep: {for: 40s}}, set: {n: 1}}
      - {when: n == 1, do: {send: {to: envoy, data: here}}, set: {n: 2}}
      - {when: n == 2, do: {publish: {topic: bell.south}}, set: {n: 3}}
      - {do: {sleep: {for: 1h}}}
  - name: smith
    rules: [{do: [{send: {to: envoy, data: far, after: 30s}}, {sleep: {for: 1h}}]}]
"""
)


def test_an_agent_travels_with_its_state_and_its_mailbox(tmp_path: Path) -> None:
    """An agent arrives with its state and the messages that it has not read. A message that it missed follows it, a
    latency later. It hears events of the island where it is, and agents there write to it without a delay."""
    path = tmp_path / "isles.yaml"
    path.write_text(TRIP)
    result = sim.run(path, out=tmp_path / "runs")
    with open_run(str(result.run)) as run:
        state = (run.info.digest or {})["agents"]["envoy"]["state"]
        changes = [
            (row.time_ns // 10**9, row.data["from"], row.data["to"]) for row in run.rows(["agent.state"], ["envoy"])
        ]
    assert state["got"] == [
        ["before", 5, 35], ["follows", 35, 36], ["far", 40, 40], ["here", 40, 41],
    ]  # fmt: skip
    assert state["heard"] == ["bell.south"]
    assert {(20, "stopping", "stopped"), (35, "stopped", "starting")} <= set(changes)
    assert not [change for change in changes if 20 < change[0] < 35]
    assert sim.replay(str(result.run)).same
    assert sim.branch(str(result.run), at=27, record=False).hash == result.hash, "while it is under way"


RULES = """  - name: envoy
    count: 2
    rules: [{do: %s}]
  - {name: shop, rules: [{do: %s}]}
  - {name: clerk, rules: [{do: {sleep: {for: 1h}}}]}
  - {name: smith, rules: [{do: {sleep: {for: 1h}}}]}
"""
MANY = HEAD + RULES
GO = "{travel: {to: south, after: 10s}}"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (MANY % ("{travel: {to: south}}", "noop"), 8, "after"),
        (MANY % ("{travel: {to: south, after: 9s}}", "noop"), 8, "the way takes 9s, and between islands it takes at"),
        (MANY % ("{travel: {to: sout, after: 10s}}", "noop"), 8, "there is no island 'sout' to travel to"),
        (MANY % (f"[{GO}, noop]", "noop"), 8, "must be the last"),
        (
            (MANY % (f"[{{acquire: {{pool: desk}}}}, {GO}]", "noop")).replace("desk: north", ""),
            4,
            "pools.desk: no rule names it, so its home island is not known",
        ),
        (
            MANY % (GO, "noop") + "limits: {acts: {agent: 5 per 1m}}\n",
            8,
            "gives it limits, which count what each agent",
        ),
        ((MANY % (GO, "noop")).replace("count: 2", "balance: 2"), 8, "gives it money, whose account is on one island"),
        (MANY % (GO, "{send: {to: envoy, after: 20s}}"), 9, "sends to envoy of the island south, which is a group"),
        (
            (MANY % (GO, "noop")).replace("count: 2", "place: a") + "places: {nodes: [a]}\n",
            8,
            "gives it places, which are on one island",
        ),
        (
            MANY % (GO, "noop")
            + "artifacts: [{id: book, owner: envoy-1, content: 1, formula: content + 1, price: 1}]\n",
            12,
            "envoy-1 travels, but is paid for 'book' on",
        ),
        (
            (MANY % (GO, "noop")).replace("islands: {latency: 10s", "# "),
            8,
            "travel needs islands, but the file has none",
        ),
    ],
)
def test_what_cannot_travel_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    """What a file itself shows is a problem with its line."""
    with pytest.raises(ScenarioError) as caught:
        loads(text)
    found = [(problem.line, problem.message) for problem in caught.value.problems]
    assert any(message in said and at == line for at, said in found), found


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        ("{travel: {to: =me, after: 10s}}", "there is no island 'envoy-1'"),
        ("{travel: {to: \"='north'\", after: 10s}}", "envoy-1 is on the island north already"),
        ("{travel: {to: south, after: \"='soon'\"}}", "after is no duration"),
        ("[{acquire: {pool: desk}}, {travel: {to: south, after: 10s}}]", "envoy-1 holds desk, which cannot travel"),
    ],
)
def test_what_is_computed_is_refused_when_it_happens(tmp_path: Path, do: str, reason: str) -> None:
    """A name or a delay that is computed, and what an agent holds, are found when it would leave."""
    path = tmp_path / "isles.yaml"
    path.write_text(MANY % (do, "noop"))
    result = sim.run(path, out=tmp_path / "runs")
    with open_run(str(result.run)) as run:
        errors = [row.data["error"] for row in run.rows(["agent.error"], ["envoy-1"])]
    assert reason in errors[0]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            ('{travel: {to: south, after: "=9"}}', "noop"),
            "envoy-1 of the island north travels to south in 9s, and the way takes at least 10s, at 0s",
        ),
        (
            (GO, "[{sleep: {for: 5s}}]\n      - {do: {send: {to: envoy-1}}}"),
            "shop of the island north sends to envoy-1 of the island south with a latency of 0s",
        ),
    ],
)
def test_what_would_pass_without_a_latency_stops_the_run(tmp_path: Path, rules: Any, message: str) -> None:
    """A way that is too short, and a message without a delay to an agent that has left, stop the run."""
    path = tmp_path / "isles.yaml"
    text = MANY % (rules[0], "noop")
    if "sleep" in rules[1]:
        text = text.replace("rules: [{do: noop}]", "state: {n: 0}, rules: [" + LATER + "]")
    path.write_text(text)
    with pytest.raises(CausalityError) as caught:
        sim.run(path, out=None)
    assert message in str(caught.value)


LATER = "{when: n == 0, do: {sleep: {for: 5s}}, set: {n: 1}}, {do: {send: {to: envoy-1}}}"


UNDER_WAY = """name: isles
until: 2m
islands: {latency: 10s, of: {north: [envoy], south: [clerk]}}
agents:
  - name: envoy
    state: {at: north, n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: now < 20, do: noop}
      - {when: "at == 'north'", do: {travel: {to: south, after: 30s}}, set: {at: south}}
      - {do: noop, set: {n: "=n + 1"}}
  - {name: clerk, rules: [{do: {sleep: {for: 1h}}}]}
"""


@pytest.mark.parametrize(
    ("what", "done"),
    [("nothing", 70), ("stop", 0), ("stop all", 0), ("start", 70), ("remove", None)],
)
def test_an_agent_under_way_is_stopped_or_removed_and_not_started(tmp_path: Path, what: str, done: int | None) -> None:
    """A stop holds when the agent arrives, a start has no effect, and a removed agent does not come back."""
    managers = []

    def begun(runner: Any) -> None:
        manager, kernel = runner.simulation.manager, runner.simulation.world.kernel
        managers.append(manager)
        calls = {
            "nothing": lambda: None, "stop": lambda: manager.loops["envoy"].request_stop("stop"),
            "stop all": manager.request_stop_all, "start": lambda: manager.start(manager.loops["envoy"]),
            "remove": lambda: manager.remove_loop("envoy"),
        }  # fmt: skip
        with kernel.acting_as(kernel.host):
            kernel.call_at(30 * 10**9, calls[what], kernel.host)

    path = tmp_path / "isles.yaml"
    path.write_text(UNDER_WAY, encoding="utf-8")
    sim.run(path, out=None, begun=begun)
    envoy = managers[0].world.agents.get("envoy")
    assert (None if envoy is None else envoy.state["n"]) == done
    assert managers[0].world.running == 0


@pytest.mark.parametrize("seconds", [19, 20, 21, 30])
def test_a_stop_of_all_ends_the_run_when_the_last_traveller_arrives(tmp_path: Path, seconds: int) -> None:
    """Who is stopped before it leaves, in the iteration in which it leaves, or on its way, does not start again; the
    run ends when no agent is under way any more."""

    def begun(runner: Any) -> None:
        manager, kernel = runner.simulation.manager, runner.simulation.world.kernel
        with kernel.acting_as(kernel.host):
            kernel.call_at(seconds * 10**9, manager.request_stop_all, kernel.host)

    path = tmp_path / "isles.yaml"
    path.write_text(UNDER_WAY, encoding="utf-8")
    result = sim.run(path, out=None, begun=begun)
    assert result.stopped_by == "all agents have stopped"
    assert result.states["stopped"] == result.agents
    assert result.sim_seconds == (50 if seconds > 20 else seconds)


@pytest.mark.parametrize(("until", "count"), [("11s", 2), ("14s", 1), ("22s", 2), ("40s", 2), ("1m", 0)])
def test_messages_under_way_at_the_end_are_counted(tmp_path: Path, until: str, count: int) -> None:
    """Messages that have not arrived count, those that wait for a traveller too, and those that it has with it; as many
    are under way on shards."""
    clerk = """- name: clerk
    state: {sent: 0}
    rules:
      - {when: sent == 0, do: [{send: {to: envoy, after: 12s}}, {send: {to: envoy, after: 25s}}], set: {sent: 1}}
      - {do: {sleep: {for: 1h}}}
"""
    text = UNDER_WAY.replace("- {name: clerk, rules: [{do: {sleep: {for: 1h}}}]}\n", clerk)
    text = text.replace(
        "  - {when: now < 20", "  - {when: message is not None and now > 55, do: noop}\n      - {when: now < 20"
    )
    path = tmp_path / "isles.yaml"
    path.write_text(text.replace("until: 2m", f"until: {until}"), encoding="utf-8")
    result, divided = sim.run(path, out=None), run_on_shards(path, 2, out=None)
    assert (result.under_way, divided.under_way, divided.hash) == (count, count, result.hash)
    said = dict(pairs(result.to_json()))
    assert ("under way" in said) is (count > 0)


def test_a_traveller_cannot_read_what_is_at_home_elsewhere(tmp_path: Path) -> None:
    """What it read there would be another value on shards, so it stops the run; a task of its own keeps it at home."""
    read = UNDER_WAY.replace('do: noop, set: {n: "=n + 1"}', 'do: noop, set: {n: "=len(free_places())"}')
    path = tmp_path / "isles.yaml"
    path.write_text(read + "places: {nodes: [a, b]}\n", encoding="utf-8")
    with pytest.raises(CausalityError, match="envoy of the island south uses the places of the island north, at 50s"):
        sim.run(path, out=None)
    busy = "{when: n == 0, do: {create_task: {title: t, to: envoy}}, set: {n: 1}}"
    path.write_text(UNDER_WAY.replace("{when: now < 20, do: noop}", busy), encoding="utf-8")
    assert "envoy has open tasks, which cannot travel" in (sim.run(path, out=None).commonest_error or "")

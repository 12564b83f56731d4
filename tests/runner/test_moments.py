"""The state of a run at one moment, as a replay finds it there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.kernel.codec import JsonObject
from sim.record import open_run
from sim.runner import checkpoints
from sim.runner.checkpoints import Moments
from sim.runner.moment import Moment
from sim.runner.moments import arrive, moment_of, place_of
from sim.runner.options import ReplayOptions
from sim.runner.replay_process import FORKS
from sim.runner.walk import Walk
from tests.helpers import command

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").glob("*.yaml"))
"""All scenarios that are shipped, each with the part of it that a test runs."""

UNTIL = {
    "asch": "15s", "axelrod": "1m", "cascade": "30s", "civil_violence": "3s", "community": "1d", "contagion": "12h",
    "culture": "30s", "debate": "35s", "ecology": "1h", "hawk_dove": "20s",
    "herd": "4h", "propagation": "6h", "helpdesk": "1d", "houston": "6h",
    "jury": "2m", "lead_response": "6h", "opinions": "3s", "queue": "1h", "regions": "10d", "schelling": "10s",
    "smallville": "8h", "software_team": "1h",
    "sugarscape": "5s", "town": "2m", "wolf_sheep": "3s",
}  # fmt: skip


WAITS = """
name: waits
until: 20s
pools: {desk: {kind: resource, slots: 1}}
agents:
  - name: user
    count: 2
    rules:
      - {when: "not holds('desk')", do: {acquire: {pool: desk}}}
      - do: {sleep: {for: 1h}}
  - name: lazy
    rules: [{do: {sleep: {event: bell, timeout: 1h}}}]
  - name: writer
    state: {sent: 0}
    loop: {min_loop_delay: 3s}
    rules:
      - {when: sent < 2, set: {sent: "=sent + 1"}, do: {send: {to: lazy, data: "=sent"}}}
      - do: noop
"""

SOON = ("community", "contagion", "debate", "helpdesk", "houston", "lead_response", "queue", "software_team", "town")
"""Those of each kind of agents, which take the least time."""

FEWER = {
    "cascade": ["agents.person.count=210"], "civil_violence": ["agents.citizen.count=300", "agents.cop.count=20"],
}  # fmt: skip


def at(run: str | Path, when: str | None = None, event: int | None = None) -> Moment:
    """Return a moment of a run."""
    with open_run(Path(run)) as stored:
        return moment_of(stored, place_of(stored, when, event), ReplayOptions())


def made(folder: Path, text: str) -> str:
    """Return a recorded run of a scenario."""
    file = folder / "made.yaml"
    file.write_text(text, encoding="utf-8")
    return str(sim.run(file, out=folder).run)


def final(run: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the final state of a run on record: that of what agents share, and that of the agents."""
    with open_run(Path(str(run))) as stored:
        digest = dict(stored.info.digest or {})
        return digest, digest.pop("agents")


def shared(world: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of what agents share without what the end of a run withdraws: requests to people."""
    services = {name: one for name, one in world.get("services", {}).items() if name not in ("approvals", "audit")}
    return {**world, "services": services}


def of_agents(moment: Moment) -> dict[str, Any]:
    """Return the state of the agents at a moment, with the keys of the final state."""
    return {
        name: {"loop": [one["state"], one["iterations"], one["errors"]], "mail": one["mail"],
               "state": one["variables"], **cast(JsonObject, one["more"])}
        for name, one in moment.agents.items()
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "until"),
    [
        pytest.param(file, UNTIL[file.stem], id=file.stem, marks=() if file.stem in SOON else pytest.mark.proof)
        for file in SHIPPED
    ],
)
def test_a_moment_is_what_a_run_until_then_ends_with(file, until, tmp_path):
    """The state at a time is the final state of a run until then, and that at the end is the one on record."""
    overrides = FEWER.get(file.stem, ())
    whole = sim.run(file, out=tmp_path, until=until, overrides=overrides)
    if file.stem == "town":  # its agents are at different times before
        moment = at(str(whole.run))
        assert (moment.world, of_agents(moment)) == final(whole.run)
        return
    with open_run(Path(str(whole.run))) as stored, Walk(stored, ReplayOptions()) as walk:
        half = f"{(stored.info.sim_ns or 0) // 2}ns"
        there = arrive(walk, (stored.info.sim_ns or 0) // 2)
        end = arrive(walk, walk.end_ns)
    assert (end.world, of_agents(end)) == final(whole.run)
    part = sim.run(file, out=tmp_path, until=half, overrides=overrides)
    world, agents = final(part.run)
    assert (shared(there.world), of_agents(there)) == (shared(world), agents)


def test_an_agent_is_shown_with_what_it_waits_for(tmp_path):
    """Sleeps, messages that are left or new, actions under way, held slots, timers and variables."""
    run = made(tmp_path, WAITS)
    moment = at(run, "7s")
    first, second, lazy, writer = (moment.agent(name) for name in ("user-1", "user-2", "lazy", "writer"))
    assert first["holds"] == {"desk": 1}
    assert (second["doing"], second["state"]) == ("acquire", "running")
    assert second["arguments"] is not None
    assert second["arguments"]["pool"] == "desk"
    assert second["began"] == 0
    assert lazy["why"] == {"type": "event", "value": "bell", "timeout": 3600}
    assert (lazy["state"], lazy["since"]) == ("sleeping", 0)
    assert lazy["timers"] == [{"at": 3600, "what": "wakes, as its sleep lasts no longer"}]
    assert [(one["data"], one["is"]) for one in lazy["letters"]] == [(0, "new"), (1, "new")]
    assert writer["variables"] == {"sent": 2}
    assert writer["timers"] == [{"at": 9, "what": "next iteration"}]
    assert moment.world["pools"]["desk"]["queue"] == 1


def test_an_event_names_the_moment_after_its_step(tmp_path):
    """After the step of the first event, one message has been sent; after the step of the last, the run has ended."""
    run = made(tmp_path, WAITS)
    with open_run(Path(run)) as stored:
        ids = [id for (id,) in stored.query("SELECT id FROM events WHERE topic = 'message.sent' ORDER BY id")]
        ((last,),) = stored.query("SELECT max(id) FROM events")
    for count, id in enumerate(ids[:2], 1):
        moment = at(run, event=id)
        assert moment.agent("writer")["variables"]["sent"] == count
        assert moment.agent("lazy")["mail"] == count
    assert at(run, event=last).ended
    assert not moment.ended


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_moment_of_a_run_that_was_resumed_or_branched(backend, mode, tmp_path):
    """A run that was interrupted and resumed, and a branch, have the moments of a run that was neither."""
    file = tmp_path / "waits.yaml"
    file.write_text(WAITS, encoding="utf-8")
    run = str(sim.run(file, out=tmp_path, mode=mode, backend=backend).run)
    known = at(run, "7s")
    assert of_agents(at(str(sim.branch(run, at="3s", out=tmp_path).run), "7s")) == of_agents(known)

    def stop(runner: Any) -> None:
        runner.after_instant = lambda: runner.host.suspend() if runner.simulation.world.now >= 4 else None

    half = sim.run(file, out=tmp_path, mode=mode, backend=backend, begun=stop, on_interrupt="return")
    assert half.status == "interrupted"
    assert of_agents(at(str(half.run), "3s")) == of_agents(at(run, "3s"))
    sim.resume(str(half.run))
    assert of_agents(at(str(half.run), "7s")) == of_agents(known)


@pytest.mark.slow
def test_a_moment_of_an_archived_run(tmp_path):
    """`sim.open` takes an archive, and its moments are those of the run."""
    run = made(tmp_path, WAITS)
    file = tmp_path / "waits.zip"
    command("archive", run, "--to", file)
    with sim.open(file) as stored, sim.open(run) as known:
        assert of_agents(stored.at("7s")) == of_agents(known.at("7s"))
        assert "lazy" in repr(stored.at("7s"))
        assert stored.at("7s").to_json()["time"] == 7


def test_what_cannot_be_shown_says_why(tmp_path):
    """A time after the end, an agent that does not exist, and changed code are refused, with what to do."""
    run = made(tmp_path, WAITS)
    with pytest.raises(UsageError, match="ends at 20s, before 21s"):
        at(run, "21s")
    with pytest.raises(UsageError, match="there is no agent 'lasy' at 7s") as error:
        at(run, "7s").agent("lasy")
    assert error.value.hint == "did you mean 'lazy'?"
    with pytest.raises(UsageError, match="there is no event 9999"):
        at(run, event=9999)
    scenario = Path(run) / "scenario.yaml"
    scenario.write_text(scenario.read_text("utf-8").replace("sent + 1", "sent + 2"), encoding="utf-8")
    with open_run(Path(run), verify=False) as stored, pytest.raises(RunError, match="was changed after the run"):
        moment_of(stored, place_of(stored, "7s", None), ReplayOptions())
    with (
        open_run(Path(run), verify=False) as stored,
        pytest.raises(RunError, match="its state is not known") as differs,
    ):
        moment_of(stored, place_of(stored, "7s", None), ReplayOptions(allow_change=True))
    assert "sim replay" in str(differs.value.hint)


@pytest.mark.slow
def test_a_session_finds_moments_in_any_order(tmp_path):
    """Each moment of a session is that of a replay of its own, before and after others, and the end too."""
    run = str(sim.run(ROOT / "scenarios" / "queue.yaml", out=tmp_path, until="6h").run)
    with sim.open(run) as stored, stored.moments() as moments:
        for when in ("4h", "1h", "5h", "6h", "30m", "4h"):
            found, known = moments.at(when), stored.at(when)
            assert (found.time, found.events, found.world) == (known.time, known.events, known.world)
            assert [*found.agents.items()] == [*known.agents.items()]  # in the same order
        with pytest.raises(UsageError, match="ends at 6h, before 7h"):
            moments.at("7h")
        assert moments.at("2h").time == 7200


@pytest.mark.slow
@pytest.mark.skipif(not FORKS, reason="processes are not forked here")
def test_a_session_with_little_memory_finds_the_same(tmp_path, monkeypatch):
    """If memory is short, every second checkpoint is not made, and the moments are the same."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 9 kB\nMemAvailable: 251 kB\n", encoding="ascii")
    assert checkpoints._is_room(meminfo)
    meminfo.write_text("MemTotal: 1000 kB\nMemFree: 9 kB\nMemAvailable: 250 kB\n", encoding="ascii")
    assert not checkpoints._is_room(meminfo)
    run = Path(str(sim.run(ROOT / "scenarios" / "queue.yaml", until="3h", out=tmp_path).run))
    found = []
    for room in (True, False):
        monkeypatch.setattr(checkpoints, "_is_room", lambda room=room: room)
        with Moments(run, ReplayOptions()) as moments:
            found.append([moments.at(when) for when in ("2h30m", "1h", "2h", "10m")])
    assert found[0] == found[1]


def test_a_session_says_what_cannot_be_shown(tmp_path):
    """Errors of the processes behind a session are those of a replay."""
    run = made(tmp_path, WAITS)
    with open_run(Path(run)) as stored, Moments(stored.path, ReplayOptions()) as moments:
        scenario = stored.path / "scenario.yaml"
        scenario.write_text(scenario.read_text("utf-8").replace("sent + 1", "sent + 2"), encoding="utf-8")
        with pytest.raises(RunError, match="was changed after the run"):
            moments.at("7s")

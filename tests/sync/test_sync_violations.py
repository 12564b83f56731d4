"""Who reaches farther than it has declared is caught, and so is a policy that lets agents run too far ahead."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from sim import Action, Agent
from sim.actors import WakeCondition
from sim.base.errors import CausalityError, UsageError
from sim.runner.runner import RunController
from sim.runner.sync import policies
from sim.runner.sync.driver import SyncDriver
from sim.runner.sync.policies import Causal
from sim.world.space import PositionHistory
from tests.sync.sync_agents import KINDS, Walker, ask, scene, space_of, trial, walkers


class Sinner(Agent):
    """Does what it must not, after some calls."""

    reach = "space"

    async def decide_action(self) -> Action | None:
        await ask(self, 1)
        await SINS[self.state["sin"]](self)
        return None


async def _balance(agent: Agent) -> None:
    agent.world.ledger.balance("treasury")


async def _other(agent: Agent) -> None:
    agent.world.agents["w-2"].state.get("met")


async def _draw(agent: Agent) -> None:
    agent.world.stream("w-2").random()


async def _tell(agent: Agent) -> None:
    agent.world.event_bus.publish("a.b")


async def _act(agent: Agent) -> None:
    agent.world.act(agent, Action("publish", {"topic": "a.b"}))


async def _execute(agent: Agent) -> None:
    await agent.world.execute(agent, Action("transfer", {"to": "treasury", "amount": 1}))


async def _stop(agent: Agent) -> None:
    agent.shutdown()


async def _sleep(agent: Agent) -> None:
    agent.loop.sleep(WakeCondition.event("a.b"))


async def _streams(agent: Agent) -> None:
    agent.world.kernel.streams.get("w-2", "").random()


SINS: dict[str, Any] = {
    "stop": _stop, "sleep": _sleep, "streams": _streams,
    "ledger": _balance, "agents": _other, "stream": _draw, "bus": _tell, "act": _act, "execute": _execute,
}  # fmt: skip


@pytest.mark.parametrize(
    ("sin", "part"),
    [
        ("ledger", "world.ledger"),
        ("agents", "world.agents"),
        ("stream", "the random stream of 'w-2'"),
        ("bus", "world.event_bus"),
        ("act", "publish"),
        ("execute", "transfer"),
        ("stop", "stops while it runs ahead"),
        ("sleep", "falls asleep while it runs ahead"),
        ("streams", "world.kernel.streams"),
    ],
)
@pytest.mark.parametrize("policy", ["barrier", "causal"])
def test_what_was_not_declared_is_refused_by_name(sin, part, policy):
    """An agent that says it keeps to space, and touches what all share, ends the run: agent and part are named."""
    text = scene(f"{{name: w, count: 3, kind: sinner, balance: 9, state: {{sin: {sin}}}}}")
    with pytest.raises(CausalityError, match=r"w-[123] .*" + part):
        trial(text, policy, kinds={"sinner": Sinner})


class Peeping(Agent):
    """Shares, and looks into the heads of others, or acts before it is its turn."""

    reach = "shared"

    async def decide_action(self) -> None:
        await ask(self, 1)
        await SINS[self.state["sin"]](self)


@pytest.mark.parametrize(("sin", "part"), [("agents", "world.agents"), ("act", "publish"), ("stop", "stops while")])
@pytest.mark.parametrize("policy", ["barrier", "causal"])
def test_who_shares_may_not_do_everything_either(sin, part, policy):
    """An agent that shares sees all that has happened, but not others' states, which may be those of other times, and
    changes nothing before its turn.
    """
    text = scene(walkers(2), f"{{name: s, count: 2, kind: peeping, state: {{sin: {sin}}}}}")
    with pytest.raises(CausalityError, match=r"s-[12] .*" + part):
        trial(text, policy, kinds={**KINDS, "peeping": Peeping})


class Late(Walker):
    """Does a second, shared, action beside the one that it has decided on."""

    async def execute_action(self, action: Action) -> Any:
        result = await super().execute_action(action)
        await self.world.execute(self, Action("publish", {"topic": "a.b"}))
        return result


def test_a_second_action_does_not_slip_through_behind_the_first():
    """An action on what all share is also refused if the one that was decided on is no such action."""
    with pytest.raises(CausalityError, match="does publish"):
        trial(scene(walkers(3)), "causal", kinds={"walker": Late})


class Sharer(Walker):
    """Does in one go two things that all share, when it is its turn."""

    async def decide_action(self) -> Action:
        await super().decide_action()
        return Action("transfer", {"to": "treasury", "amount": 0.1})

    async def execute_action(self, action: Action) -> Any:
        result = await super().execute_action(action)
        await self.world.execute(self, Action("publish", {"topic": "a.b"}))
        return result


def test_whose_turn_it_is_may_share():
    """Once all that is earlier has happened for the action that it decided on, an agent may do more of the kind."""
    text = scene(walkers(4, more="balance: 9"))
    hashes = {trial(text, policy, kinds={"walker": Sharer}).hash for policy in ("barrier", "causal", "causal-radius")}
    assert len(hashes) == 1


class Farsighted(Walker):
    """Looks farther than one can see."""

    async def decide_action(self) -> None:
        space_of(self).near(self.agent_id, 3.5)


class Runner(Walker):
    """Goes two at a time."""

    def step(self, here: Any, seen: Any) -> Any:
        return [(here[0] + 2) % 16, here[1]]


def test_nobody_looks_farther_than_one_sees():
    """To look farther than the perception of the space is an error of the agent, which it hears of."""
    last = trial(scene(walkers(2)), "causal", kinds={"walker": Farsighted})
    errors = [row[7]["error"] for row in last.rows if row[6] == "agent.error"]  # type: ignore[index]
    assert errors
    assert all("wants to look 3.5 far, and one sees 3 far" in error for error in errors)


def test_nobody_walks_faster_than_one_goes():
    """A step that is longer than the speed of the space is refused, and the agent stays."""
    last = trial(scene(walkers(2)), "causal", kinds={"walker": Runner})
    assert last.result.refused["walk"] > 0
    assert "walk" not in last.result.kinds
    assert "cannot go from" in (last.result.commonest_error or "")


class Nearsighted(Causal):
    """A policy that thinks one sees half as far as one does."""

    def verdict(self, process: Any) -> Any:
        here = None if process.history is None else process.history.at(process.step).position
        for other in self._space.histories.values() if self._space is not None else ():
            far = self._space.reach.metric(here, other.at(other.final).position)  # type: ignore[union-attr]
            if other.final < process.step and far <= 1.5:
                return self._processes[other.agent_id]
        return None


class Reckless(Nearsighted):
    """The same, and nobody looks whether it was right."""

    strict = False


def test_a_rule_that_lets_agents_run_too_far_is_caught_when_they_look(monkeypatch):
    """The space itself knows what is not known yet: whoever was let go on too early cannot look around."""
    monkeypatch.setitem(policies.POLICIES, "causal", Nearsighted)
    text = scene(walkers(12, "{busy: 0.5}"))
    with pytest.raises(CausalityError, match=r"w-\d+ looks at step \d+, but w-\d+ may be in sight"):
        trial(text, "causal")


@pytest.mark.slow
def test_without_that_check_the_hash_would_tell(monkeypatch):
    """With the check off, the same policy leaves another record than the barrier: the check is needed, and
    comparing hashes is enough to find out.
    """
    monkeypatch.setitem(policies.POLICIES, "causal", Reckless)
    text = scene(walkers(12, "{busy: 0.5}"))
    assert any(trial(text, "causal", number).hash != trial(text, "barrier", number).hash for number in range(5))


@pytest.mark.slow
def test_free_keeps_nobody_waiting_and_causality_not():
    """`free` lets everybody go on with what it sees at that moment: nobody waits, and another record may come of it."""
    text = scene(walkers(10, "{busy: 0.5}"))
    runs = [(trial(text, "free", number), trial(text, "barrier", number)) for number in range(3)]
    assert all(free.service["waiting"] == 0 < barrier.service["waiting"] for free, barrier in runs)
    assert any(free.hash != barrier.hash for free, barrier in runs)


class Peeper(Walker):
    """Looks around several times in a step."""

    async def decide_action(self) -> Action | None:
        space = space_of(self)
        seen = [one.agent for radius in (2.0, None, 1.0) for one in space.near(self.agent_id, radius)]
        self.state["seen"] = [*self.state.get("seen", ()), seen][-5:]
        return await super().decide_action()


def sync_of(runner: RunController) -> SyncDriver:
    """Return what drives a run in rounds."""
    assert runner.sync is not None
    return runner.sync


def tell(seen: Mapping[tuple[str, int], tuple[str, ...]], runner: RunController) -> None:
    """Let an oracle know whom each agent will see."""
    sync_of(runner).know(seen)


@pytest.mark.slow
def test_an_oracle_leaves_the_same_record_and_waits_for_no_more_than_it_must():
    """Agents that are told whom they will see wait for these alone, and see and do what they did."""
    text = scene(walkers(10, "{busy: 0.5}"))
    kinds: dict[str, type[Agent]] = {**KINDS, "walker": Peeper}
    for number in range(3):
        first = trial(text, "causal", number, kinds=kinds, begun=lambda runner: sync_of(runner).study())
        seen = sync_of(first.runner).seen
        assert seen is not None
        oracle = trial(text, "causal", number, kinds=kinds, begun=partial(tell, seen))
        assert oracle.hash == first.hash
        assert oracle.service["waiting"] <= first.service["waiting"]
        assert oracle.service["critical_path"] == pytest.approx(first.service["critical_path"])


def test_what_an_agent_does_beside_the_kernels_own_waits_is_refused():
    """Calls from outside (effects) have no place in rounds: the agent hears so."""
    from sim.kernel import Effect, perform

    class Caller(Walker):
        async def decide_action(self) -> None:
            await perform(Effect("test", {}, lambda request, key: request, latency_ns=10**9))

    last = trial(scene(walkers(2)), "causal", kinds={"walker": Caller})
    assert "no host that carries out effects" in (last.result.commonest_error or "")


def test_calls_from_outside_are_refused():
    """A host program cannot change a world in which agents stand at different times."""

    def publish(runner: Any) -> None:
        with pytest.raises(UsageError):
            runner.simulation.world.submit("publish", {"topic": "a.b", "data": 1})

    trial(scene(walkers(2)), "causal", begun=publish)


def test_a_track_says_from_when_on_it_is_not_known():
    """A seat's history is known up to the step that it wants to begin: that is what all rules rest on."""
    histories: list[tuple[PositionHistory, int]] = []

    class Watcher(Walker):
        async def decide_action(self) -> Action | None:
            history = space_of(self).histories[self.agent_id]
            histories.append((history, history.final - round(self.world.now / 10)))
            return await super().decide_action()

    trial(scene(walkers(4)), "causal", kinds={"walker": Watcher})
    assert {ahead for _, ahead in histories} == {0}

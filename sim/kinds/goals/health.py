"""The health monitor: an agent that looks after stuck runs, stale agents and paused tasks."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sim.actors import Agent
from sim.agents.family import Family, define_family, has_ability
from sim.base.errors import UsageError
from sim.kernel import to_duration
from sim.kernel.codec import JsonObject
from sim.kinds.goals.events import HealthChecked
from sim.kinds.goals.orchestrator import StuckRun
from sim.kinds.goals.records import GoalAgent
from sim.kinds.goals.service import Goals
from sim.world import Action, Inhabitant, World
from sim.world.action import action


class GoalHealthMonitor(Agent):
    """An agent that checks the health of all goals, tasks and user agents: every five minutes by default, and whenever
    the retry of a paused task is due, so that it happens when the thread said that it would.
    """

    abilities = frozenset({"monitor health"})

    async def decide_action(self) -> Action:
        """Check if it is time; else sleep until it is."""
        while self.mailbox.take() is not None:
            pass  # messages mean nothing to it
        goals, now = Goals.of(self.world), self.world.kernel.now
        due = min([goals.next_check_ns, *goals.retries_due()])
        if now >= due:
            return Action("check_health")
        wake: list[JsonObject] = [{"until": to_duration(due)}, {"event": "goals.retry"}]
        return Action("sleep", {"condition": {"any": wake}})


@action("check_health", everywhere=False, draws=False)
def check_health(world: World, agent: Inhabitant) -> Mapping[str, int]:
    """Cancel stuck runs, end stale ones, resume and expire paused tasks, delete old ones; return how many of each."""
    goals = Goals.of(world)
    health, now = goals.settings.health, world.kernel.now
    if now >= goals.next_check_ns:
        goals.next_check_ns = now - now % health.every + health.every
    counts: Counter[str] = Counter()
    for record in goals.at("running"):
        if record.job is not None and now - record.job.started_ns > health.stuck:
            counts["stuck"] += _cancel(world, goals, record)
    for record in goals.at("idle", "delegating"):
        if record.kind.finishes and now - record.updated_ns > health.stale_task:
            goals.end(record, "finished", "no change for too long: marked as completed")
            counts["stale_tasks"] += _tell(goals, record, "stale_task")
    for record in goals.at("delegating"):
        if now - record.updated_ns > health.stale_goal:
            goals.set_stage(record, "idle")
            counts["stale_goals"] += _tell(goals, record, "stale_goal")
    for record in goals.at("paused"):
        if now - record.updated_ns > health.expire:
            goals.end(record, "ended", "paused for too long: cancelled")
            counts["expired"] += _tell(goals, record, "expired")
        elif record.retry is None or record.retry.due_ns <= now:
            goals.resume(record)
            counts["resumed"] += _tell(goals, record, "resumed")
    counts["removed"] = _clean_up(world, goals)
    goals.counts.update(counts)
    return +counts


def _cancel(world: World, goals: Goals, record: GoalAgent) -> bool:
    """Cancel a run that is stuck. One that waits for the approval of a person is not."""
    agent: Any = world.agents.get(record.agent_id)
    assert record.job is not None, "the agent runs"
    if agent is None or not agent.loop.interrupt(StuckRun(record.job.id)):
        return False
    return _tell(goals, record, "stuck")


def _tell(goals: Goals, record: GoalAgent, what: str) -> bool:
    goals.report(HealthChecked(agent=record.agent_id, found=what))
    return True


def _clean_up(world: World, goals: Goals) -> int:
    """Delete agents that ended long ago; return how many."""
    before = world.kernel.now - goals.settings.health.clean_up
    removed, kinds = 0, dict[str, None]()
    while goals.gone and goals.gone[0][0] < before:
        record = goals.records[goals.gone.popleft()[1]]
        goals.forget(record)
        kinds[record.kind.name] = None
        removed += _tell(goals, record, "removed")
    for kind in kinds:
        world.tasks.remove_ended(kind, before)
    return removed


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse monitors without anything to monitor, before the run."""
    monitors = [entry for entry in scenario.agents if has_ability(entry, "monitor health")]
    if monitors and "goals" not in scenario.sections:
        raise UsageError(f"agents.{monitors[0].name} monitors goals, but there are none", hint="add `goals: {}`")
    if sum(entry.size for entry in monitors) > 1:
        raise UsageError(f"agents.{monitors[-1].name}: one health monitor is enough", hint="remove the others")


define_family(Family("health_monitor", GoalHealthMonitor, check=_check, actions=(check_health,), draws=()))

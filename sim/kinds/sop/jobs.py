"""The recurring jobs of a company: watchers that look alone, the maintenance of memories, and the daily summary."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.agents.family import Family, define_family, has_ability
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel import to_duration
from sim.kernel.calendar import Calendar, Daily
from sim.kernel.codec import Json, JsonObject
from sim.kinds.sop import texts
from sim.kinds.sop.channels import Channels
from sim.kinds.sop.service import Sops
from sim.kinds.sop.settings import DAY_NS, JobsSettings
from sim.memory.memory import Memory
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action

MAINTENANCE: Final = "maintenance"
SUMMARY: Final = "summary"
"""The jobs that run once a day."""


class RecurringJobs(Agent):
    """An agent that runs one of the recurring jobs when it is due. One entry of a scenario is three such agents.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: the jobs.
    """

    abilities = frozenset({"run jobs"})
    parts = (MAINTENANCE, SUMMARY)  # the first agent has watchers look

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: JobsSettings | None = None,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.settings = settings or JobsSettings()

    async def on_start(self) -> None:
        """See `Agent.on_start`: have the job watched over."""
        sops = Sops.of(self.world)
        if self.part:
            sops.jobs.setdefault(self.part, _following(self.world, self._time))
            sops.watch_over(self.agent_id, DAY_NS, more=self.part == SUMMARY or sops.memories() is not None)
        elif (interval := sops.shortest_look()) is not None:
            sops.watch_over(self.agent_id, interval, more=True)

    @property
    def _time(self) -> str:
        """The time of day of the job."""
        return self.settings.maintenance if self.part == MAINTENANCE else self.settings.summary

    async def decide_action(self) -> Action:
        """Run the job if it is due; else sleep until it is."""
        while self.mailbox.take() is not None:
            pass  # messages mean nothing to it
        sops, now = Sops.of(self.world), self.world.kernel.now
        if not self.part:
            due, kind = sops.next_watch_ns(), "look"
        else:
            due, kind = sops.jobs[self.part], "maintain_memories" if self.part == MAINTENANCE else "summarize_day"
        if due is not None and due <= now:
            return Action(kind, {})
        return Action("sleep", {"condition": {"message": True} if due is None else {"until": to_duration(due)}})


def _following(world: World, daily: str) -> int:
    """Return the next time of a daily job, in simulated nanoseconds; without a calendar, days begin with the run."""
    schedule, calendar = Daily.parse(daily), world.calendar or Calendar.parse("2000-01-01T00:00")
    following = schedule.after(world.kernel.now, calendar)
    return world.kernel.now + DAY_NS if following is None else following


def _jobs_of(agent: Inhabitant) -> RecurringJobs:
    if not isinstance(agent, RecurringJobs):
        raise Refused(f"{agent.agent_id} runs no recurring jobs")
    return agent


@action("look", everywhere=False, draws=False)
def look(world: World, agent: Inhabitant) -> int:
    """Have all watchers look that look alone and are due; return the number of new tasks."""
    sops = Sops.of(world)
    made = len(sops.watch(sops.due_watchers()))
    sops.show_life(agent.agent_id)
    return made


async def _maintain(world: World, agent: Inhabitant) -> str:
    """Prune the memories of all agents, and post what was done."""
    jobs, sops = _jobs_of(agent), Sops.of(world)
    memories = sops.memories()
    sops.jobs[MAINTENANCE] = _following(world, jobs.settings.maintenance)
    if memories is None:
        return ""
    report = await memories.prune(_summariser(world, jobs))
    sops.show_life(agent.agent_id)
    Channels.of(world).post(sops.settings.ops_channel, agent.agent_id, report.sentence)
    return report.sentence


def _summariser(world: World, jobs: RecurringJobs) -> Callable[[str, Sequence[Memory]], Awaitable[str]] | None:
    system = jobs.settings.summarise
    if system is None:
        return None

    async def summarise(agent_id: str, old: Sequence[Memory]) -> str:
        arguments: dict[str, Json] = {
            "prompt": "\n".join(memory.line() for memory in old),
            "system": system,
            "use": "summarize",
        }
        if jobs.settings.tier:
            arguments["tier"] = jobs.settings.tier
        result = await world.execute(jobs, Action("ask", arguments))
        if not result.success:
            raise UsageError(result.error or "no model answered")
        return str(result.data["text"])

    return summarise


@action("maintain_memories", wait=_maintain, ends=True, everywhere=False, draws=False)
def maintain_memories(world: World, agent: Inhabitant, sentence: str) -> JsonObject:
    """Delete expired memories, summarize old ones, apply the cap, and post the numbers."""
    return {"report": sentence}


@action("summarize_day", everywhere=False, draws=False)
def summarize_day(world: World, agent: Inhabitant) -> JsonObject:
    """Post the daily summary, and repeat the warnings of employees that are silent."""
    jobs, sops, channels = _jobs_of(agent), Sops.of(world), Channels.of(world)
    sops.jobs[SUMMARY] = _following(world, jobs.settings.summary)
    sops.show_life(agent.agent_id)
    counts, silent = sops.since_summary(), sops.silent()
    now, calendar = world.kernel.now, world.calendar
    date = f"day {now // DAY_NS + 1}" if calendar is None else calendar.date(now)
    titles, failing = [heartbeat.title for heartbeat in silent], sops.faults.lasting
    channels.post(sops.settings.ops_channel, agent.agent_id, texts.daily_summary(date, counts, titles, failing))
    for heartbeat in silent:
        sops.warn(heartbeat)
    return {**counts, "silent": titles, "failing": failing}


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse jobs that cannot be done, before the run."""
    for entry in scenario.agents:
        if not has_ability(entry, "run jobs"):
            continue
        where, settings = f"agents.{entry.name}", attrs.evolve(entry.settings)
        if "sop" not in scenario.sections:
            raise UsageError(f"{where} runs the jobs of employees, but there are none", hint="add `sop:`")
        if settings.summarise is not None and "memory" in scenario.sections and scenario.models is None:
            raise UsageError(
                f"{where} has a model summarize memories, but there is none",
                hint="add `models: {}`, or set `summarise: null`",
            )
        if entry.size > 1:
            raise UsageError(f"{where}: a company has its jobs once, not {entry.size} times", hint="leave out `count`")


define_family(
    Family(
        "recurring_jobs",
        RecurringJobs,
        settings=JobsSettings,
        check=_check,
        actions=(look, maintain_memories, summarize_day),
        draws=(),
    )
)

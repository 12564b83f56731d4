"""The recurring jobs of a company: watchers that look alone, the maintenance of memories, and the daily summary."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.actors import Agent
from sim.agents.family import Family, define_family
from sim.agents.sop import texts
from sim.agents.sop.channels import Channels
from sim.agents.sop.service import Sops
from sim.agents.sop.settings import DAY_NS, JobsSettings
from sim.errors import UsageError
from sim.kernel import to_duration
from sim.kernel.calendar import Calendar, Daily
from sim.memory.memory import Memory
from sim.permissions import Permission
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action


class RecurringJobs(Agent):
    """An agent that runs recurring jobs, one after the other, when they are due.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: the jobs.
    """

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
        for job in ("maintenance", "summary"):
            Sops.of(world).jobs.setdefault(job, _following(world, getattr(self.settings, job)))

    async def decide_action(self) -> Action:
        """Run the first job that is due; else sleep until one is."""
        while self.mailbox.take() is not None:
            pass  # nobody needs to write to it
        sops, now = Sops.of(self.world), self.world.kernel.now
        if sops.due_watchers():
            return Action("look", {})
        for job, due in sops.jobs.items():
            if due <= now:
                return Action("maintain_memories" if job == "maintenance" else "summarize_day", {})
        times = [*sops.jobs.values(), *([] if (watch := sops.next_watch_ns()) is None else [watch])]
        return Action("sleep", {"condition": {"until": to_duration(min(times))}})


def _following(world: World, daily: str) -> int:
    """Return the next time of a daily job, in simulated nanoseconds; without a calendar, days begin with the run."""
    schedule, calendar = Daily.parse(daily), world.calendar or Calendar.parse("2000-01-01T00:00")
    found = schedule.after(world.kernel.now, calendar)
    return world.kernel.now + DAY_NS if found is None else found


def _jobs_of(agent: Inhabitant) -> RecurringJobs:
    if not isinstance(agent, RecurringJobs):
        raise Refused(f"{agent.agent_id} runs no recurring jobs")
    return agent


@action("look", everywhere=False)
def look(world: World, agent: Inhabitant) -> int:
    """Have all watchers look that look alone and are due; return the number of new tasks."""
    sops = Sops.of(world)
    return len(sops.watch(sops.due_watchers()))


async def _maintain(world: World, agent: Inhabitant) -> str:
    """Prune the memories of all agents, and post what was done."""
    jobs, sops = _jobs_of(agent), Sops.of(world)
    memories = sops.memories()
    sops.jobs["maintenance"] = _following(world, jobs.settings.maintenance)
    if memories is None:
        return ""
    report = await memories.prune(_summariser(world, jobs))
    Channels.of(world).post(sops.settings.ops_channel, agent.agent_id, report.sentence)
    return report.sentence


def _summariser(world: World, jobs: RecurringJobs) -> Callable[[str, Sequence[Memory]], Awaitable[str]] | None:
    system = jobs.settings.summarise
    if system is None:
        return None

    async def summarise(agent_id: str, old: Sequence[Memory]) -> str:
        given: dict[str, Any] = {
            "prompt": "\n".join(memory.line() for memory in old), "system": system, "use": "summarize",
        }  # fmt: skip
        if jobs.settings.tier:
            given["tier"] = jobs.settings.tier
        result = await world.execute(jobs, Action("ask", given))
        if not result.success:
            raise UsageError(result.error or "no model answered")
        return str(result.data["text"])

    return summarise


@action("maintain_memories", wait=_maintain, ends=True, everywhere=False)
def maintain_memories(world: World, agent: Inhabitant, sentence: str) -> Mapping[str, Any]:
    """Delete expired memories, summarize old ones, apply the cap, and post the numbers."""
    return {"report": sentence}


@action("summarize_day", everywhere=False)
def summarize_day(world: World, agent: Inhabitant) -> Mapping[str, Any]:
    """Post the daily summary, and repeat the warnings of employees that are silent."""
    jobs, sops, channels = _jobs_of(agent), Sops.of(world), Channels.of(world)
    sops.jobs["summary"] = _following(world, jobs.settings.summary)
    counts, silent = sops.since_summary(), sops.silent()
    now, calendar = world.kernel.now, world.calendar
    date = f"day {now // DAY_NS + 1}" if calendar is None else calendar.date(now)
    titles = [desk.settings.title for desk in silent]
    channels.post(sops.settings.ops_channel, agent.agent_id, texts.daily_summary(date, counts, titles))
    for desk in silent:
        sops.warn(desk)
    return {**counts, "silent": [desk.agent.agent_id for desk in silent]}


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse jobs that cannot be done, before the run."""
    for entry in scenario.agents:
        if entry.kind != "recurring_jobs":
            continue
        where, settings = f"agents.{entry.name}", attrs.evolve(entry.settings)
        if "sop" not in scenario.sections:
            raise UsageError(f"{where} runs the jobs of employees, but there are none", hint="add `sop:`")
        if settings.summarise is not None and "memory" in scenario.sections and scenario.models is None:
            raise UsageError(
                f"{where} has a model summarize memories, but there is none",
                hint="add `models:`, or set `summarise: null`",
            )
        if entry.count != 1:
            raise UsageError(f"{where}: one agent runs all jobs, not {entry.count}")


define_family(
    Family(
        "recurring_jobs", RecurringJobs, settings=JobsSettings, check=_check,
        actions=(look, maintain_memories, summarize_day),
    )
)  # fmt: skip

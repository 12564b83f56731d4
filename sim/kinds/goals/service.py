"""The service of goals, tasks and user agents: all that is known of them.

The agents keep nothing themselves, so a new agent object before each run changes nothing.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from sim.agents.conversation import Conversations
from sim.events.event_type import Published
from sim.kernel.calendar import Calendar, Daily
from sim.kernel.codec import Json, JsonObject, freeze
from sim.kinds.goals.events import GoalCreated, GoalReplied, GoalStatusChanged
from sim.kinds.goals.kinds import AgentKind, Made, Stage
from sim.kinds.goals.records import AgentRun, GoalAgent, Reason
from sim.kinds.goals.settings import DAY_NS, AgentSettings, GoalsSettings
from sim.kinds.goals.texts import retry_cancelled, task_result
from sim.llm.service import Models
from sim.memory.service import Memories
from sim.resources import MICRO
from sim.world import Message, Refused, Service, World
from sim.world.actions.messages import deliver
from sim.world.tasks import TaskStatus

PLATFORM: Final = "app"
"""The platform of all threads; the channel is the name of the agent."""

ORCHESTRATOR: Final = "orchestrator"
"""The author of messages of the runtime to a model, and the sender of the message that wakes an agent."""

WAKE_UP: Final = "orchestrate"
"""The topic of the message that wakes an agent."""

_BOARD: Final[Mapping[Stage, TaskStatus]] = {
    "idle": "active", "running": "active", "delegating": "active", "paused": "paused", "finished": "done",
    "ended": "cancelled",
}  # fmt: skip
"""The status on the board for each stage of a task."""

_RECENT: Final = 200  # model calls in the mean `tokens_per_call`


class Goals(Service):
    """The goals, tasks and user agents of one world.

    Args:
        world: the world.
        settings: limits, retries and times.

    Attributes:
        records: all agents by name.
        costs: the money spent for each user, in micro-units.
        templates: the entries of the scenario of which agents are made during the run, with what these can do.
        offers: the tools that each template offers.
        counts: how often things happened.
        next_check_ns: when the health monitor checks next, in simulated nanoseconds.
    """

    name: ClassVar[str] = "goals"

    def __init__(self, world: World, settings: GoalsSettings) -> None:
        self.settings = settings
        self.records: dict[str, GoalAgent] = {}
        self.costs: dict[str, int] = {}
        self.templates: dict[str, AgentKind] = {}
        self.offers: dict[str, tuple[str, ...]] = {}
        self.counts: Counter[str] = Counter()
        self.next_check_ns = 0
        self.stages: dict[Stage, dict[str, None]] = {}
        self.gone: deque[tuple[int, str]] = deque()  # agents that finished or ended, with the time
        self._world = world
        self._users: dict[str, list[str]] = {}  # user → agents, without tasks
        self._recent: deque[float] = deque(maxlen=_RECENT)  # tokens of a model call, the mean of each run
        if Models.name in world.services:
            Models.of(world).on_cost.append(self._book)

    @property
    def conversations(self) -> Conversations:
        """The threads and the histories."""
        return Conversations.of(self._world)

    @property
    def memories(self) -> Memories:
        """The notes, the learnings and the archive."""
        return Memories.of(self._world)

    def get(self, agent_id: str) -> GoalAgent:
        """Return an agent.

        Raises:
            Refused: if there is none of this name.
        """
        record = self.records.get(agent_id)
        if record is None:
            raise Refused(f"{agent_id!r:.80} is no goal, task or user agent")
        return record

    def owned(self, user: str, agent_id: str) -> GoalAgent:
        """Return an agent of a user.

        Raises:
            Refused: if it works for somebody else, or there is none of this name.
        """
        record = self.records.get(agent_id)
        if record is None or record.user != user:
            raise Refused(f"{user} has no goal, task or user agent {agent_id!r:.80}")
        return record

    # -- making agents

    def spawn(
        self,
        parent: str,
        template: str,
        settings: AgentSettings,
        *,
        made_by: GoalAgent | None = None,
        context: JsonObject | None = None,
    ) -> GoalAgent:
        """Make an agent of a template, and start it.

        Args:
            parent: the agent, or the account of the person, that makes it.
            template: the entry of the scenario; see `template`.
            settings: what it is for, with its tools.
            made_by: the agent for which it works; None: it works for the person.
            context: the data that its parent gives it.

        Raises:
            Refused: if no more agents can be made.
        """
        if self._world.spawner is None:
            raise Refused("agents cannot be made during this run")
        name = self._world.spawner(parent, template, 1)[0]
        agent: Any = self._world.agents[name]
        offered: AgentSettings = agent.settings
        available = offered.tools if made_by is None else settings.tools
        full = attrs.evolve(settings, instructions=settings.instructions or offered.instructions, use=offered.use)
        return self.register(name, agent.what, full, available=available, made_by=made_by, context=context)

    def template(self, made: Made, entry: str | None = None) -> str:
        """Return an entry of the scenario of which agents are made during the run.

        Args:
            made: what is made: a goal of a person, a task, or the user agent of a person.
            entry: its name; None: the only one.

        Raises:
            Refused: if there is no such entry, or none was named and there are several.
        """
        names = [name for name, kind in self.templates.items() if kind.made_as == made]
        if entry is None and len(names) == 1:
            return names[0]
        if entry in names:
            return str(entry)
        wanted = "one template" if entry is None else f"the template {entry!r:.60}"
        raise Refused(f"{wanted} for a {made} is needed; the scenario has {', '.join(names) or 'none'}")

    def register(
        self,
        agent_id: str,
        kind: AgentKind,
        settings: AgentSettings,
        *,
        available: tuple[str, ...],
        made_by: GoalAgent | None = None,
        context: JsonObject | None = None,
    ) -> GoalAgent:
        """Make an agent known, with a thread of its own.

        Args:
            agent_id: its name.
            kind: what it can do.
            settings: what it is for.
            available: the tools that can be enabled; `settings.tools` are.
            made_by: the agent for which it works; None: it works for the person.
            context: the data that its parent gives it.
        """
        now, user = self._world.kernel.now, settings.user
        person = self.conversations.resolve_user(PLATFORM, user)
        thread = self.conversations.resolve(person, PLATFORM, agent_id)
        record = self.records[agent_id] = GoalAgent(
            agent_id=agent_id,
            kind=kind,
            user=user,
            user_id=person.id,
            conversation=thread.id,
            title=settings.title,
            description=settings.description,
            instructions=settings.instructions,
            available=available,
            tools=settings.tools,
            use=settings.use,
            parent=None if made_by is None else made_by.agent_id,
            goal=agent_id if made_by is None else made_by.goal,
            task=None,
            context=dict(context or {}),
            stage="idle",
            updated_ns=now,
        )
        self.stages.setdefault("idle", {})[agent_id] = None
        if made_by is None:
            self._users.setdefault(user, []).append(agent_id)
        else:
            record.task = self._add_to_board(record, made_by)
            made_by.children[agent_id] = None
        self._set_check_in(record)
        if kind.overview and self.settings.feed is not None:
            record.feed_ns = self._next_feed_ns()
        self.report(_created(record))
        return record

    def _add_to_board(self, record: GoalAgent, parent: GoalAgent) -> int:
        board, kind = self._world.tasks, record.kind
        words = {word: _BOARD[stage] for stage, word in kind.statuses.items()}
        board.define_words(kind.name, words)
        task = board.create(
            parent.agent_id,
            record.title,
            assignee=record.agent_id,
            description=record.instructions,
            kind=kind.name,
            data=record.context,
        )
        return board.update(task.id, parent.agent_id, status="active").id

    def _set_check_in(self, record: GoalAgent) -> None:
        """Set when an agent checks in next, if it does."""
        if record.kind.checks_in and self.settings.check_in is not None:
            record.check_in_ns = self._world.kernel.now + self.settings.check_in

    def _next_feed_ns(self) -> int:
        """Return when the next feed is due; without a calendar, days begin with the run."""
        now, calendar = self._world.kernel.now, self._world.calendar or Calendar.parse("2000-01-01T00:00")
        return Daily.parse(self.settings.feed or "00:00").after(now, calendar) or now + DAY_NS

    def welcome(self, user: str) -> GoalAgent | None:
        """Make the user agent of a user who has none, if the scenario has a template for it; return the user agent."""
        own = next((one for one in self.agents_of(user) if one.kind.overview), None)
        if own is not None or not any(kind.overview for kind in self.templates.values()):
            return own
        template = self.template("user agent")
        return self.spawn(user, template, AgentSettings(user, "All goals", tools=self.offers[template]))

    def agents_of(self, user: str) -> list[GoalAgent]:
        """Return the agents of a user, without tasks: user agent and goals, oldest first."""
        return [self.records[id] for id in self._users.get(user, ())]

    # -- messages

    def post(self, record: GoalAgent, text: str) -> int:
        """Keep a message of a person in the thread of an agent, and schedule a run; return its number."""
        message = self.conversations.append(record.conversation, "user", record.user_id, text)
        if record.asked_ns is None:
            record.asked_ns = message.time_ns
        self._expect(record, message.id, "message")
        return message.id

    def instruct(self, record: GoalAgent, text: str, reason: Reason) -> None:
        """Keep a message of the runtime for the model of an agent, and schedule a run."""
        message = self.conversations.append(record.conversation, "user", ORCHESTRATOR, text, audience="model")
        self._expect(record, message.id, reason)

    def _expect(self, record: GoalAgent, number: int, reason: Reason) -> None:
        record.pending.append((number, reason))
        record.updated_ns = self._world.kernel.now
        self.schedule(record)

    def schedule(self, record: GoalAgent) -> None:
        """Wake an agent, unless it is about to look for work anyway."""
        agent: Any = self._world.agents.get(record.agent_id)
        if agent is None or record.job is not None or len(agent.mailbox):
            return
        deliver(self._world, Message(ORCHESTRATOR, record.agent_id, WAKE_UP, freeze(None), self._world.kernel.now))

    def say(self, record: GoalAgent, text: str) -> None:
        """Say something to the person, in the thread of an agent.

        Raises:
            Refused: if there is no text.
        """
        if not text.strip():
            raise Refused("the message needs a text")
        if record.ended:
            raise Refused(f"{record.agent_id} is {record.status or 'ended'} and says nothing more")
        now = self._world.kernel.now
        self.conversations.append(record.conversation, "assistant", record.agent_id, text, audience="person")
        waited = None if record.asked_ns is None else now - record.asked_ns
        if waited is not None:
            self.counts["replies"] += 1
            self.counts["reply_ns"] += waited
            record.asked_ns = None
        seconds = None if waited is None else waited / 1e9
        self.report(GoalReplied(agent=record.agent_id, seconds=seconds, user=record.user))

    # -- work

    def work(self, record: GoalAgent) -> Reason | None:
        """Return why an agent should run now; None if there is no reason, or a run is under way."""
        now = self._world.kernel.now
        if record.job is not None or record.ended or record.stage == "paused":
            return None
        if record.pending:
            return record.pending[0][1]
        if record.retry is not None and record.retry.due_ns <= now:
            return "retry"
        if record.feed_ns is not None and record.feed_ns <= now:
            return "feed_generation"
        if record.check_in_ns is not None and record.check_in_ns <= now:
            return "agent_check_in"
        return None

    def retries_due(self) -> list[int]:
        """Return when the retries of paused agents are due, in simulated nanoseconds."""
        return [record.retry.due_ns for record in self.at("paused") if record.retry is not None]

    def next_due_ns(self, record: GoalAgent) -> int | None:
        """Return when an agent has work by itself, in simulated nanoseconds; None: never."""
        if record.ended or record.stage == "paused":
            return None
        due = [None if record.retry is None else record.retry.due_ns, record.feed_ns, record.check_in_ns]
        return min((time for time in due if time is not None), default=None)

    def claim_execution_lock(self, record: GoalAgent, reason: Reason) -> AgentRun:
        """Begin a run.

        Raises:
            Refused: if one is under way.
        """
        if record.job is not None:
            raise Refused(f"{record.agent_id} is running: {record.job.id}", skip=True)
        claim = self.conversations.claim(record.conversation, record.agent_id)
        record.jobs += 1
        context = dict(record.context)
        if reason in ("agent_check_in", "feed_generation"):
            context["type"] = reason
        elif reason == "retry" and record.retry is not None:
            context = dict(record.retry.context)
        if reason == "feed_generation":
            record.feed_ns = self._next_feed_ns()
        job = AgentRun(f"{record.agent_id}:{record.jobs}", self._world.kernel.now, reason, claim.seen, context)
        record.job = job
        self.set_stage(record, "running")
        return job

    def release_execution_lock(self, record: GoalAgent) -> None:
        """End a run. If nothing else was decided about the agent, it waits for work or for its tasks."""
        self.conversations.release(record.conversation)
        record.job = None
        if record.stage == "running":
            self.set_stage(record, "delegating" if record.children else "idle")

    def take_in(self, record: GoalAgent, job: AgentRun) -> None:
        """Note that a run has taken in the messages that it knew."""
        record.pending = [one for one in record.pending if one[0] > job.seen]
        if not record.pending:
            self.conversations.settle(record.conversation)
        self._set_check_in(record)

    def _book(self, agent_id: str, use: str, tokens: int, cost_micro: int) -> None:
        """Count a model call of an agent, for it and for its user, when the call is settled, however its run ends."""
        record = self.records.get(agent_id)
        if record is None:
            return
        record.cost_micro += cost_micro
        self.costs[record.user] = self.costs.get(record.user, 0) + cost_micro
        if use == "summarize":
            self.counts["summary_tokens"] += tokens
            return
        record.calls += 1
        record.tokens += tokens
        self.counts["calls"] += 1
        self.counts["tokens"] += tokens

    def measure(self, tokens: int, calls: int) -> None:
        """Take the mean tokens of a call of a run into the metric `tokens_per_call`."""
        if calls:
            self._recent.append(tokens / calls)

    # -- stages

    def at(self, *stages: Stage) -> list[GoalAgent]:
        """Return the agents that stand at one of these stages."""
        return [self.records[id] for stage in stages for id in self.stages.get(stage, ())]

    def set_stage(self, record: GoalAgent, stage: Stage) -> None:
        """Change where an agent stands; a change of its status is published, and shown on the board of tasks."""
        before = record.status
        self.stages[record.stage].pop(record.agent_id, None)
        record.stage = stage
        self.stages.setdefault(stage, {})[record.agent_id] = None
        record.updated_ns = self._world.kernel.now
        if record.status != before:
            self.report(GoalStatusChanged(agent=record.agent_id, before=before, status=record.status))

    def end(self, record: GoalAgent, stage: Stage, result: str) -> None:
        """End an agent: its tasks are cancelled, its parent is informed, and its loop stops after the iteration.

        Args:
            record: the agent.
            stage: `finished` or `ended`.
            result: its result, or why it ends.
        """
        if record.ended:
            return
        for child in list(record.children):
            self.end(self.records[child], "ended", f"{record.agent_id} has ended")
        self.end_countdown(record, result)
        self.set_stage(record, stage)
        self.counts[f"{record.kind.name}.{record.status or stage}"] += 1
        self.gone.append((record.updated_ns, record.agent_id))
        record.pending.clear()
        self.conversations.settle(record.conversation)
        if record.task is not None:
            board = self._world.tasks
            if board.get(record.task).status == "paused" and stage == "finished":
                board.update(record.task, record.agent_id, status="active")
            board.update(record.task, record.agent_id, status=_BOARD[stage], result=result)
        self._tell_parent(record, result)
        agent: Any = self._world.agents.get(record.agent_id)
        if agent is not None and self.has_last_session(record):
            self.schedule(record)  # it archives this session, and stops
        elif agent is not None:
            agent.shutdown()

    def has_last_session(self, record: GoalAgent) -> bool:
        """Return whether an agent has a session that is not archived yet, though it should be."""
        if not (record.kind.archives and self.settings.archive):
            return False
        return record.archived < self.conversations.find(record.conversation).session - 1 or bool(
            self.conversations.history(record.conversation, session=True, whole=True)
        )

    def end_countdown(self, record: GoalAgent, why: str) -> None:
        """Say in the place of an announced retry that it does not happen."""
        if record.retry is not None:
            text = retry_cancelled(record.retry.error, why)
            self.conversations.revise(record.conversation, record.retry.message, text, {"retryable": False})
            record.retry = None

    def _tell_parent(self, record: GoalAgent, result: str) -> None:
        parent = None if record.parent is None else self.records.get(record.parent)
        if parent is None:
            return
        parent.children.pop(record.agent_id, None)
        if parent.ended:
            return
        self.instruct(parent, task_result(record, result), "child_ended")

    def pause(self, record: GoalAgent, why: str) -> None:
        """Pause a task; the health monitor resumes it."""
        self.set_stage(record, "paused")
        if record.task is not None:
            self._world.tasks.update(record.task, record.agent_id, status="paused", note=why[:200])

    def resume(self, record: GoalAgent) -> None:
        """Let a paused task continue, and schedule a run."""
        self.set_stage(record, "idle")
        if record.task is not None:
            self._world.tasks.update(record.task, record.agent_id, status="active")
        self.schedule(record)

    def forget(self, record: GoalAgent) -> None:
        """Delete an agent that has ended, with its thread."""
        self.stages[record.stage].pop(record.agent_id, None)
        del self.records[record.agent_id]
        if record.agent_id in (own := self._users.get(record.user, [])):
            own.remove(record.agent_id)
        self.conversations.remove(record.conversation)

    # -- the service

    def report(self, data: Published) -> None:
        """Publish an event about an agent."""
        self._world.event_bus.report(data)

    def state(self) -> Any:
        """Return what is known of each agent, and the money spent for each user."""
        if not self.records:
            return None
        agents = {id: _state(record) for id, record in sorted(self.records.items())}
        return {
            "agents": agents,
            "costs": dict(sorted(self.costs.items())),
            "counts": dict(sorted(self.counts.items())),
        }

    def metrics(self) -> Mapping[str, float | None]:
        """Return how many agents there are, what they did, and what it cost."""
        counts, costs = self.counts, list(self.costs.values())
        replies = counts["replies"]
        return {
            "agents": len(self.records),
            "users": len(self._users),
            "runs": counts["runs"],
            "calls": counts["calls"],
            "tokens": counts["tokens"],
            "tokens_per_call": _mean(self._recent),
            "tokens_saved": counts["tokens_saved"],
            "cost": sum(costs) / MICRO,
            "replies": replies,
            "reply_seconds": counts["reply_ns"] / replies / 1e9 if replies else None,
            "tasks_completed": counts["agent_task.completed"],
            "tasks_cancelled": counts["agent_task.cancelled"],
            "sessions_archived": counts["archived"],
            "feeds": counts["feeds"],
            "retries": counts["retries"],
            "failed": counts["failed"],
            "stuck": counts["stuck"],
            "cost_per_user": sum(costs) / len(costs) / MICRO if costs else None,
            "highest_cost_of_a_user": max(costs) / MICRO if costs else None,
        }

    def summary(self) -> JsonObject:
        """Return the same numbers; empty without agents."""
        return self.metrics() if self.records else {}


def _mean(numbers: deque[float]) -> float | None:
    copied = list(numbers)  # scrapes read it from another thread
    return round(sum(copied) / len(copied), 3) if copied else None


def _state(record: GoalAgent) -> dict[str, Json]:
    """Return an agent for the digest; its conversation is in the digest of conversations."""
    plain = attrs.asdict(record, filter=lambda field, value: field.name != "kind")
    return {**plain, "kind": record.kind.name, "children": list(record.children)}


def _created(record: GoalAgent) -> GoalCreated:
    return GoalCreated(
        agent=record.agent_id,
        conversation=record.conversation,
        kind=record.kind.name,
        parent=record.parent,
        status=record.status,
        task=record.task,
        title=record.title,
        user=record.user,
    )

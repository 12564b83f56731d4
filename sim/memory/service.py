"""The service that keeps what agents remember, and the archive of their past sessions."""

import math
import operator
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import attrs

from sim.base.errors import Interrupt, LimitError, RunError, UsageError
from sim.base.text import of_error
from sim.kernel.codec import JsonObject, Record, freeze, hash_of
from sim.memory.events import MemoriesForgotten, MemoriesPruned, MemoriesSummarised, MemoryRepeated
from sim.memory.index import SCALE
from sim.memory.load import CountTokens, LoadedMemories, load
from sim.memory.memories import AgentMemories
from sim.memory.memory import SOURCES, Memory, Source, check_importance
from sim.memory.past_sessions import ArchivedSession, SessionArchive, SessionHit, freeze_messages
from sim.memory.pruning import PruneReport, Summarise, expired, fading, surplus
from sim.memory.settings import MemorySettings
from sim.memory.time_frame import ReadTimeFrame, simulated_time_frame
from sim.world.action import near
from sim.world.service import Service
from sim.world.world import World

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Returns a vector for each text. All vectors of one world have the same length and come from the same model."""

MOST_HITS: Final = 100
"""The most results that a caller can ask for."""

_TEXTS = 128  # texts in one call of `Embed`
_NONE = AgentMemories()


class Hit(Record, frozen=True):
    """A memory that was found, and its score in millionths.

    The score is that of BM25 (0: the query had no words) or, in a recall by meaning, a cosine.
    """

    memory: Memory
    score: int


class Memories(Service):
    """The memories of the agents of one world.

    A method takes the id of an agent, or of anybody else who has memories, such as a user. Each sees only
    its own. All changes are published as events.

    Args:
        world: the world.
        settings: the settings; by default those of `MemorySettings`.
        time_frame: reads the time frames of `search`; by default in days of simulated time.

    Attributes:
        settings: the settings.
        time_frame: as given; a calendar that is added to the world later can replace it.
    """

    name: ClassVar[str] = "memories"
    section: ClassVar[str] = "memory"

    def __init__(
        self,
        world: World,
        settings: MemorySettings | None = None,
        time_frame: ReadTimeFrame = simulated_time_frame,
    ) -> None:
        self.settings = settings or MemorySettings()
        self._world = world
        self.time_frame = time_frame
        self._agents: dict[str, AgentMemories] = {}
        self._archives: dict[str, SessionArchive] = {}
        # `metrics` is called from another thread, so numbers are counted where they change
        counted = ("held", "added", "repeated", "forgotten", "pruned", "summaries", "recalls", "sessions")
        self._counts = dict.fromkeys(counted, 0)

    def add_kinds(self, kinds: Mapping[str, int]) -> None:
        """Add the kinds of memories that a kind of agents needs; those that the settings have stay as they are.

        Args:
            kinds: their names, with the importance that a memory has unless it is given.
        """
        missing = {name: importance for name, importance in kinds.items() if name not in self.settings.kinds}
        if missing:
            self.settings = attrs.evolve(self.settings, kinds={**self.settings.kinds, **missing})

    # -- memories

    def add(
        self,
        agent_id: str,
        content: str,
        *,
        kind: str | None = None,
        importance: int | None = None,
        expires_ns: int | None = None,
        related_task_id: int | None = None,
        source: Source = "agent",
        merge: bool = False,
    ) -> Memory:
        """Add a memory.

        Args:
            agent_id: who remembers it.
            content: the text; white space around it is removed.
            kind: one of the kinds in the settings; by default the first of them.
            importance: from 1 to 10; by default that of the kind.
            expires_ns: the simulated time (nanoseconds) after which it is no longer found; None: never.
            related_task_id: the task that it belongs to.
            source: where the text comes from.
            merge: whether to add nothing if a memory of this kind has the same text, regardless of case, white space
                and the marks around it. That memory is returned; how often and when it was added last is kept.

        Raises:
            UsageError: if an argument is not valid.
            LimitError: if the text is too long, or the agent has too many memories.
            ActorError: if the text is not valid Unicode.
        """
        settings, held = self.settings, self._agents.get(agent_id, _NONE)
        kind = self._checked_kind(next(iter(settings.kinds)) if kind is None else kind)
        importance = settings.kinds[kind] if importance is None else check_importance(importance)
        if not (content := content.strip()):
            raise UsageError("the memory needs a text")
        if source not in SOURCES:
            raise UsageError(f"the source of a memory is one of {', '.join(SOURCES)}, not {source!r:.60}")
        if len(content) > settings.longest:
            raise LimitError("characters of a memory", len(content), settings.longest, agent_id, hint="write less")
        if merge and (same := self._same(held, kind, content)) is not None:
            times = held.repeats.get(same.id, (1, 0))[0] + 1
            self._world.event_bus.report(MemoryRepeated(agent=agent_id, count=times, id=same.id))
            held.repeats[same.id] = (times, self._now)
            self._counts["repeated"] += 1
            return same
        if len(held) >= settings.most:
            raise LimitError("memories", len(held) + 1, settings.most, agent_id, hint="prune or forget memories first")
        memory = Memory(
            agent=agent_id,
            content=content,
            created_ns=self._now,
            expires_ns=expires_ns,
            id=held.last + 1,
            importance=importance,
            kind=kind,
            related_task_id=related_task_id,
            source=source,
        )
        self._insert(memory)
        return memory

    def _same(self, held: AgentMemories, kind: str, content: str) -> Memory | None:
        """Return the memory of a kind that has the words of a text; None if there is none."""
        wanted = _normalised(content)
        usable = (m for m in held if m.kind == kind and not m.archived and not m.expired(self._now))
        return next((m for m in usable if _normalised(m.content) == wanted), None)

    def get(self, agent_id: str, id: int) -> Memory:
        """Return a memory of an agent by its number.

        Raises:
            UsageError: if the agent has no such memory.
        """
        memory = self._agents.get(agent_id, _NONE).get(id)
        if memory is None:
            raise UsageError(f"{agent_id} has no memory {id!r:.40}")
        return memory

    def all(self, agent_id: str) -> list[Memory]:
        """Return all memories of an agent that have not expired, oldest first; archived ones too."""
        return [memory for memory in self._agents.get(agent_id, _NONE) if not memory.expired(self._now)]

    def forget(self, agent_id: str, id: int) -> Memory:
        """Delete a memory and return it.

        Raises:
            UsageError: if the agent has no such memory.
        """
        memory = self.get(agent_id, id)
        self._delete(agent_id, [memory])
        self._counts["forgotten"] += 1
        self._world.event_bus.report(MemoriesForgotten(agent=agent_id, ids=[id]))
        return memory

    # -- recall

    def recall(
        self,
        agent_id: str,
        query: str,
        *,
        limit: int | None = None,
        kind: str | None = None,
        task: int | None = None,
        since_ns: int | None = None,
        counted: bool = True,
    ) -> list[Hit]:
        """Return the memories that have words of the query, best first, at equal scores newest.

        The rank is BM25 over the memories of this agent, without regard to importance and age.

        Args:
            agent_id: whose memories are searched.
            query: the words; without any, the newest memories are found.
            limit: the most results; by default `hits` of the settings.
            kind, task: only memories of this kind, of this task.
            since_ns: only memories from this simulated time on (nanoseconds).
            counted: whether `metrics` counts it; False if not the agent itself recalls, as in an interview.

        Raises:
            UsageError: if the kind does not exist, or the limit is not from 1 to 100.
        """
        held, keep = self._memories_and_filter(agent_id, kind, task, since_ns)
        self._counts["recalls"] += counted
        return [
            Hit(self.get(agent_id, id), score)
            for id, score in held.index.search(query, self._checked_limit(limit), keep)
        ]

    def relevance(self, agent_id: str, query: str) -> Mapping[int, int]:
        """Return the scores of `recall` by the number of the memory, for a ranking by more than words.

        Args:
            agent_id: whose memories.
            query: the words; memories without any of them are left out.
        """
        return self._agents.get(agent_id, _NONE).index.scores(query)

    async def recall_by_meaning(
        self,
        agent_id: str,
        query: str,
        embed: Embed,
        *,
        limit: int | None = None,
        kind: str | None = None,
        task: int | None = None,
        since_ns: int | None = None,
    ) -> list[Hit]:
        """Return the memories whose embeddings are nearest to that of the query, by the cosine of their angle.

        Each memory is embedded once; its vector is kept as long as the memory.

        Args:
            agent_id, query, limit, kind, task, since_ns: see `recall`.
            embed: returns a vector for each text; normally a recorded effect, such as a call of an embedding model.

        Raises:
            UsageError: as `recall`, or if the number or the length of vectors is wrong.
        """
        most = self._checked_limit(limit)
        held, keep = self._memories_and_filter(agent_id, kind, task, since_ns)
        self._counts["recalls"] += 1
        scores = await self._by_meaning(held, keep, query, embed)
        best = sorted(scores, key=lambda id: (scores[id], id), reverse=True)[:most]
        return [Hit(self.get(agent_id, id), scores[id]) for id in best]

    async def relevance_by_meaning(self, agent_id: str, query: str, embed: Embed) -> Mapping[int, int]:
        """Return the scores of `recall_by_meaning` by the number of the memory, for a ranking by more than meaning.

        Args:
            agent_id, query, embed: see `recall_by_meaning`.

        Raises:
            UsageError: if the number or the length of vectors is wrong.
        """
        return await self._by_meaning(*self._memories_and_filter(agent_id, None, None, None), query, embed)

    async def _by_meaning(
        self, held: AgentMemories, keep: Callable[[int], bool], query: str, embed: Embed
    ) -> dict[int, int]:
        missing = [memory for memory in held if memory.id not in held.vectors and keep(memory.id)]
        if not missing and not any(keep(memory.id) for memory in held):
            return {}
        texts = [query, *(memory.content for memory in missing)]
        vectors: list[tuple[float, ...]] = []
        for start in range(0, len(texts), _TEXTS):
            part = texts[start : start + _TEXTS]
            vectors += map(tuple, await embed(part))
        sizes = {*map(len, vectors), *map(len, held.vectors.values())}
        if len(vectors) != len(texts) or len(sizes) > 1:
            raise UsageError(
                f"an embedding of {len(texts)} texts returned {len(vectors)} vectors of {sorted(sizes)} numbers",
                hint="return one vector for each text, always of the same length",
            )
        for memory, vector in zip(missing, vectors[1:], strict=True):
            if held.get(memory.id) is not None:  # it can have been deleted during the call
                held.vectors[memory.id] = vector
        return {m.id: _cosine(vectors[0], held.vectors[m.id]) for m in held if m.id in held.vectors and keep(m.id)}

    def _memories_and_filter(
        self, agent_id: str, kind: str | None, task: int | None, since_ns: int | None
    ) -> tuple[AgentMemories, Callable[[int], bool]]:
        """Return the memories of an agent, and a function that returns whether one of them passes the filters."""
        if kind is not None:
            self._checked_kind(kind)
        held = self._agents.get(agent_id, _NONE)

        def keep(id: int) -> bool:
            memory = held.get(id)
            return (
                memory is not None
                and not memory.expired(self._now)
                and (kind is None or memory.kind == kind)
                and (task is None or memory.related_task_id == task)
                and (since_ns is None or memory.created_ns >= since_ns)
            )

        return held, keep

    def load(
        self, agent_id: str, count: CountTokens, *, tokens: int | None = None, active_tasks: Collection[int] = ()
    ) -> LoadedMemories:
        """Return the memories for a prompt: important ones, recent ones, those of active tasks, and summaries.

        Args:
            agent_id: whose prompt it is.
            count: counts the tokens of a text.
            tokens: the most tokens of all; by default `tokens` of the settings.
            active_tasks: the tasks that the agent works on.
        """
        held = self._agents.get(agent_id, _NONE)
        most = self.settings.tokens if tokens is None else tokens
        return load(held, self.settings, self._now, count, most, active_tasks)

    # -- pruning

    async def prune(self, summarise: Summarise | None = None) -> PruneReport:
        """Delete what has expired, summarise what is old and of little importance, and apply the cap, for all agents.

        Call it by a schedule, such as daily at 02:00. A second call at the same time changes nothing.

        Args:
            summarise: makes a summary; None: nothing is summarised. If it fails, the memories stay, and the report
                says so.
        """
        report = PruneReport()
        for agent_id in sorted(self._agents):
            report += self._prune(agent_id, "expired")
        if summarise is not None:
            for agent_id in sorted(self._agents):
                report += await self.summarise(agent_id, summarise)
        for agent_id in sorted(self._agents):
            report += self._prune(agent_id, "cap")
        return report

    async def summarise(self, agent_id: str, summarise: Summarise) -> PruneReport:
        """Have one memory stand for all memories of an agent that are old and of little importance.

        Important memories are never summarised. If one of the memories is changed or deleted while the summary is
        made, the summary is dropped: it could repeat what was meant to be forgotten.

        Args:
            agent_id: whose memories.
            summarise: makes the summary.
        """
        held = self._agents.get(agent_id, _NONE)
        old = fading(held, self.settings, self._now)
        if len(old) < self.settings.batch:
            return PruneReport()
        try:
            content = self._checked_summary(await summarise(agent_id, old))
        except (Interrupt, MemoryError, RunError):
            raise  # these concern the caller, the process or the run, not the summary
        except Exception as error:  # whatever a summariser of a user raises
            return PruneReport(failures={agent_id: of_error(error)})
        if any(held.get(memory.id) is not memory for memory in old):
            return PruneReport(failures={agent_id: "a memory was changed while its summary was made"})
        summary = Memory(
            agent=agent_id,
            content=content,
            created_ns=self._now,
            id=held.last + 1,
            importance=self.settings.kinds["context"],
            kind="context",
            source="summary",
        )
        self._insert(summary)
        if self.settings.originals == "archive":
            for memory in old:
                held.put(memory.as_archived())
        else:
            self._delete(agent_id, old)
        self._counts["summaries"] += 1
        self._counts["pruned"] += len(old)
        ids, originals = [m.id for m in old], self.settings.originals
        self._world.event_bus.report(
            MemoriesSummarised(agent=agent_id, ids=ids, originals=originals, summary=summary.id)
        )
        return PruneReport(summarised=len(old), summaries=1)

    def _checked_summary(self, text: object) -> str:
        """Return the content of a summary, cut to the longest that a memory can have.

        Raises:
            UsageError: if it is not text, or empty.
            ActorError: if it is not valid Unicode.
        """
        if not isinstance(text, str) or not text.strip():
            raise UsageError("the summary is empty" if isinstance(text, str) else "the summary is not text")
        freeze(text)  # only a check
        text, longest = text.strip(), self.settings.longest
        return text if len(text) <= longest else f"{text[: longest - 1]}…"

    def _prune(self, agent_id: str, reason: Literal["expired", "cap"]) -> PruneReport:
        held = self._agents[agent_id]
        gone = expired(held, self._now) if reason == "expired" else surplus(held, self.settings)
        if not gone:
            return PruneReport()
        self._delete(agent_id, gone)
        self._counts["pruned"] += len(gone)
        ids = sorted(memory.id for memory in gone)
        self._world.event_bus.report(MemoriesPruned(agent=agent_id, ids=ids, reason=reason))
        important = sum(memory.importance >= self.settings.important for memory in gone)
        if reason == "expired":
            return PruneReport(expired=len(gone), important=important)
        return PruneReport(capped=len(gone), important=important)

    # -- sessions

    def archive(
        self,
        agent_id: str,
        session: str,
        messages: Sequence[JsonObject],
        summary: str,
        reason: str,
        *,
        started_ns: int,
        completed_ns: int,
        token_count: int,
    ) -> ArchivedSession:
        """Archive a session, which is complete now. A session that is archived already stays as it is.

        Args:
            agent_id: whose session it is.
            session: its id among the sessions of this agent.
            messages: all messages, JSON-like.
            summary: what it was about, in a few sentences.
            reason: why it ended, such as `session_timeout`.
            started_ns, completed_ns: when its first and its last message were written, in simulated nanoseconds.
            token_count: about how many tokens the messages have.

        Returns:
            The archived session; for one that was archived already, the record of the first time.

        Raises:
            ActorError: if the messages are not JSON-like.
            LimitError: if the summary is too long, or the messages have too many bytes.
        """
        archive = self._archives.get(agent_id) or SessionArchive()
        archived = archive.get(session)
        if archived is not None:
            return archived
        if len(summary) > self.settings.longest:
            raise LimitError("characters of a summary", len(summary), self.settings.longest, agent_id)
        raw = freeze_messages(messages, self.settings.session_bytes, agent_id)
        new = ArchivedSession(
            agent=agent_id,
            completed_ns=completed_ns,
            message_count=len(messages),
            reason=reason,
            session=session,
            started_ns=started_ns,
            summary=summary,
            token_count=token_count,
        )
        self._world.event_bus.report(new)  # first: it refuses what cannot be recorded
        archive.add(new, raw)
        self._archives[agent_id] = archive
        self._counts["sessions"] += 1
        return new

    def sessions(self, agent_id: str, limit: int | None = None) -> tuple[ArchivedSession, ...]:
        """Return the latest archived sessions of an agent, oldest first; by default `hits` of the settings."""
        archive = self._archives.get(agent_id)
        return () if archive is None else archive.latest(self._checked_limit(limit))

    def session_messages(self, agent_id: str, session: str) -> list[Any]:
        """Return the messages of an archived session.

        Raises:
            UsageError: if there is no such session.
        """
        return (self._archives.get(agent_id) or SessionArchive()).messages(session)

    def search(
        self, agent_id: str, query: str, time_frame: str | None = None, limit: int | None = None
    ) -> list[SessionHit]:
        """Return archived sessions with words of the query in their summary or messages, best first.

        Args:
            agent_id: whose sessions are searched.
            query: the words; without any, the newest sessions are found.
            time_frame: when the session ended: `today`, `last_week`, `last_month` or a date; None: at any time.
            limit: the most results; by default `hits` of the settings.

        Raises:
            UsageError: if the time frame is unknown, or the limit is not from 1 to 100.
        """
        frame = None if time_frame is None else self.time_frame(time_frame, self._now)
        most = self._checked_limit(limit)
        archive = self._archives.get(agent_id)
        return [] if archive is None else archive.search(query, frame, most)

    # -- the service

    def state(self) -> Any:
        """See `Service.state`: by agent, the number of the newest memory and hashes of all memories and sessions."""
        names = sorted({*self._agents, *self._archives})
        return {name: self._state_of(name) for name in names} or None

    def _state_of(self, agent_id: str) -> list[Any]:
        held = self._agents.get(agent_id, _NONE)
        archive = self._archives.get(agent_id)
        repeats = [hash_of({str(id): list(one) for id, one in held.repeats.items()})] if held.repeats else []
        return [held.last, hash_of(list(held)), None if archive is None else hash_of(archive.state()), *repeats]

    def metrics(self) -> Mapping[str, float]:
        """See `Service.metrics`."""
        return self._counts

    def summary(self) -> JsonObject:
        """See `Service.summary`."""
        counted = {name: count for name, count in self._counts.items() if count or name != "repeated"}
        return counted if any(counted.values()) else {}

    # -- parts

    @property
    def _now(self) -> int:
        return self._world.kernel.now

    def _insert(self, memory: Memory) -> None:
        self._world.event_bus.report(memory)  # first: it refuses what cannot be recorded
        self._agents.setdefault(memory.agent, AgentMemories()).put(memory)
        self._counts["held"] += 1
        self._counts["added"] += 1

    def _delete(self, agent_id: str, memories: Sequence[Memory]) -> None:
        self._world.kernel.acting()  # first: it refuses a call from outside before anything changes
        held = self._agents[agent_id]
        for memory in memories:
            held.remove(memory.id)
        self._counts["held"] -= len(memories)

    def _checked_kind(self, kind: str) -> str:
        """Return a kind of memory, if the settings have it."""
        if kind not in self.settings.kinds:
            raise UsageError(
                f"there is no kind of memory {kind!r:.60}{near(kind, self.settings.kinds)}",
                hint=f"the kinds are {', '.join(self.settings.kinds)}",
            )
        return kind

    def _checked_limit(self, limit: int | None) -> int:
        """Return the most results of a search, if the limit is valid; by default `hits` of the settings."""
        if limit is None:
            return self.settings.hits
        if limit.__class__ is not int or not 1 <= limit <= MOST_HITS:
            raise UsageError(f"a search returns 1 to {MOST_HITS} results, not {limit!r:.40}")
        return limit


def _normalised(text: str) -> str:
    """Return what is compared of a text: it in small letters, with single spaces, without the marks around it."""
    return " ".join(text.casefold().split()).strip(" .,;:!?-*\"'")


def _cosine(one: Sequence[float], other: Sequence[float]) -> int:
    """Return the cosine of the angle between two vectors in millionths, rounded; 0 if one has no length."""
    length = math.sqrt(math.fsum(map(operator.mul, one, one)) * math.fsum(map(operator.mul, other, other)))
    return round(SCALE * math.fsum(map(operator.mul, one, other)) / length) if length else 0

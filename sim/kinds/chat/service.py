"""The service of chat agents: who answers where, the lines of messages, personas, budgets, files and jobs.

The agents that answer keep nothing themselves: there is one for each conversation, made with a message and let go after
a time of silence.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from sim.agents.conversation import Conversations, User
from sim.kernel import Timer, to_seconds
from sim.kernel.codec import ABSENT, Json, JsonObject, freeze
from sim.kinds.chat.budget import UserBudgets
from sim.kinds.chat.events import FileKept, JobChanged, UserLocated
from sim.kinds.chat.records import Attachment, FileRecord, IncomingMessage, Job
from sim.kinds.chat.settings import ChatSettings, Persona
from sim.memory.index import Index
from sim.memory.service import Memories
from sim.world import Message, Refused, Service, Warned, World
from sim.world.actions.messages import deliver

INCOMING: Final = "chat.incoming"
"""The topic of the message with which an incoming message reaches the agent of its conversation."""

DESK: Final = "desk"
"""The sender of these messages, and who makes the agents."""


SCHEDULER: Final = "scheduler"
"""The author of messages that jobs send. They are for the model, not words of the person."""


class Chats(Service):
    """The chats of one world.

    Args:
        world: the world.
        settings: personas, budgets and limits.

    Attributes:
        budgets: the tokens of users.
        template: the entry of which the agents are made; empty if the scenario has none.
        workers: the agent of each place (platform, channel, thread) that has one.
        active: when the agent of a place answered last, or was made, in simulated nanoseconds.
        files: all files by id.
        jobs: the jobs that are not done yet, by id.
        loaded: the ids of the files that were loaded for Python, by conversation.
        locations: where users are, by id.
        counts: how often things happened.
    """

    name: ClassVar[str] = "chat"

    def __init__(self, world: World, settings: ChatSettings) -> None:
        self.settings = settings
        self.budgets = UserBudgets(world, settings.budget)
        self.template = ""
        self.workers: dict[tuple[str, str, str | None], str] = {}
        self.active: dict[tuple[str, str, str | None], int] = {}
        self.files: dict[str, FileRecord] = {}
        self.jobs: dict[str, Job] = {}
        self.loaded: dict[str, list[str]] = {}
        self.locations: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._world = world
        self._timers: dict[str, Timer] = {}
        self._places: dict[str, tuple[str, str, str | None]] = {}  # agent → the place whose messages it answers
        self._servers: dict[tuple[str, str, str | None], str] = {}  # place → the server of its latest message
        self._pages = list(settings.corpus.items())
        self._index = Index()
        for number, (_, page) in enumerate(self._pages, 1):
            self._index.add(number, f"{page.title}\n{page.text}")

    @property
    def conversations(self) -> Conversations:
        """The users, the conversations and their messages."""
        return Conversations.of(self._world)

    @property
    def memories(self) -> Memories | None:
        """The semantic memories of users; None without the section `memory`."""
        service = self._world.services.get(Memories.name)
        return service if isinstance(service, Memories) else None

    # -- the desk

    def worker_of(self, incoming: IncomingMessage) -> Any:
        """Return the agent of the conversation of a message; None if it has none."""
        name = self.workers.get(incoming.place)
        return None if name is None else self._world.agents.get(name)

    def pass_on(self, incoming: IncomingMessage) -> str:
        """Put a message into the line of its conversation, whose agent is made if there is none; return the agent.

        Raises:
            Refused: if the line is full, or no agent can be made.
        """
        if incoming.platform_server_id is not None:
            self._servers[incoming.place] = incoming.platform_server_id
        for _ in range(2):
            worker = self.worker_of(incoming) or self._make(incoming)
            raw = freeze(incoming.to_json())
            why = deliver(self._world, Message(DESK, worker.agent_id, INCOMING, raw, self._world.kernel.now))
            if why is None:
                self.counts["incoming"] += 1
                return str(worker.agent_id)
            if not why.endswith("has stopped"):
                raise Refused(why)
            self.let_go(incoming.place)
        raise Refused("no agent takes the message")

    def _make(self, incoming: IncomingMessage) -> Any:
        if not self.template or self._world.spawner is None:
            raise Refused("no agent answers here: the scenario has no template of the kind chat_agent")
        name = self._world.spawner(DESK, self.template, 1)[0]
        self.workers[incoming.place] = name
        self._places[name] = incoming.place
        self.active[incoming.place] = self._world.kernel.now
        self.counts["made"] += 1
        return self._world.agents[name]

    def place_of(self, agent_id: str) -> tuple[str, str, str | None] | None:
        """Return the place whose messages an agent answers; None if it has been let go."""
        return self._places.get(agent_id)

    def let_go(self, place: tuple[str, str, str | None]) -> None:
        """Let the agent of a place go. The next message makes another one."""
        del self._places[self.workers.pop(place)], self.active[place]
        self.counts["let_go"] += 1

    def server_of(self, platform: str, channel: str, thread: str | None) -> str | None:
        """Return the server of the latest message at a place; None if it had none."""
        return self._servers.get((platform, channel, thread))

    # -- personas

    def persona(self, incoming: IncomingMessage) -> tuple[str, Persona] | None:
        """Return the persona for a message, with its name: of its server, else of its platform, else the default."""
        personas = self.settings.personas.items()
        if incoming.platform_server_id is not None:
            for name, one in personas:
                if one.platform == incoming.platform and one.server == incoming.platform_server_id:
                    return name, one
        for name, one in personas:
            if one.platform == incoming.platform and one.server is None:
                return name, one
        return next(((name, one) for name, one in personas if one.default), None)

    # -- files

    def add_file(self, user: User, filename: str, mime_type: str, content: str) -> FileRecord:
        """Keep a text file of a user.

        Args:
            user: the user.
            filename: its name; white space in it becomes one blank.
            mime_type: its type.
            content: its text.

        Raises:
            Refused: if the user has too many files, or the text is too long.
        """
        made = self.draft_file(user, {"filename": filename, "mime_type": mime_type, "content": content}, ())
        self.keep_file(made)
        return made

    def draft_file(self, user: User, about: Attachment, before: Sequence[FileRecord]) -> FileRecord:
        """Return the record that a file of a user will have. Nothing is kept yet.

        Args:
            user: the user.
            about: `filename`, `mime_type`, `size_bytes`, `url`, `minio_key` and `content`, as far as they are known.
            before: files that will be kept before it.

        Raises:
            Refused: if the user has too many files, or the text is too long.
        """
        settings, content = self.settings, about.get("content")
        if sum(one.user == user.id for one in self.files.values()) + len(before) >= settings.files:
            raise Refused(f"there are {settings.files} files already")
        if content is not None and len(content) > settings.file_length:
            raise Refused(f"a file has at most {settings.file_length:,} characters, not {len(content):,}")
        id = f"file-{self.counts['files'] + len(before) + 1}"
        size = len((content or "").encode()) if about.get("size_bytes") is None else about["size_bytes"]
        shown = (" ".join(about.get("filename", "").split()) or "file")[:200]
        kind, now = " ".join(about.get("mime_type", "").split())[:100], self._world.kernel.now
        url, key = about.get("url") or f"file:///{id}", about.get("minio_key", "")
        return FileRecord(
            id=id,
            user=user.id,
            filename=shown,
            mime_type=kind,
            size_bytes=size,
            url=url,
            created_ns=now,
            content=content,
            minio_key=key,
        )

    def keep_file(self, made: FileRecord) -> None:
        """Keep a file of which `draft_file` has just returned the record."""
        self.counts["files"] += 1
        self._world.event_bus.report(
            FileKept(
                filename=made.filename,
                id=made.id,
                mime_type=made.mime_type,
                minio_key=made.minio_key or ABSENT,
                size_bytes=made.size_bytes,
                url=made.url,
                user=made.user,
            )
        )
        self.files[made.id] = made

    def file(self, user_id: str, id: str) -> FileRecord:
        """Return a file of a user.

        Raises:
            Refused: if the user has no such file.
        """
        file = self.files.get(id)
        if file is None or file.user != user_id:
            raise Refused(f"there is no file {id!r:.60}")
        return file

    # -- jobs

    def add_job(self, user: User, message: IncomingMessage, *, due_ns: int | None, place: str | None = None) -> Job:
        """Keep a message that is sent later: at a time, or when the user is at a place.

        Raises:
            Refused: if the user has too many jobs.
        """
        if sum(job.user == user.id for job in self.jobs.values()) >= self.settings.jobs:
            raise Refused(f"there are {self.settings.jobs} jobs already")
        self.counts["jobs"] += 1
        id = f"job-{self.counts['jobs']}"
        job = self.jobs[id] = Job(id, user.id, attrs.evolve(message, job=id), due_ns, place)
        due = None if due_ns is None else to_seconds(due_ns)
        self._world.event_bus.report(
            JobChanged(content=message.content, due=due, job=id, place=place, user=user.id, what="added")
        )
        if due_ns is not None:
            kernel = self._world.kernel
            self._timers[id] = kernel.call_at(due_ns, lambda: self.run_job(id), kernel.source_for(user.id))
        return job

    def run_job(self, id: str) -> None:
        """Send the message of a job. If no agent can take it, that is on record."""
        job = self.jobs.pop(id)
        self._timers.pop(id, None)
        message = attrs.evolve(job.message, sent_ns=self._world.kernel.now)
        try:
            self.pass_on(message)
            what = "done"
        except Refused:
            what = "refused"
        self._world.event_bus.report(JobChanged(job=id, user=job.user, what=what))

    def cancel_job(self, user_id: str, id: str) -> None:
        """Cancel a job of a user.

        Raises:
            Refused: if the user has no such job.
        """
        job = self.jobs.get(id)
        if job is None or job.user != user_id:
            raise Refused(f"there is no job {id!r:.60}")
        del self.jobs[id]
        if (timer := self._timers.pop(id, None)) is not None:
            timer.cancel()
        self._world.event_bus.report(JobChanged(job=id, user=user_id, what="cancelled"))

    # -- places of users

    def locate(self, user: User, place: str) -> None:
        """Note where a user is, and run the jobs that waited for that."""
        self._world.event_bus.report(UserLocated(place=place, user=user.id))
        self.locations[user.id] = place
        for job in [job for job in self.jobs.values() if job.user == user.id and job.place == place]:
            self.run_job(job.id)

    # -- the corpus

    def search_web(self, query: str, most: int) -> list[dict[str, Json]]:
        """Return pages of the corpus with words of a query, the best first.

        Args:
            query: the words.
            most: the most results.
        """
        pages = [self._pages[number - 1][1] for number, _ in self._index.search(query, most)]
        return [{"title": page.title, "url": page.url, "text": page.text} for page in pages]

    # -- the service

    def state(self) -> Any:
        """Return everything that is known, for the final digest."""
        if not self.counts:
            return None
        return {
            "workers": sorted(self.workers.values()),
            "accounts": {id: attrs.asdict(one) for id, one in sorted(self.budgets.accounts.items())},
            "files": {id: attrs.asdict(one) for id, one in self.files.items()},
            "jobs": {id: [job.user, job.due_ns, job.place, job.message.to_json()] for id, job in self.jobs.items()},
            "loaded": dict(sorted(self.loaded.items())),
            "locations": dict(sorted(self.locations.items())),
            "counts": dict(sorted(self.counts.items())),
        }

    def metrics(self) -> Mapping[str, float | None]:
        """Return how many messages came, how they were answered, and what that took."""
        counts, answered = self.counts, self.counts["answered"]
        names = ("incoming", "answered", "refused_budget", "refused_internal_error", "refused_no_model",
                 "refused_skipped", "refused_not_finished", "shortened", "fallbacks", "tools", "files", "jobs",
                 "tokens", "summaries")  # fmt: skip
        counted = {name: float(counts[name]) for name in names}
        seconds = counts["answer_ns"] / answered / 1e9 if answered else None
        return {**counted, "answer_seconds": seconds, "agents": len(self.workers), "resets": self.budgets.resets}

    def summary(self) -> JsonObject:
        """Return the same numbers; empty if no message was written."""
        return self.metrics() if self.counts else {}

    def warnings(self) -> Sequence[Warned]:
        """Return warnings of budgets of accounts that never wrote, where an account of a similar name did."""
        users = self.settings.budget.users.items()
        return self.conversations.never_wrote(
            (f"the budget of {name} on {platform}", "chat.budget.users", platform, name)
            for platform, by_name in users
            for name in by_name
        )

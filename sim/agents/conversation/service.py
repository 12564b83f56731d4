"""The conversations of a world: who talks with whom, and what was said.

There are two views of the same messages: the *thread*, which a person sees, and the *history*, which a model sees; see
`history`. No text changes a user, a level or an author: these come from the runtime only.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar, Final

import attrs

from sim.agents.conversation.events import (
    ConversationRemoved,
    ConversationStarted,
    ConversationSummarised,
    MessageRevised,
    MessageSaid,
    MessagesWithheld,
    SessionEnded,
    SummaryFailed,
    UserChanged,
    UserCreated,
)
from sim.agents.conversation.history import (
    for_model,
    history_of,
    place_of,
    speaker,
    thread_of,
    visible,
    was_refused,
    windowed,
)
from sim.agents.conversation.records import (
    VISIBLE,
    Audience,
    Conversation,
    ConversationMessage,
    ConversationSettings,
    MessageRole,
    PlatformLink,
    Session,
    User,
)
from sim.agents.engine.core_loop import cut
from sim.base.errors import Interrupt, RunError, UsageError
from sim.base.expressions import did_you_mean, nearest
from sim.base.permissions import Permission
from sim.base.text import of_error
from sim.events.bus import EventBus, too_much
from sim.kernel.codec import ABSENT, Json, JsonObject, Raw, freeze, hash_of
from sim.llm.types import ChatMessage
from sim.memory.index import words_of
from sim.tools import ToolAccess, Tools
from sim.tools.access import AccessUser as AccessUser
from sim.world import Service, World
from sim.world.service import Warned

TOPIC: Final = "conversation.message"
"""The topic of the event that each message publishes."""

SESSION_TIMEOUT: Final = "session_timeout"
"""The reason of sessions that ended by silence."""

LONGEST_NAME: Final = 200
"""The most characters of the name of a platform, channel, thread or account."""

Summarise = Callable[[str], Awaitable[str]]
"""Returns a summary of the text of older messages."""


@attrs.frozen
class Claim:
    """The right of one agent to answer in a conversation.

    Args:
        agent: the id of the agent.
        seen: the number of the latest message that it knows. A person who writes later waits for a further answer.
    """

    agent: str
    seen: int


@attrs.define
class _Held:
    """What the service keeps for one conversation."""

    conversation: Conversation
    messages: deque[ConversationMessage]
    count: int = 0  # number of messages so far, with those that were dropped
    ended: list[Session] = attrs.field(factory=list)
    began: tuple[int, int] = (1, 0)  # number and time of the first message of the present session
    last_asked: int = 0  # number of the latest message of a person
    summarized: dict[str, None] = attrs.field(factory=dict)  # users whose texts are in the summary, in order
    authors: dict[str, None] = attrs.field(factory=dict)  # everybody who wrote in it


class Conversations(Service):
    """The conversations of one world.

    Args:
        world: the world.
        settings: limits, and the level of new users.

    Attributes:
        users: all users by id.
        claims: who works on an answer, by conversation.
        dropped: how many old messages were dropped.
    """

    name: ClassVar[str] = "conversations"

    def __init__(self, world: World, settings: ConversationSettings | None = None) -> None:
        self.settings = settings or ConversationSettings()
        self.users: dict[str, User] = {}
        self.claims: dict[str, Claim] = {}
        self.dropped = 0
        self._world = world
        self._access = ToolAccess.on(world)
        self._links: dict[tuple[str, str], str] = {}
        self._platforms: dict[str, None] = {}  # of `_links`
        self._places: dict[tuple[str, str, str | None], str] = {}
        self._held: dict[str, _Held] = {}
        self._of_author: dict[str, dict[str, None]] = {}  # author → the conversations in which it wrote
        self._due: dict[str, int] = {}  # conversation that waits for an answer → since or from when, in nanoseconds
        self._total = self._sessions = self._summaries = 0
        self._last = 0  # the number of the newest conversation
        Tools.on(world).context = self.context

    @property
    def conversations(self) -> dict[str, Conversation]:
        """All conversations by id, in the order in which they began."""
        return {id: held.conversation for id, held in self._held.items()}

    # -- users

    def resolve_user(self, platform: str, platform_user_id: str, username: str = "") -> User:
        """Return the user of an account; a new user is made for an account that is not known.

        Raises:
            UsageError: if a name is empty or too long.
        """
        id = self._links.get((platform, platform_user_id))
        if id is not None:
            return self.users[id]
        link = _link(platform, platform_user_id, username)
        others = self.settings.accounts_beside(platform, platform_user_id)
        links = (link, *(_link(*account, "") for account in others))
        level = self.settings.level_of((platform, platform_user_id), *others)
        user = User(f"user:{len(self.users) + 1}", level, self._world.kernel.now, links)
        self._keep(UserCreated, user)
        return user

    def link(self, user_id: str, platform: str, platform_user_id: str, username: str = "") -> User:
        """Add an account to a user. Only the runtime or an operator may do this, never an agent by itself.

        Raises:
            UsageError: if there is no such user, or the account belongs to another user.
        """
        user, owner = self.user(user_id), self._links.get((platform, platform_user_id))
        if owner == user_id:
            return user
        if owner is not None:
            raise UsageError(f"the account {platform_user_id!r:.60} on {platform} belongs to another user")
        user = attrs.evolve(user, links=(*user.links, _link(platform, platform_user_id, username)))
        self._keep(UserChanged, user)
        return user

    def set_level(self, user_id: str, level: Permission) -> User:
        """Change the level of trust of a user; for the runtime and the operator. It counts from the next call on.

        Raises:
            UsageError: if there is no such user.
        """
        user = attrs.evolve(self.user(user_id), permission=level)
        self._keep(UserChanged, user)
        return user

    def is_account(self, platform: str, platform_user_id: str) -> bool:
        """Return whether an account belongs to a user."""
        return (platform, platform_user_id) in self._links

    def user(self, user_id: str) -> User:
        """Return a user.

        Raises:
            UsageError: if there is no such user.
        """
        if user_id not in self.users:
            raise UsageError(f"there is no user {user_id!r:.60}", hint=did_you_mean(str(user_id), self.users))
        return self.users[user_id]

    def _keep(self, kind: type[UserCreated | UserChanged], user: User) -> None:
        links = [attrs.asdict(link) for link in user.links]
        self._bus.report(kind(level=user.permission.name.lower(), links=links, user=user.id))
        self.users[user.id] = user
        for link in user.links:
            self._links[link.platform, link.platform_user_id] = user.id
            self._platforms[link.platform] = None
        before = self._access.users.get(user.id)  # the runtime may have limited its modules
        self._access.users[user.id] = AccessUser(user.permission, None if before is None else before.modules)

    # -- conversations

    def find(self, conversation_id: str) -> Conversation:
        """Return a conversation.

        Raises:
            UsageError: if there is no such conversation.
        """
        return self._get(conversation_id).conversation

    def resolve(self, user: User, platform: str, channel: str, thread: str | None = None) -> Conversation:
        """Return the conversation at a place, a new one if there is none.

        Args:
            user: who begins a new one.
            platform, channel, thread: the place.

        Raises:
            UsageError: if a name is empty or too long.
        """
        id = self._places.get((platform, channel, thread))
        if id is not None:
            return self._held[id].conversation
        check_place(platform, channel, thread)
        now = self._world.kernel.now
        self._last += 1
        id = f"conversation-{self._last}"
        made = Conversation(
            id=id, user=user.id, platform=platform, channel=channel, thread=thread, started_ns=now, last_active_ns=now
        )
        self._bus.report(
            ConversationStarted(channel=channel, conversation=id, platform=platform, thread=thread, user=user.id)
        )
        self._places[platform, channel, thread] = id
        self._held[id] = _Held(made, deque())
        return made

    def of_agent(self, agent_id: str) -> list[Conversation]:
        """Return the conversations in which an agent wrote, as itself or as a user, the latest last."""
        accounts = [(platform, agent_id) for platform in self._platforms]
        authors = [agent_id, *(self._links[account] for account in accounts if account in self._links)]
        ids = dict.fromkeys(id for author in authors for id in self._of_author.get(author, ()))
        return sorted((self._held[id].conversation for id in ids), key=lambda one: (one.last_active_ns, one.id))

    # -- messages

    def append(
        self,
        conversation_id: str,
        role: MessageRole,
        author: str,
        content: str,
        metadata: JsonObject | None = None,
        *,
        audience: Audience = "all",
        seen: int | None = None,
        answers: bool = True,
    ) -> ConversationMessage:
        """Add a message and publish `conversation.message`. After a silence it begins a new session.

        An answer to a message before the silence does not begin a session.

        Args:
            conversation_id: the conversation.
            role: who it is from.
            author: the user or agent that wrote it.
            content: the text.
            metadata: further data; see `ConversationMessage`.
            audience: who sees it.
            seen: the number of the latest message that its author knew; by default that of the author's claim, or the
                latest message.
            answers: whether a text of an agent answers those who wait, or only says what it does.

        Raises:
            UsageError: if there is no such conversation, or the message is larger than an event may be.
            ActorError: if the text or the metadata cannot be recorded.
        """
        held, now = self._get(conversation_id), self._world.kernel.now
        claim = self.claims.get(conversation_id)
        if seen is None:
            seen = claim.seen if claim is not None and claim.agent == author and role != "user" else held.count
        message = self.draft(conversation_id, role, author, content, metadata, audience=audience)
        conversation = held.conversation
        silent = now - conversation.last_active_ns >= self.settings.session_timeout
        begins = role == "user" or (role != "error" and conversation_id not in self._due)  # an error begins no session
        ends = silent and held.count >= held.began[0] and begins
        number = message.id
        message = attrs.evolve(message, session=conversation.session + ends, seen=seen)
        record = self._recordable(message)  # first: it refuses what cannot be recorded
        if ends:
            self.end_session(conversation_id, SESSION_TIMEOUT)
        held.count = number
        held.messages.append(message)
        if role != "error":
            held.conversation = attrs.evolve(held.conversation, last_active_ns=now)
        held.authors[author] = self._of_author.setdefault(author, {})[conversation_id] = None
        if number == held.began[0]:
            held.began = (number + 1, 0) if role == "error" else (number, now)
        self._total += 1
        if len(held.messages) > self.settings.most_messages:
            held.messages.popleft()
            self.dropped += 1
        self._settle(held, message, answers=answers)
        self._bus.tell(TOPIC, record)
        return message

    def _recordable(self, message: ConversationMessage) -> Raw:
        """Return a message as data of an event.

        Raises:
            UsageError: if it is larger than an event may be.
            ActorError: if it cannot be recorded.
        """
        record = freeze(_data(message))
        if len(record) > (most := self._world.event_bus.max_data_bytes):
            raise too_much(f"{message.author}: a message", len(record), most)
        return record

    def draft(
        self,
        conversation_id: str,
        role: MessageRole,
        author: str,
        content: str,
        metadata: JsonObject | None = None,
        *,
        audience: Audience = "all",
    ) -> ConversationMessage:
        """Return the next message as it would be kept, to see the history with it. See `append` for the arguments."""
        held = self._get(conversation_id)
        return ConversationMessage(
            id=held.count + 1,
            conversation=conversation_id,
            role=role,
            author=author,
            content=cut(content, self.settings.longest),
            time_ns=self._world.kernel.now,
            session=held.conversation.session,
            audience=audience,
            seen=held.count,
            metadata=dict(metadata or {}),
        )

    def withhold(self, conversation_id: str, since: int, refusal: str) -> None:
        """Hide messages from every model: the person was refused an answer. The person sees what it saw before.

        Args:
            conversation_id: the conversation.
            since: the number of the first of them; all that follow belong to it.
            refusal: why the answer was refused.
        """
        held, numbers = self._get(conversation_id), []
        for place in range(-1, -len(held.messages) - 1, -1):
            message = held.messages[place]
            if message.id < since:
                break
            if message.audience in ("all", "model"):
                audience: Audience = "person" if message.audience == "all" else "none"
                about = {**message.metadata, "refusal": refusal}
                held.messages[place] = attrs.evolve(message, audience=audience, metadata=about)
                numbers.append(message.id)
        self._bus.report(MessagesWithheld(conversation=conversation_id, ids=numbers[::-1], refusal=refusal))

    def _settle(self, held: _Held, message: ConversationMessage, *, answers: bool) -> None:
        """Note whether a conversation waits for an answer after a message."""
        id = message.conversation
        if message.role == "user":
            self._due[id] = min(self._due.get(id, message.time_ns), message.time_ns)
            held.last_asked = message.id
        elif message.role in VISIBLE and visible(message) and (answers or message.role == "error"):
            retry = message.metadata.get("retry_at_ns")
            due = retry if isinstance(retry, int) else None
            if held.last_asked > message.seen:  # a person wrote while the answer was made
                due = next(m.time_ns for m in held.messages if m.role == "user" and m.id > message.seen)
            self._wait(id, due)

    def settle(self, conversation_id: str) -> None:
        """Note that no answer is due, for example because the agent chose not to answer."""
        self._wait(conversation_id, None)

    def remove(self, conversation_id: str) -> None:
        """Delete a conversation, so that it takes no memory; the record of the run keeps it.

        Raises:
            UsageError: if there is no such conversation, or an agent works on it.
        """
        one = self.find(conversation_id)
        if conversation_id in self.claims:
            raise UsageError(f"{self.claims[conversation_id].agent} works on {conversation_id}")
        for author in self._held[conversation_id].authors:
            self._of_author[author].pop(conversation_id)
        self._bus.report(ConversationRemoved(conversation=conversation_id))
        del self._held[conversation_id], self._places[one.platform, one.channel, one.thread]
        self._wait(conversation_id, None)

    def _wait(self, conversation_id: str, due_ns: int | None) -> None:
        if due_ns is None:
            self._due.pop(conversation_id, None)
        else:
            self._due[conversation_id] = due_ns

    def revise(
        self, conversation_id: str, number: int, content: str, metadata: Mapping[str, Any]
    ) -> ConversationMessage:
        """Change the text of an error that a person sees, for example when the last retry has failed.

        Args:
            conversation_id: the conversation.
            number: the number of the message.
            content: the new text.
            metadata: the new metadata.

        Raises:
            UsageError: if it is not an error of this conversation.
        """
        held = self._get(conversation_id)
        place = next((n for n, m in enumerate(held.messages) if m.id == number and m.role == "error"), None)
        if place is None:
            raise UsageError(f"{conversation_id} has no error with the number {number}")
        old = held.messages[place]
        new = attrs.evolve(old, content=cut(content, self.settings.longest), metadata=dict(metadata))
        revised = MessageRevised(content=new.content, conversation=conversation_id, id=number, metadata=new.metadata)
        record = freeze(revised)
        held.messages[place] = new
        if held.last_asked < number:
            self._wait(conversation_id, metadata.get("retry_at_ns"))
        self._bus.tell(MessageRevised.TOPIC, record)
        return new

    def note(
        self,
        conversation_id: str,
        author: str,
        *,
        audience: Audience = "all",
        between: Audience | None = None,
        quiet: Collection[str] = (),
    ) -> Callable[[ChatMessage], None]:
        """Return a function that keeps what the engine adds to a model history; see `CoreLoop.note`.

        Args:
            conversation_id: the conversation.
            author: the agent.
            audience: who sees the texts of the model; `model` for agents that speak through a tool only.
            between: who sees a text that comes with calls of tools, which is no final answer; None: as `audience` says.
            quiet: names of tools whose use the person does not see, because the person sees what they do.
        """
        tools: dict[str | None, str] = {}  # id of a call → its tool

        def keep(message: ChatMessage) -> None:
            if message.role == "tool":
                id = message.tool_call_id
                about: dict[str, Json] = {"tool": tools.get(id), "tool_use_id": id}
                about["success"] = _succeeded(message.content)
                self.append(conversation_id, "tool_result", author, message.content, about)
                return
            if message.content and message.tool_calls:
                self.append(
                    conversation_id,
                    "assistant",
                    author,
                    message.content,
                    {"final": False} if between else None,
                    audience=between or audience,
                    answers=False,
                )
            elif message.content:
                self.append(conversation_id, "assistant", author, message.content, audience=audience)
            for call in message.tool_calls:
                tool = tools[call.id] = Tools.of(self._world).named(call.name)[:LONGEST_NAME]
                about = {"tool": tool, "tool_use_id": call.id}
                shown: Audience = "model" if tool in quiet else "all"
                self.append(conversation_id, "tool_call", author, call.arguments, about, audience=shown)

        return keep

    def messages(self, conversation_id: str) -> Sequence[ConversationMessage]:
        """Return the messages of a conversation, oldest first.

        Raises:
            UsageError: if there is no such conversation.
        """
        return tuple(self._get(conversation_id).messages)

    def thread(self, conversation_id: str) -> list[ConversationMessage]:
        """Return what a person sees: texts, errors, and that tools were used; not what tools returned."""
        return thread_of(self.messages(conversation_id))

    def history(
        self,
        conversation_id: str,
        *,
        session: bool = False,
        whole: bool = False,
        then: ConversationMessage | None = None,
    ) -> list[ChatMessage]:
        """Return what a model sees: the latest turns, with tool calls and their results. It is always well formed.

        Args:
            conversation_id: the conversation.
            session: whether only messages of the present session count.
            whole: whether it is not cut to the window, because its agent bounds it by other means.
            then: a message that `draft` returned: the history as it would be with it.
        """
        return self._history(self._window(conversation_id, session=session, whole=whole, then=then))

    def _history(self, messages: Sequence[ConversationMessage]) -> list[ChatMessage]:
        return history_of(messages, {m.author: self._shown(m.author) for m in messages if m.role == "user"})

    def behalf(
        self, conversation_id: str, *, session: bool = False, then: ConversationMessage | None = None
    ) -> tuple[str, ...]:
        """Return the users whose texts the model sees, for whom the agent calls tools: the least of them counts.

        These are the authors of messages in the history, and those of messages for which the summary stands.

        Args:
            conversation_id, session, then: see `history`.
        """
        shown = self._window(conversation_id, session=session, then=then)
        users = [*self._get(conversation_id).summarized, *(speaker(m) for m in shown if m.role == "user")]
        return tuple(dict.fromkeys(users)) or (self.find(conversation_id).user,)

    def _window(
        self,
        conversation_id: str,
        *,
        session: bool = False,
        whole: bool = False,
        then: ConversationMessage | None = None,
    ) -> Sequence[ConversationMessage]:
        """Return the messages of the history: what the summary does not cover, within the window."""
        held = self._get(conversation_id)
        first, covered = held.began[0] if session else 1, held.conversation.summarized_to
        shown = [m for m in held.messages if m.id >= first and not _covers(covered, m)]
        if then is not None:
            shown.append(then)
        return for_model(shown) if whole else windowed(for_model(shown), self.settings.window)

    # -- who waits

    def waiting(self) -> list[Conversation]:
        """Return the conversations that wait for an answer and that no agent works on, the longest waiting first.

        These are the ones with a message of a person without an answer, or with an error after which a retry is due.
        """
        now = self._world.kernel.now
        due = [(since, id) for id, since in self._due.items() if since <= now and id not in self.claims]
        return [self._held[id].conversation for _, id in sorted(due, key=lambda pair: (pair[0], _number(pair[1])))]

    def open_conversations(self) -> list[str]:
        """Return the ids of the conversations whose latest visible text is from a person, the longest waiting first."""
        asked = {id: held for id, held in self._held.items() if id in self._due and self._asks(held)}
        return sorted(asked, key=lambda id: (self._due[id], _number(id)))

    @staticmethod
    def _asks(held: _Held) -> bool:
        last = next((m for m in reversed(held.messages) if m.role in VISIBLE and visible(m)), None)
        return last is not None and last.role == "user"

    def next_retry_ns(self) -> int | None:
        """Return when the next retry after an error is due, in simulated nanoseconds; None if there is none."""
        now = self._world.kernel.now
        return min((due for due in self._due.values() if due > now), default=None)

    def failures(self, conversation_id: str) -> int:
        """Return the number of errors since the latest message of a person."""
        held = self._get(conversation_id)
        since = takewhile(lambda m: m.id > held.last_asked, reversed(held.messages))
        return sum(message.role == "error" for message in since)

    def claim(self, conversation_id: str, agent_id: str) -> Claim:
        """Give an agent the right to answer in a conversation; `release` ends it.

        Raises:
            UsageError: if another agent has it, or there is no such conversation.
        """
        held, other = self._get(conversation_id), self.claims.get(conversation_id)
        if other is not None:
            raise UsageError(f"{other.agent} works on {conversation_id} already")
        made = self.claims[conversation_id] = Claim(agent_id, held.count)
        return made

    def release(self, conversation_id: str) -> None:
        """End a claim, if there is one."""
        self.claims.pop(conversation_id, None)

    def context(self, agent_id: str) -> JsonObject:
        """Return what the runtime knows of the tool calls of an agent: the conversation that it works on.

        The user is the one whose message is the latest that the agent knows.
        """
        id = next((id for id, claim in self.claims.items() if claim.agent == agent_id), None)
        if id is None:
            return {}
        held, seen = self._held[id], self.claims[id].seen
        one = held.conversation
        user = next((speaker(m) for m in reversed(held.messages) if m.role == "user" and m.id <= seen), one.user)
        return {
            "user": user,
            "platform": one.platform,
            "channel": one.channel,
            "thread": one.thread,
            "conversation": one.id,
        }

    # -- sessions and summaries

    def end_session(self, conversation_id: str, reason: str) -> Session | None:
        """End the present session, so that the next message begins another; None if it has no message yet.

        Args:
            conversation_id: the conversation.
            reason: why it ends, such as `session_timeout`.
        """
        held = self._get(conversation_id)
        conversation, (first, started_ns) = held.conversation, held.began
        if held.count < first:
            return None
        ended = Session(
            conversation=conversation_id,
            number=conversation.session,
            first=first,
            last=held.count,
            started_ns=started_ns,
            ended_ns=conversation.last_active_ns,
            reason=reason,
        )
        held.ended.append(ended)
        held.conversation = attrs.evolve(conversation, session=conversation.session + 1)
        held.began = (held.count + 1, 0)
        self._sessions += 1
        self._bus.report(SessionEnded(**attrs.asdict(ended)))
        return ended

    def sessions(self, conversation_id: str) -> tuple[Session, ...]:
        """Return the sessions that have ended, oldest first."""
        return tuple(self._get(conversation_id).ended)

    def session_history(self, session: Session) -> list[ChatMessage]:
        """Return the history of a session that has ended, for example to archive it. Dropped messages are missing."""
        held = self._get(session.conversation)
        return self._history(for_model([m for m in held.messages if session.first <= m.id <= session.last]))

    def session_words(self, session: Session) -> list[str]:
        """Return what people wrote in a session that has ended, without what programs wrote in their place."""
        held = self._get(session.conversation)
        shown = for_model([m for m in held.messages if session.first <= m.id <= session.last])
        return [m.content for m in shown if m.role == "user" and m.audience != "model"]

    async def summarise(self, conversation_id: str, summariser: Summarise) -> bool:
        """Have a summary stand for older messages once the window is full; return whether it was done.

        It covers at least `batch` messages at once, so that a conversation is not summarised after each answer. If it
        fails, nothing changes, and `conversation.summary_failed` says why. What a person was refused is left out.

        Args:
            conversation_id: the conversation.
            summariser: gets the last summary and the text of the older messages, and returns the new summary.
        """
        held = self._get(conversation_id)
        before, full = held.conversation, self._window(conversation_id, whole=True)
        if len(full) <= self.settings.window:
            return False
        shown = windowed(full, self.settings.window - self.settings.batched)
        last = place_of(shown[0]) - 1 if shown else 0  # a window that was cut begins with a message of a person
        old = [m for m in held.messages if _covers(last, m) and not _covers(before.summarized_to, m)]
        if not for_model(old):
            return False
        # one line each, so that no text can look like a line of somebody else
        spoken = (m for m in old if m.role in VISIBLE and not was_refused(m))
        lines = [" ".join(f"{self._shown(m.author)}: {m.content}".split()) for m in spoken]
        try:
            text: object = await summariser("\n".join([before.summary, *lines] if before.summary else lines))
            if not isinstance(text, str) or not text.strip():
                raise UsageError("the summary is empty" if isinstance(text, str) else "the summary is not text")
            summary = cut(text.strip(), self.settings.longest)
            record = freeze(ConversationSummarised(conversation=conversation_id, summarized_to=last, summary=summary))
        except (Interrupt, MemoryError, RunError):
            raise  # these concern the caller, the process or the run, not the summary
        except Exception as error:  # whatever a summariser of a user raises
            self._bus.report(SummaryFailed(conversation=conversation_id, error=of_error(error)))
            return False
        if held.conversation.summarized_to != before.summarized_to:
            return False  # another summary was made meanwhile
        held.conversation = attrs.evolve(held.conversation, is_summarized=True, summary=summary, summarized_to=last)
        held.summarized |= {speaker(m): None for m in old if m.role == "user" and not was_refused(m)}
        self._summaries += 1
        self._bus.tell(ConversationSummarised.TOPIC, record)
        return True

    def search(
        self, query: str, *, conversation_id: str | None = None, user_id: str | None = None, limit: int = 20
    ) -> list[ConversationMessage]:
        """Return the texts that a person saw and that have all words of a query, newest first.

        Upper and lower case are equal. What was dropped is not found.

        Args:
            query: the words; without any, nothing is found.
            conversation_id: only in this conversation.
            user_id: only in conversations that this user began.
            limit: the most results.
        """
        words = frozenset(words_of(query))
        chosen = self._held.values() if conversation_id is None else [self._get(conversation_id)]
        messages = [
            message
            for held in chosen
            if user_id is None or held.conversation.user == user_id
            for message in held.messages
            if message.role in VISIBLE and visible(message) and words and words <= set(words_of(message.content))
        ]
        return sorted(messages, key=lambda m: (-m.time_ns, _number(m.conversation), -m.id))[: max(0, limit)]

    # -- the service

    def state(self) -> Any:
        """Return users, and the number and the hash of the messages of each conversation, for the final digest."""
        if not self.users and not self._held:
            return None
        return {
            "users": {id: attrs.asdict(user) for id, user in self.users.items()},
            "conversations": {
                id: {
                    **attrs.asdict(held.conversation),
                    "messages": held.count,
                    "due_ns": self._due.get(id),
                    "ended": len(held.ended),
                    "hash": hash_of([attrs.asdict(message) for message in held.messages]),
                }
                for id, held in self._held.items()
            },
        }

    def metrics(self) -> Mapping[str, float]:
        """Return the numbers of users, conversations, messages, sessions, and conversations that wait for an answer."""
        return {
            "users": len(self.users),
            "conversations": len(self._held),
            "messages": self._total,
            "dropped": self.dropped,
            "sessions_ended": self._sessions,
            "summaries": self._summaries,
            "waiting": len(self._due),
        }

    def summary(self) -> JsonObject:
        """Return the numbers of `metrics`; empty if no message was written."""
        return self.metrics() if self._held else {}

    def warnings(self) -> Sequence[Warned]:
        """Return the accounts of the settings that never wrote, while one with nearly the same name did."""
        levels, people = self.settings.levels, self.settings.people
        named = [
            (f"the level {level.name.lower()} of {name} on {platform}", "conversations.levels", platform, name)
            for platform, by_name in levels.items()
            for name, level in by_name.items()
        ]
        named += [
            (f"the account {name} of {person} on {platform}", "conversations.people", platform, name)
            for person, accounts in people.items()
            for platform, name in accounts.items()
        ]
        return self.never_wrote(named)

    def never_wrote(self, named: Iterable[tuple[str, str, str, str]]) -> list[Warned]:
        """Return warnings of accounts that never wrote, where another one of a similar name did and is not named.

        Args:
            named: for each what it gives, the part of the scenario that names it, the platform and the account.
        """
        warnings, accounts = [], list(named)
        for what, where, platform, name in accounts:
            meant = {one[3] for one in accounts if one[1:3] == (where, platform)}
            others = [other for on, other in self._links if on == platform and other not in meant]
            if (platform, name) not in self._links and (near := nearest(name, others)) is not None:
                text = f"{what} had no effect: it never wrote"
                warnings.append(Warned(text, f"did you mean {near!r}? Change it in `{where}`"))
        return warnings

    # -- parts

    def _get(self, conversation_id: str) -> _Held:
        held = self._held.get(conversation_id)
        if held is None:
            raise UsageError(
                f"there is no conversation {conversation_id!r:.60}", hint=did_you_mean(str(conversation_id), self._held)
            )
        return held

    def _shown(self, author: str) -> str:
        user = self.users.get(author)
        return author if user is None else user.shown_name

    @property
    def _bus(self) -> EventBus:
        return self._world.event_bus


def _covers(summarized_to: int, message: ConversationMessage) -> bool:
    """Return whether a summary up to a message of a person stands for another message too."""
    return summarized_to > 0 and place_of(message) <= summarized_to


def _data(message: ConversationMessage) -> MessageSaid:
    """Return a message as its event has it."""
    return MessageSaid(
        audience=ABSENT if message.audience == "all" else message.audience,
        author=message.author,
        content=message.content,
        conversation=message.conversation,
        id=message.id,
        metadata=message.metadata or ABSENT,
        role=message.role,
        seen=message.seen,
        session=message.session,
    )


def _link(platform: str, platform_user_id: str, username: str) -> PlatformLink:
    _check_name("platform", platform)
    _check_name("account", platform_user_id)
    freeze(username)
    return PlatformLink(platform, platform_user_id, username[:LONGEST_NAME] or platform_user_id)


def check_place(platform: str, channel: str, thread: str | None) -> None:
    """Check the names of a place.

    Raises:
        UsageError: if one is not text, or is empty or too long.
        ActorError: if one is not valid Unicode.
    """
    _check_name("platform", platform)
    _check_name("channel", channel)
    if thread is not None:
        _check_name("thread", thread)


def _check_name(what: str, text: object) -> None:
    """Check the name of a place or an account.

    Raises:
        UsageError: if it is not text, or is empty or too long.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_NAME:
        raise UsageError(f"the name of a {what} is a text of 1 to {LONGEST_NAME} characters, not {text!r:.60}")
    freeze(text)


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])


def _succeeded(result: str) -> bool:
    """Return whether a tool result, as the engine wrote it, is that of a success. Its end can be cut off."""
    return not result.startswith('{"error":')

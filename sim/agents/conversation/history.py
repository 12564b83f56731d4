"""The two views of the messages of a conversation, made from one list.

The *thread* is what a person sees: texts, errors, and that tools are used. The *history* is what a model sees: texts,
tool calls and their results. Models refuse a history that is not well formed, so this one always is, whatever the
messages are:

- it begins with a message of a person, and messages of persons and of the model alternate;
- each message with tool calls is followed by one result for each call, in the order of the calls;
- there is no other result, and no two calls have the same id.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from sim.agents.conversation.records import ConversationMessage
from sim.agents.engine.prompt import section
from sim.kernel.codec import encode
from sim.llm.tool_calls import sound
from sim.llm.types import ChatMessage, ToolCall

UNFINISHED: Final = encode({"success": False, "error": "the call was not finished"}).decode()
"""The result that a model sees of a call that has none, because its agent was stopped."""

OPENING: Final = "(You begin the conversation.)"
"""What a model sees before its own first message, if it wrote first."""

_BREAK = "\n\n"  # between messages of one side


def visible(message: ConversationMessage) -> bool:
    """Return whether a person sees a message: its text or, of a tool call, that the tool is used."""
    return message.role != "tool_result" and message.audience not in ("model", "none")


def thread_of(messages: Sequence[ConversationMessage]) -> list[ConversationMessage]:
    """Return what a person sees, oldest first."""
    return [message for message in messages if visible(message)]


def for_model(messages: Sequence[ConversationMessage]) -> list[ConversationMessage]:
    """Return what a model sees, in the order in which it knew of it.

    What a person wrote while the model was answering comes after that answer.
    """
    shown = [m for m in messages if m.role != "error" and m.audience not in ("person", "none")]
    return sorted(shown, key=lambda m: (place_of(m), m.role != "user", m.id))


def speaker(message: ConversationMessage) -> str:
    """Return whose word a message is: its author's, or of what a job sent, that of the user for whom the job is."""
    return str(message.metadata.get("user", message.author))


def was_refused(message: ConversationMessage) -> bool:
    """Return whether a message belongs to an answer that the person was refused, so that no model sees it."""
    hidden = message.audience in ("person", "none")
    return hidden and (message.role != "assistant" or "refusal" in message.metadata)


def place_of(message: ConversationMessage) -> int:
    """Return the number of the message of a person at which a message stands, in the order of `for_model`."""
    return message.id if message.role == "user" else message.seen


def windowed(messages: Sequence[ConversationMessage], most: int) -> Sequence[ConversationMessage]:
    """Return the latest messages of `for_model`: whole turns, at most a number of messages, and at least the last turn.

    A turn begins with a message of a person, so no tool call is torn from its result or from its question.
    """
    starts = [n for n, m in enumerate(messages) if m.role == "user" and (n == 0 or messages[n - 1].role != "user")]
    if len(messages) <= most or not starts:
        return messages
    first = next((start for start in starts if len(messages) - start <= most), starts[-1])
    return messages[first:]


def history_of(messages: Sequence[ConversationMessage], names: Mapping[str, str] | None = None) -> list[ChatMessage]:
    """Return the well-formed history of messages that `for_model` returned. Messages without text are omitted.

    Args:
        messages: the messages.
        names: the names of users by id. If several users wrote, each text is in a section that names its author, in
            which it is escaped, so that no text can pose as that of another. What the runtime wrote for the model alone
            is not in such a section.
    """
    several = len({m.author for m in messages if _of_person(m)}) > 1
    calls = _Calls(messages)
    made: list[ChatMessage] = []
    shown = (m for m in messages if m.role == "tool_call" or (m.role != "tool_result" and m.content.strip()))
    for person, group in groupby(shown, key=lambda m: m.role == "user"):
        if person:
            texts = [_signed(m, names or {}) if several and _of_person(m) else m.content for m in group]
            made.append(ChatMessage("user", _BREAK.join(texts)))
        else:
            if not made:
                made.append(ChatMessage("user", OPENING))
            for answer in calls.answers(group):
                made += calls.chat(answer)
    return made


def _of_person(message: ConversationMessage) -> bool:
    """Return whether a person wrote a message, and not the runtime for the model alone."""
    return message.role == "user" and message.audience != "model"


def _signed(message: ConversationMessage, names: Mapping[str, str]) -> str:
    return section("message", message.content, author=names.get(message.author, message.author), id=message.author)


class _Calls:
    """The tool calls of a history, and how they ended."""

    def __init__(self, messages: Sequence[ConversationMessage]) -> None:
        self._results: dict[int, str] = {}  # number of a call → its result
        self._later: set[int] = set()  # calls that the model made after it saw a result
        self._used: set[str] = set()  # ids of calls that the history has so far
        waiting: defaultdict[str, deque[int]] = defaultdict(deque)
        answered = False
        for message in messages:
            id = str(message.metadata.get("tool_use_id"))
            if message.role == "tool_result":
                answered = True
                if waiting[id]:  # the oldest call of this id that has no result
                    self._results[waiting[id].popleft()] = message.content
            elif message.role == "tool_call":
                waiting[id].append(message.id)
                if answered:
                    self._later.add(message.id)
                answered = False

    def answers(self, messages: Iterable[ConversationMessage]) -> Iterator[list[ConversationMessage]]:
        """Split the texts and calls between two messages of a person into answers: texts, and the calls after them."""
        answer: list[ConversationMessage] = []
        for message in messages:
            calling = answer and answer[-1].role == "tool_call"
            if calling and (message.role == "assistant" or message.id in self._later):
                yield answer
                answer = []
            answer.append(message)
        yield answer

    def chat(self, answer: Sequence[ConversationMessage]) -> Iterator[ChatMessage]:
        """Yield one answer as a message of the model, and the results of its calls."""
        texts = [message.content for message in answer if message.role == "assistant"]
        made = [(self._call(message), message.id) for message in answer if message.role == "tool_call"]
        yield ChatMessage("assistant", _BREAK.join(texts), tuple(call for call, _ in made))
        for call, number in made:
            yield ChatMessage("tool", self._results.get(number, UNFINISHED), tool_call_id=call.id)

    def _call(self, message: ConversationMessage) -> ToolCall:
        """Return a call. If an earlier one has its id, as with models that count from 1 each time, it gets another."""
        id = str(message.metadata.get("tool_use_id") or "call")
        while id in self._used:
            id = f"{id}_{message.id}"
        self._used.add(id)
        return sound(ToolCall(id, str(message.metadata.get("tool")), message.content))

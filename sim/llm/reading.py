"""Reads what a model has written: the one place in which reasoning, Markdown and tool calls written as text are
separated from what the model says.

Endpoints differ in what they put into the text of an answer. Some send the reasoning before it, between tags, and some
forget the first tag, because the chat template of the model ends with it. Many put JSON into a Markdown fence. All that
is removed here is at the beginning or the end of a text; the rest is parsed strictly, and nothing is repaired.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sim.llm.types import Completion, Delta, ModelError, ModelRequest, Observer, json_value
from sim.llm.written_calls import calls_in

_TAGS: Final = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, and most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),  # Gemini
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker
    ("<|channel>thought", "<channel|>"),  # Gemma
)
"""The tags around reasoning."""

_OPENED: Final = re.compile("|".join(re.escape(tag) for tag, _ in _TAGS), re.IGNORECASE)
_OPEN: Final = re.compile(rf"\s*(?:{_OPENED.pattern})", re.IGNORECASE)
_CLOSE: Final = {start.lower(): end for start, end in _TAGS}
_ALONE: Final = re.compile(
    r"(?<![`'\"])(?:</think(?:ing)?>|</thought>|</seed:think>|\[/THINK\]|◁/think▷)", re.IGNORECASE
)
_WRAPPERS: Final = (("<|begin_of_solution|>", "<|end_of_solution|>"), ("<|START_RESPONSE|>", "<|END_RESPONSE|>"))
_END: Final = re.compile(
    r"(?:\s*(?:<\|im_end\|>|<\|eot_id\|>|<\|endoftext\|>|<\|end\|>|<\|return\|>|<end_of_turn>|</s>|<｜end▁of▁sentence｜>))+\s*\Z"
)
"""Tokens that end the turn of a model, which some servers leave in the text."""

_SIGNS: Final = tuple(sorted({tag[0] for pair in (*_TAGS, *_WRAPPERS) for tag in pair}))
"""What each tag and each token above begins with: a text without these signs has none of them."""

_HARMONY: Final = re.compile(r"\s*(?:<\|start\|>assistant)?(?:\s*to=\S+)?<\|channel\|>")
_SEGMENT: Final = re.compile(
    r"(?:<\|start\|>assistant)?([^<]*)<\|channel\|>(\w+)([^<]*)(?:<\|constrain\|>\w*\s*)?<\|message\|>"
    r"(.*?)(?:<\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>|<\|channel\|>)|\Z)",
    re.DOTALL,
)
"""A message in the format of gpt-oss (OpenAI, "harmony response format"): its channel, its recipient and its text."""

_BARE: Final = re.compile(r"\s*analysis(?=\S)(.*?)assistantfinal(.*)\Z", re.DOTALL)
"""The same, from servers that remove the special tokens only."""

_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})[ \t]*(?:[\w+-]*[ \t]*\r?\n)?(.*?)\s*\1\s*\Z", re.DOTALL)
_LABEL: Final = re.compile(r"json\b\s*", re.IGNORECASE)  # of a fence in one line

NO_ANSWER: Final = "(nothing)"


def split_reasoning(text: str) -> tuple[str, str]:
    """Return the reasoning at the beginning of a text, and the rest, which is what the model says.

    Reasoning that does not end is all of it: the answer was cut off in it. Tags later in the text are left alone.
    """
    if not any(sign in text for sign in _SIGNS) and _BARE.match(text) is None:  # as nearly all texts
        return "", text
    channels = _harmony(text)
    if channels is not None:
        return channels
    thoughts: list[str] = []
    rest = text
    while (opened := _OPEN.match(rest)) is not None:
        inside, rest = _closed(rest[opened.end() :], opened[0].strip())
        thoughts.append(inside.strip())
    alone = None if thoughts else _ALONE.search(text)
    if alone is not None and not _OPENED.search(text[: alone.start()]):
        thoughts, rest = [text[: alone.start()].strip()], text[alone.end() :]
    rest = _END.sub("", rest)
    if not thoughts:
        return "", rest
    rest = rest.strip()
    for start, end in _WRAPPERS:
        if rest.startswith(start):
            rest = rest.removeprefix(start).removesuffix(end).strip()
    return "\n\n".join(one for one in thoughts if one), rest


def _closed(text: str, opening: str) -> tuple[str, str]:
    """Return what is inside the tag that was opened before a text, and what follows it. A tag can hold another."""
    closing = _CLOSE[opening.lower()]
    depth, place = 1, 0
    for tag in re.finditer(f"{re.escape(opening)}|{re.escape(closing)}", text, re.IGNORECASE):
        depth += 1 if tag[0].lower() == opening.lower() else -1
        place = tag.end() if tag[0].lower() == closing.lower() else place
        if not depth:
            break
    if not place:
        return text, ""
    return text[: place - len(closing)], text[place:]


def _harmony(text: str) -> tuple[str, str] | None:
    """Split a text in the format of gpt-oss; None if it has another."""
    if (bare := _BARE.match(text)) is not None:
        return bare[1].strip(), _END.sub("", bare[2]).strip()
    if _HARMONY.match(text) is None:
        return None
    thoughts: list[str] = []
    said: list[str] = []
    asides: list[str] = []
    for part in _SEGMENT.finditer(text):
        body = part[4].strip()
        if "to=" in part[1] + part[3]:
            said.append(part[0].strip())  # a tool call, which `written_calls` can read
        else:
            {"final": said, "analysis": thoughts}.get(part[2], asides).append(body)
    if not said:
        said, asides = asides, []
    return "\n\n".join(one for one in (*thoughts, *asides) if one), "\n".join(said)


def unfenced(text: str) -> str:
    """Return a text without the Markdown fence that encloses all of it; as it is if there is none, or more than one."""
    fence = _FENCE.match(text)
    if fence is None or fence[1] in fence[2]:
        return text.strip("\ufeff \t\r\n")
    inside = fence[2]
    if "\n" not in text.strip():
        inside = _LABEL.sub("", inside, count=1)
    return inside.strip()


def json_in(text: str) -> Any:
    """Return the JSON value that a text is, apart from one Markdown fence around it.

    Raises:
        ValueError: if it is not JSON.
    """
    return json_value(unfenced(text))


def read(completion: Completion, request: ModelRequest, *, written_calls: bool = False) -> Completion:
    """Return an answer as agents see it: its reasoning is apart, and no argument of a tool call is empty text.

    Args:
        completion: the answer of a provider.
        request: the request.
        written_calls: whether tool calls that are written as text are calls.

    Raises:
        ModelError: of kind `reasoning` if all tokens went into reasoning, and of kind `empty` if there is no answer.
    """
    if request.texts:
        return completion
    thoughts, text = split_reasoning(completion.text)
    reasoning = "\n\n".join(part for part in (completion.reasoning, thoughts) if part)
    offered = [tool.name for tool in request.tools]
    calls = tuple(
        attrs.evolve(call, name=_offered(call.name, offered), arguments=call.sound_arguments)
        for call in completion.tool_calls
    )
    stop = completion.stop
    if written_calls and offered and not calls:
        calls, text = calls_in(text, offered)
        if calls and stop in ("end_turn", "stop_sequence"):
            stop = "tool_use"
    answer = completion
    if (text, reasoning, calls) != (completion.text, completion.reasoning, completion.tool_calls):
        answer = attrs.evolve(completion, text=text, reasoning=reasoning, tool_calls=calls, stop=stop)
    if not text.strip() and not calls:
        _check_empty(answer, request)
    return answer


def _offered(name: str, tools: Sequence[str]) -> str:
    """Return the name of a tool without what servers of gpt-oss leave at it, if the rest is the name of a tool."""
    plain = name.removeprefix("functions.").partition("<|channel|>")[0]
    return plain if name not in tools and plain in tools else name


def _check_empty(answer: Completion, request: ModelRequest) -> None:
    """Refuse an answer without text and tool calls, unless there is a reason for it.

    A model may say nothing after it has seen the result of a tool, or if the first thing it writes is a text that ends
    the answer.
    """
    usage, model = answer.usage, answer.model
    if answer.stop == "max_tokens":
        tokens = usage.reasoning_tokens or usage.output_tokens
        if answer.reasoning or usage.reasoning_tokens or (tokens and not usage.estimated):
            raise ModelError(
                "reasoning",
                f"{model} spent {tokens:,} tokens on reasoning; raise models.max_tokens or turn reasoning off",
                usage=usage,
                reasoning=answer.reasoning,
            )
    ended = bool(request.sampling.stop) and answer.stop in ("end_turn", "stop_sequence")
    after_result = bool(request.messages) and request.messages[-1].role == "tool"
    if answer.stop == "refusal" or ended or (after_result and answer.stop != "max_tokens"):
        return
    only = " beside its reasoning; check how the endpoint separates them, or turn reasoning off"
    raise ModelError(
        "empty",
        f"{model} gave an empty answer{only if answer.reasoning else ''}",
        usage=usage,
        reasoning=answer.reasoning,
    )


class ReasoningFilter:
    """An observer that passes on the parts of an answer, with reasoning between tags as parts of kind `think`.

    A part that may belong to a tag is held back until that is certain.

    Args:
        observe: receives the parts.
    """

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self._closing = ""  # the tag that ends the reasoning under way
        self._held = ""
        self._begun = False  # whether the model has begun to speak

    def __call__(self, delta: Delta) -> None:
        """Pass on one part."""
        if delta.kind != "text":
            if delta.kind == "discard":
                self._closing, self._held, self._begun = "", "", False
            elif delta.kind != "think":
                self.flush()
            self._observe(delta)
            return
        self._held += delta.text
        while self._step():
            pass

    def flush(self) -> None:
        """Pass on what is held back."""
        held, self._held = self._held, ""
        if held:
            self._tell("think" if self._closing else "text", held)

    def _step(self) -> bool:
        """Pass on as much as is certain; return whether there may be more."""
        if self._begun:
            self.flush()
            return False
        if self._closing:
            place = self._held.lower().find(self._closing.lower())
            if place < 0:
                kept = len(self._closing) - 1
                self._tell("think", self._held[:-kept])
                self._held = self._held[-kept:]
                return False
            self._tell("think", self._held[:place])
            self._held, self._closing = self._held[place + len(self._closing) :].lstrip(), ""
            return True
        opened = _OPEN.match(self._held)
        if opened is not None:
            self._closing, self._held = _CLOSE[opened[0].strip().lower()], self._held[opened.end() :]
            return True
        begun = self._held.lstrip().lower()
        if any(start.lower().startswith(begun) for start, _ in _TAGS):
            return False
        self._begun = True
        return True

    def _tell(self, kind: Any, text: str) -> None:
        if text:
            self._observe(Delta(kind, text))


def has_written_call(completion: Completion, request: ModelRequest) -> bool:
    """Return whether an answer has no tool call, but one that is written as text."""
    tools = [tool.name for tool in request.tools]
    return bool(tools and not completion.tool_calls and calls_in(completion.text, tools)[0])


def value_in(text: str, names: Sequence[str]) -> Any:
    """Return the value in an answer that is a JSON object with one of the names, or a single member; else None."""
    try:
        value = json_in(text)
    except ValueError:
        return None
    if not isinstance(value, Mapping):
        return value if not isinstance(value, list) else None
    members = [value[name] for name in names if name in value] or list(value.values())
    return members[0] if len(members) == 1 or any(name in value for name in names) else None

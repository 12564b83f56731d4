"""Finds tool calls that a model has written as text, because the endpoint does not read them.

Each form here is that of a family of models. A call counts only if a tool of its name was offered, or if it stands
between tags, which nothing else has; then the model gets the error that there is no such tool.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sim.kernel.codec import encode
from sim.llm.types import ToolCall, json_value

_NAMES: Final = ("name", "function", "tool", "tool_name", "function_name")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "tool_input")

_TAGGED: Final = re.compile(
    r"<(tool_call|function_call|functioncall|tool|tools)>(.*?)(?:</\1>|(?=<\1>)|\Z)"  # Hermes, Qwen, GLM, Granite
    r"|<\|?tool_call(?:_start|_begin)?\|?>(.*?)(?:<\|?tool_call(?:_end)?\|?>|<\|/tool_call\|>|<tool_call\|>|\Z)"
    r"|<\|python_tag\|>(.*?)(?:<\|eom_id\|>|<\|eot_id\|>|\Z)"  # Llama 3
    r"|(<function=[\w.-]+>.*?)(?:</function>|\Z)"  # Llama 3.2, Qwen 3 Coder
    r"|<｜tool▁call▁begin｜>(.*?)<｜tool▁call▁end｜>"  # DeepSeek
    r"|((?:<\|start\|>assistant)?[^<]*<\|channel\|>[^<]*to=functions\.[\w.-]+.*?)(?:<\|call\|>|\Z)"  # gpt-oss
    r"|(?:<\|start\|>assistant )?(to=functions\.[\w.-]+<\|channel\|>.*?)(?:<\|call\|>|\Z)"
    r"|\[TOOL_CALLS\](.*?)(?=\[TOOL_CALLS\]|\Z)",  # Mistral
    re.DOTALL | re.IGNORECASE,
)
_AROUND: Final = re.compile(r"</?tool_calls>|<｜tool▁calls▁(?:begin|end)｜>|</s>|</tool_call>", re.IGNORECASE)
_XML: Final = re.compile(r"<function=([\w.-]+)>(.*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_PAIR: Final = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_NAMED: Final = re.compile(r"(?:function<｜tool▁sep｜>)?\s*([\w.-]+)\s*(?:\[ARGS\]|<｜tool▁sep｜>)?\s*(.*)", re.DOTALL)
_RECIPIENT: Final = re.compile(r"to=functions\.([\w.-]+).*?<\|message\|>(.*)", re.DOTALL)
_FENCE: Final = re.compile(r"\s*(`{3,})[ \t]*[\w+-]*[ \t]*\r?\n?(.*?)\s*\1\s*\Z", re.DOTALL)
_MOST: Final = 128


def calls_in(text: str, tools: Sequence[str]) -> tuple[tuple[ToolCall, ...], str]:
    """Return the tool calls in a text, and the text without them. Without calls, the text is unchanged.

    Args:
        text: the text of an answer, without its reasoning.
        tools: the names of the tools that were offered.
    """
    calls: list[ToolCall] = []
    for place in _TAGGED.finditer(text):
        body = next(group for group in place.groups()[1:] if group is not None)
        calls += _calls(body, None, len(calls))
    if calls:
        rest = _AROUND.sub("", _TAGGED.sub("", text)).strip()
        return tuple(calls[:_MOST]), rest
    fenced = _FENCE.match(text)
    whole = tuple(_calls(text if fenced is None else fenced[2], tools, 0))
    return (whole[:_MOST], "") if whole else ((), text)


def _calls(body: str, tools: Sequence[str] | None, number: int) -> Iterator[ToolCall]:
    """Yield the calls that a text is, and nothing else; `tools` are the names that count, or None for any."""
    body = body.strip()
    fenced = _FENCE.match(body)
    for name, arguments in _parsed(body if fenced is None else fenced[2].strip(), tagged=tools is None):
        if tools is None or name in tools:
            yield ToolCall(f"call_{number}", name, arguments)
            number += 1


def _parsed(body: str, *, tagged: bool) -> Iterator[tuple[str, str]]:
    """Yield the names and the arguments of the calls in a body."""
    values = _json_values(body)
    if values:
        for value in values:
            yield from _named_in(value)
    elif tagged:
        yield from _written(body)


def _json_values(body: str) -> list[Any]:
    """Return the JSON values of a text that is one, or a sequence of objects; else nothing."""
    try:
        value = json_value(body)
    except ValueError:
        lines = [line for line in re.split(r"(?<=\})\s*[;,]?\s*(?=\{)", body) if line.strip()]
        if len(lines) < 2:
            return []
        try:
            return [json_value(line) for line in lines]
        except ValueError:
            return []
    return value if isinstance(value, list) else [value]


def _named_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the calls in a JSON value: `{name, arguments}`, such an object in `function`, or a list in `tool_calls`."""
    if not isinstance(value, Mapping):
        return
    for key in ("tool_calls", "toolcalls"):
        if isinstance(value.get(key), list):
            for inner in value[key]:
                yield from _named_in(inner)
            return
    for key in ("function", "function_call", "tool_call"):
        if isinstance(value.get(key), Mapping):
            yield from _named_in(value[key])
            return
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    keys = [key for key in _ARGUMENTS if key in value]
    if name is None or (not keys and set(value) - {*_NAMES, "type", "id"}):
        return
    arguments = value[keys[0]] if keys else {}
    yield _bare(name), arguments if isinstance(arguments, str) else encode(arguments).decode()


def _written(body: str) -> Iterator[tuple[str, str]]:
    """Yield the call in a body that is not JSON: in XML, or a name and then arguments."""
    if (sent := _RECIPIENT.search(body)) is not None:
        yield sent[1], sent[2].strip() or "{}"
        return
    if (xml := _XML.match(body)) is not None:
        parameters = {key: _value(value) for key, value in _PARAMETER.findall(xml[2])}
        inside = xml[2].replace("</function>", "").strip()
        yield _bare(xml[1]), encode(parameters).decode() if parameters or not inside else inside
        return
    named = _NAMED.match(body)
    if named is None:
        return
    pairs = _PAIR.findall(named[2])
    rest = named[2].strip()
    if pairs:
        yield _bare(named[1]), encode({key.strip(): _value(value) for key, value in pairs}).decode()
    elif not rest or rest.startswith(("{", "`")):
        fenced = _FENCE.match(rest)
        yield _bare(named[1]), (rest if fenced is None else fenced[2].strip()) or "{}"


def _value(text: str) -> Any:
    """Return the value of a parameter in XML: JSON if it is a number, a list or such, and a text otherwise."""
    try:
        return json_value(text)
    except ValueError:
        return text


def _bare(name: str) -> str:
    return name.removeprefix("functions.")

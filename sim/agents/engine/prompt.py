"""Prompts of XML sections. Text from people, tools and models is escaped, so it cannot close or open a section.

What stays the same from call to call comes first, and the time last: endpoints cache the beginnings of prompts.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sim.kernel.codec import JsonObject, encode
from sim.world import World

_ESCAPES: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def escape(text: str) -> str:
    """Return a text in which nothing is markup."""
    return text.translate(_ESCAPES)


def section(name: str, content: Any, **attributes: str) -> str:
    """Return one section, such as `<learnings>...</learnings>`; empty if there is no content.

    Args:
        name: the name of the section: a word of the program, never text of a model or person.
        content: a text; several lines as a list of texts; or another JSON-like value.
        attributes: attributes of the section; they are escaped too.
    """
    assert name.isidentifier(), f"{name!r} is not the name of a section"
    if isinstance(content, list | tuple):
        text = "\n".join(escape(str(line)) for line in content)
    else:
        text = escape(content if isinstance(content, str) else encode(content).decode())
    if not text.strip():
        return ""
    attribute_text = "".join(f' {key}="{escape(value).translate(_QUOTE)}"' for key, value in attributes.items())
    return f"<{name}{attribute_text}>\n{text}\n</{name}>"


_QUOTE: Final = {ord('"'): "&quot;", ord("\n"): " "}


def prompt(instructions: str, sections: JsonObject | Iterable[tuple[str, Any]] = ()) -> str:
    """Return a system prompt: instructions of the scenario or the program, then sections of data.

    Args:
        instructions: text that is trusted, so it is not escaped.
        sections: the content of each section by its name; see `section`.
    """
    parts = sections.items() if isinstance(sections, Mapping) else sections
    written = [section(name, content) for name, content in parts]
    return "\n\n".join(part for part in (instructions.strip(), *written) if part)


def time_context(world: World) -> str:
    """Return the present time for a prompt: civil time if the world has a calendar."""
    calendar = world.calendar
    return f"{world.now:g} s" if calendar is None else calendar.at(world.kernel.now).isoformat()

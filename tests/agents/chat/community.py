"""Runs small communities: people who write in chats, and the agents that answer. It says what came of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import sim
from sim.kinds.chat import Chats
from sim.runner import RunController
from sim.world import World
from tests.agents.people import Step, people, rows_of


def say(at: float, text: str, channel: str = "general", **more: Any) -> Step:
    """Return the step of a person who writes in a channel."""
    return at, "send_chat_message", {"text": text, "channel": channel, **more}


@attrs.frozen
class Community:
    """A run that has ended."""

    world: World
    result: sim.RunResult
    folder: Path

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a query; of single values if it has one column."""
        return rows_of(self.folder, sql)

    def answers(self, account: str = "ana") -> list[str]:
        """Return the answers to a person, in order."""
        return self.rows(f"SELECT content FROM chat_responses WHERE account = '{account}' ORDER BY id")  # noqa: S608

    def messages(self, conversation: str = "conversation-1") -> list[tuple[str, str]]:
        """Return role and text of all messages of a conversation."""
        where = f"conversation = '{conversation}' ORDER BY id"
        return self.rows(f"SELECT role, content FROM conversation_messages WHERE {where}")  # noqa: S608

    @property
    def refusals(self) -> list[str | None]:
        """Return the cause of each answer that was not what was asked for; None: it was."""
        return self.rows("SELECT refusal FROM chat_responses ORDER BY id")

    @property
    def chats(self) -> Chats:
        """The service."""
        return Chats.of(self.world)


def scenario(
    rules: Sequence[Any],
    people: Sequence[str] = ("ana",),
    *,
    until: str = "1h",
    chat: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    levels: Mapping[str, str] | None = None,
    conversations: Mapping[str, Any] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return a scenario with people who write in chats.

    Args:
        rules: the scripted answers of the model.
        people: the names of the people.
        until: the end of the run.
        chat: the section `chat`.
        models: further keys of `models`.
        levels: the level of each person on the platform `chat`; others are guests.
        conversations: further keys of `conversations`.
        others: further sections.
    """
    agents = [{"name": name, "kind": "person", "loop": {"min_loop_delay": "1ms"}} for name in people]
    return {
        "name": "community", "until": until, "chat": dict(chat or {}),
        "conversations": {"levels": {"chat": dict(levels or {})}, **(conversations or {})},
        "memory": {"kinds": {"context": 6, "semantic": 6}}, "models": {"rules": list(rules), **(models or {})},
        **others,
        "agents": [{"name": "agent", "kind": "chat_agent", "template": True, "permission": "owner"}, *agents],
    }  # fmt: skip


def community(
    folder: Path, rules: Sequence[Any], steps: Sequence[Step] | Mapping[str, Sequence[Step]], **options: Any
) -> Community:
    """Run a scenario; see `scenario` for the other arguments.

    Args:
        folder: where its record goes.
        rules: the scripted answers.
        steps: what each person does; of one person, who is `ana`, as a list.
        options: further arguments of `scenario`, and `run`: those of `sim.run`.
    """
    run: Mapping[str, Any] = options.pop("run", {})
    by_name = steps if isinstance(steps, Mapping) else {"ana": steps}
    folder.mkdir(exist_ok=True)
    path, kept = folder / "community.yaml", list[RunController]()
    path.write_text(json.dumps(scenario(rules, tuple(by_name), **options), indent=1), encoding="utf-8")
    person = people(by_name)
    result = sim.run(path, out=folder / "runs", begun=kept.append, kinds={"person": person}, **run)
    return Community(kept[0].simulation.world, result, Path(result.run or ""))

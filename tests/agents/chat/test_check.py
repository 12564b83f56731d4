"""Scenarios with chats that cannot work: one sentence with a hint, before the run."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from tests.agents.chat.community import scenario

PERSONA = {"prompt": "x", "platform": "discord"}


@pytest.mark.parametrize(
    ("path", "value", "why", "hint"),
    [
        ("chat", None, "answers in chats, but there are none", "add `chat: {}`"),
        ("agents.0", None, "chats need one template of the kind chat_agent", "template: true"),
        ("agents.0.template", False, "chats need one template of the kind chat_agent", "template: true"),
        ("conversations", None, "answers in conversations", "add `conversations: {}`"),
        ("models", None, "the scenario has none", "add `models: {}`"),
        ("chat.personas", {"a": {"prompt": "x"}}, "the persona appears nowhere", "default: true"),
        ("chat.personas", {"a": {"prompt": "x", "server": "s"}}, "a server belongs to a platform", "give `platform`"),
        (
            "chat.personas",
            {"a": PERSONA, "b": PERSONA},
            "the personas 'a' and 'b' appear at the same place",
            "only one",
        ),
        ("chat.personas", {"a": {**PERSONA, "model": "larg"}}, "chat.personas.a.model: there is no tier 'larg'", ""),
        ("chat.personas", {"a": {**PERSONA, "promt": "x"}}, "unknown key 'promt'", "prompt"),
        ("chat.tools", ["world.publsh"], "chat.tools: there is no tool 'world.publsh'", "'world.publish'"),
        ("chat.tools", ["world.answer_chat"], "chat.tools: there is no tool 'world.answer_chat'", ""),
        ("chat.guest_modules", ["reserch"], "there is no module 'reserch'", "'research'"),
        ("chat.personas", {"a": {**PERSONA, "modules": ["web"]}}, "chat.personas.a.modules: there is no module", ""),
        ("chat.budget", {"rule": "none"}, "chat.budget.rule", "strict"),
        ("chat.budget", {"guest": -1}, "chat.budget.guest", ""),
        ("chat.corpus", {"a": {"title": "x", "text": "x"}}, "chat.corpus.a", "url"),
    ],
)
def test_scenarios_that_cannot_work(tmp_path: Path, path: str, value: Any, why: str, hint: str) -> None:
    """A mistake is one sentence with a hint."""
    whole = copy.deepcopy(scenario([{"say": "x"}]))
    whole["agents"][-1] = {"name": "ana"}
    *keys, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = whole
    for key in keys:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    file = tmp_path / "community.yaml"
    file.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        sim.run(file, out=None)
    assert why in str(caught.value)
    assert hint in f"{caught.value} {caught.value.hint}"

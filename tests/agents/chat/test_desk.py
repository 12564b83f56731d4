"""The desk: one agent for each conversation, in order within it, side by side between them, none lost."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.chat.community import community, say

SLOW: dict[str, Any] = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
ECHO = [{"text": "{all*}", "say": "=all"}]
UNLIMITED = {"budget": {"guest": None}, "summarise": False}


def test_one_agent_for_each_place(tmp_path: Path) -> None:
    """Channels, threads and platforms are conversations of their own; a server is not."""
    places: list[dict[str, Any]] = [
        {}, {"thread": "t"}, {"thread": "u"}, {"channel": "other"}, {"platform": "slack"}, {"server": "s"}, {},
    ]  # fmt: skip
    ran = community(tmp_path, ECHO, [say(1, "hello", **{"channel": "general", **place}) for place in places])
    assert ran.rows("SELECT platform, channel, thread FROM conversation_list") == [
        ("chat", "general", None), ("chat", "general", "t"), ("chat", "general", "u"), ("chat", "other", None),
        ("slack", "general", None),
    ]  # fmt: skip
    assert len(ran.rows("SELECT DISTINCT agent FROM chat_responses")) == 5


def test_messages_of_a_conversation_are_answered_in_order(tmp_path: Path) -> None:
    """Ten messages in one second are answered one after the other, as they came."""
    ran = community(tmp_path, ECHO, [say(1 + n / 10, f"message {n}") for n in range(10)], models=SLOW, chat=UNLIMITED)
    answered = ran.rows("SELECT time, content FROM chat_responses ORDER BY id")
    assert [content for _, content in answered] == [f"message {n}" for n in range(10)]
    assert [time for time, _ in answered] == pytest.approx([11 + 10 * n for n in range(10)], abs=2)


def test_conversations_are_answered_side_by_side(tmp_path: Path) -> None:
    """Ten messages in ten channels take as long as one."""
    steps = [say(1, f"message {n}", f"channel-{n}") for n in range(10)]
    ran = community(tmp_path, ECHO, steps, models=SLOW, chat=UNLIMITED)
    assert ran.rows("SELECT DISTINCT round(time) FROM chat_responses") == [11.0]


def test_an_agent_is_let_go_after_silence(tmp_path: Path) -> None:
    """After half an hour without a message the agent stops; the next message makes another, which knows the past."""
    steps = [say(1, "one"), say(1000, "two"), say(5000, "three")]
    ran = community(tmp_path, [{"say": "=str(len(conversation))"}], steps, until="3h")
    agents = ran.rows("SELECT agent FROM chat_responses ORDER BY id")
    assert agents[0] == agents[1] != agents[2]
    assert ran.rows("SELECT time FROM actions WHERE kind = 'stop'") == [2800.0, 6800.0]
    assert not ran.chats.workers
    assert set(ran.world.agents) == {"ana"}
    assert ran.answers() == ["2", "4", "6"]  # with the prompt


def test_a_message_at_the_moment_of_the_end_is_answered(tmp_path: Path) -> None:
    """A message that comes when the agent is just let go is taken by it or by another one."""
    steps = {"ana": [say(1, "one"), say(1801, "two"), say(3601, "three")], "bo": [say(1801, "four"), say(3601, "five")]}
    ran = community(tmp_path, ECHO, steps, until="3h")
    assert sorted(ran.rows("SELECT account FROM chat_responses")) == ["ana"] * 3 + ["bo"] * 2
    assert [content for role, content in ran.messages() if role == "user"] == ["one", "two", "four", "three", "five"]


def test_a_full_line_blocks_who_writes(tmp_path: Path) -> None:
    """In a line with room for two messages, a person who writes more waits; no message is refused."""
    text = [say(1, f"message {n}") for n in range(8)]
    ran = community(tmp_path, ECHO, text, models=SLOW, chat=UNLIMITED, execution={"agent_loop": {"mailbox_size": 2}})
    assert ran.answers() == [f"message {n}" for n in range(8)]
    sent = ran.rows("SELECT round(time) FROM actions WHERE kind = 'send_chat_message' ORDER BY id")
    assert sent[:3] == [1, 1, 1]
    assert sent[-1] > 40
    assert ran.rows("SELECT success FROM actions WHERE kind = 'send_chat_message' AND NOT success") == []

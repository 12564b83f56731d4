"""Assistants: who answers, when again, and on whose behalf."""

from itertools import pairwise

import pytest

from sim.agents.conversation import Conversations
from sim.base.errors import UsageError
from tests.llm.scenes import Scene

DESK = """until: 10m
conversations: {level: LEVEL}
tools:
  functions:
    orders.amount: {description: Look up., parameters: {id: {type: string}}, returns: "7"}"""
PEOPLE = """
  - name: customer
    count: 3
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: n == 0
        set: {n: 1}
        do: {post_message: {channel: desk, thread: "=me", text: order a1}}
      - do: stop
  - name: helper
    count: 2
    kind: assistant
    settings: {instructions: Help., tools: [orders.amount], retries: 2}
"""
ANSWERS = "  rules:\n    - {result: observation, say: it is 7}\n    - {text: order, call: {orders.amount: {id: a1}}}\n"


def desk(rules: str = ANSWERS, level: str = "user", mode: str = "autonomous", backend: str = "asyncio") -> Scene:
    """Run the desk."""
    return Scene(rules, PEOPLE, DESK.replace("LEVEL", level)).run(backend, mode)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_each_conversation_is_answered_once(mode: str) -> None:
    """Three people write at once; two assistants answer each of them once, with the tool."""
    scene = desk(mode=mode)
    conversations = Conversations.of(scene.world)
    roles = [[m.role for m in conversations.messages(id)] for id in conversations.conversations]
    assert roles == [["user", "tool_call", "tool_result", "assistant"]] * 3
    assert [m.content for m in conversations.thread("conversation-1")][-1] == "it is 7"
    assert conversations.waiting() == []


def test_a_tool_is_called_for_the_user_too() -> None:
    """The assistant may call the tool, but a guest may not: it is not even offered."""
    scene = desk("  rules: [{tool: orders.amount, say: offered}, {say: not offered}]\n", level="guest")
    conversations = Conversations.of(scene.world)
    assert conversations.messages("conversation-1")[-1].content == "not offered"


def test_an_answer_is_tried_again_and_then_given_up() -> None:
    """After a failure that may pass, the person sees an error with a retry; after the last one, that it failed."""
    scene = desk("  retry: {requests: 1}\n  rules: [{fail: overload}]\n")
    held = [m for m in Conversations.of(scene.world).messages("conversation-1") if m.role == "error"]
    assert [m.metadata["retryable"] for m in held] == [True, True, False]
    assert held[-1].content.startswith("Failed permanently")
    waits = [later.time_ns - earlier.time_ns for earlier, later in pairwise(held)]
    assert waits[0] >= 10 * 10**9
    assert waits[1] >= 20 * 10**9
    assert scene.events("agent.error") == []


def test_a_model_that_never_ends_leaves_an_incomplete_answer() -> None:
    """At a limit, the last text is kept and marked."""
    scene = desk("  rules: [{call: {orders.amount: {id: a1}}}]\n")
    last = Conversations.of(scene.world).messages("conversation-1")[-1]
    assert (last.role, last.metadata) == ("assistant", {"incomplete": True, "ending": "same_tool"})


def test_assistants_need_models_and_conversations() -> None:
    """What is missing is named before the run."""
    with pytest.raises(UsageError, match="answers in conversations"):
        Scene(ANSWERS, "\n  - {name: helper, kind: assistant}\n")


def test_backends_agree() -> None:
    """asyncio and trio leave the same record."""
    assert desk().recorder.rows == desk(backend="trio").recorder.rows

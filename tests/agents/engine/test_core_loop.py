"""The loop of model calls and tool calls: when it ends, what the model sees, and what is never run."""

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import attrs
import pytest

import sim
from sim.agents.engine import FINISHED, CoreLoop, Ending, LoopLimits, LoopResult, limits_from
from sim.agents.engine.limits import TASK_COST, USER_BUDGET, ending_of
from sim.base.errors import LimitError, UsageError
from sim.base.permissions import Permission
from sim.base.text import dotted_name
from sim.kernel.codec import decode
from sim.llm.service import Models
from sim.llm.types import ChatMessage, ModelError
from sim.tools.schema import Given
from tests.llm.scenes import Scene

NOTED: list[str] = []


@sim.tool("notes.add")
def add(text: str) -> str:
    """Add a note.

    Args:
        text: the note.
    """
    NOTED.append(text)
    return f"noted {text}"


@sim.tool("notes.read", safety="pure")
def read(size: int) -> str:
    """Read notes.

    Args:
        size: how many characters.
    """
    return "x" * size


@sim.tool("chat.send_message")
def send_message(text: str) -> str:
    """Send a message.

    Args:
        text: the message.
    """
    return "sent"


@sim.tool("notes.erase", permission=Permission.OWNER)
def erase() -> str:
    """Erase all notes."""
    NOTED.clear()
    return "erased"


class Worker(sim.Agent):
    """Runs the loop once, with the limits and the tools of the test."""

    limits: ClassVar[Mapping[str, Any]] = {}
    stop_tools: ClassVar[frozenset[str]] = frozenset()
    names: ClassVar[tuple[str, ...]] = ("notes.add", "notes.read", "chat.send_message", "world.noop")
    result: ClassVar[LoopResult]
    noted: ClassVar[list[ChatMessage]] = []

    async def decide_action(self) -> sim.Action:
        tools = sim.Tools.on(self.world)
        tools.add(add, read, send_message, erase)
        loop = CoreLoop(
            self.world, self, tools.offered(self, self.names), limits=LoopLimits(**self.limits),
            stop_tools=self.stop_tools, note=self.noted.append,
        )  # fmt: skip
        type(self).result = await loop.run([ChatMessage("system", "Work."), ChatMessage("user", "go")])
        return sim.Action("stop")


def work(rules: str, **options: Any) -> tuple[LoopResult, Scene]:
    """Run a worker with scripted answers; its result, and the scene."""
    NOTED.clear()
    more, base = f"until: 10m\n{options.pop('sections', '')}", options.pop("base", Worker)
    kind: Any = type("TestWorker", (base,), {"noted": [], **options})
    scene = Scene(f"  rules:\n{rules}", "\n  - {name: asker, kind: worker}\n", more, kinds={"worker": kind}).run()
    return kind.result, scene


def results(result: LoopResult) -> list[Any]:
    """Return what the model saw of its tool calls."""
    return [decode(message.content.encode()) for message in result.messages if message.role == "tool"]


def test_the_loop_ends_when_the_model_calls_no_tool() -> None:
    """Tool calls are run and their results come back, until an answer has none."""
    result, scene = work("    - {result: noted milk, say: done}\n    - {call: {notes.add: {text: milk}}}\n")
    assert (result.ending, result.text, result.iterations, result.tools) == ("natural_completion", "done", 2, 1)
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    assert results(result) == [{"success": True, "observation": "noted milk"}]
    assert NOTED == ["milk"]
    assert len(scene.events("action.use_tool")) == 1


def test_the_loop_ends_after_a_stop_tool() -> None:
    """A conversational agent ends its turn with the tool that sends its message."""
    result, _ = work("    - {call: {chat.send_message: {text: hi}}}\n", stop_tools=frozenset({"chat.send_message"}))
    assert (result.ending, result.iterations) == ("stop_tool", 1)


@pytest.mark.parametrize(
    ("limits", "ending", "iterations"),
    [
        ({"iterations": 3, "same_tool": 9}, "max_iterations", 3),
        ({"same_tool": 4}, "same_tool", 4),
        ({"history": 5, "same_tool": 9}, "history_length", 2),
        ({"tokens": 100, "same_tool": 9}, "max_tokens", None),
    ],
)
def test_the_loop_ends_at_each_limit(limits: dict[str, Any], ending: str, iterations: int | None) -> None:
    """A model that never stops calling a tool is stopped by the first limit, which the result names."""
    result, _ = work("    - {call: {notes.read: {size: 5}}}\n", limits=limits)
    assert result.ending == ending
    assert iterations is None or result.iterations == iterations


def test_simulated_time_is_a_limit() -> None:
    """A loop that takes longer than its time makes no further call."""
    answers = "  rules:\n    - {call: {notes.read: {size: 5}}}\n  provider: simulated\n"
    kind: Any = type("Slow", (Worker,), {"limits": {"time": 10**9, "same_tool": 99, "iterations": 99}, "noted": []})
    Scene(answers, "\n  - {name: asker, kind: worker}\n", kinds={"worker": kind}).run()
    assert kind.result.ending == "max_time"


@pytest.mark.parametrize(
    "call", ["{nothing.here: {}}", "{notes.add: {}}", "{notes.add: {text: 5}}", "{notes.add: {text: a, more: b}}",
             "{notes.add: '{\"text\": \"ye'}", "{notes.erase: {}}"]
)  # fmt: skip
def test_a_faulty_call_is_never_run(call: str) -> None:
    """A call with an unknown tool, wrong arguments, or a tool that was not offered is kept, audited, counted, not run.

    The model is told each time, then given up.
    """
    noted: list[ChatMessage] = []
    result, scene = work(f"    - {{call: {call}}}\n", noted=noted, sections="audit: {}")
    assert (result.ending, result.iterations, result.tools) == ("invalid_answer", 3, 0)
    assert result.error is not None
    assert "was not run" in result.error
    assert not scene.events("action.use_tool")
    assert NOTED == []
    assert [message.role for message in noted] == ["assistant", "tool"] * 3
    assert [len(message.tool_calls) for message in noted] == [1, 0] * 3
    assert [(one["what"], one["data"]["tool"][:6]) for one in scene.events("audit.record")] == [
        ("tool.denied", call[1:7] if "nothing" not in call else "nothin")
    ] * 3
    assert sim.Tools.of(scene.world).faulty == 3
    [told] = sim.Tools.of(scene.world).warnings()
    assert told.text.startswith("3 calls of tools were not run; the first: ")


def test_what_can_be_run_of_an_answer_is_run() -> None:
    """A wrong call beside a right one does not undo it: each has its own result."""
    calls = "[{notes.add: {text: a}}, {nothing.here: {}}, {notes.read: {size: 1}}]"
    result, _ = work(f"    - {{role: tool, say: ok}}\n    - {{call: {calls}}}\n")
    assert NOTED == ["a"]
    assert [one["success"] for one in results(result)] == [True, False, True]
    assert (result.ending, result.iterations, result.tools) == ("natural_completion", 2, 2)


def test_wrong_answers_count_toward_the_iterations() -> None:
    """With at most three model calls, three are made, whatever the answers are worth."""
    rules = "    - {when: calls % 2 == 0, call: {nothing.here: {}}}\n    - {call: {notes.read: {size: 1}}}\n"
    result, _ = work(rules, limits={"iterations": 3, "invalid_answers": 9})
    assert (result.ending, result.iterations, result.tools) == ("max_iterations", 3, 1)


def test_without_a_limit_the_same_tool_can_be_called_again_and_again() -> None:
    """`same_tool: null` is no limit."""
    result, _ = work("    - {call: {notes.read: {size: 1}}}\n", limits={"same_tool": None, "iterations": 9})
    assert (result.ending, result.tools) == ("max_iterations", 9)


def test_a_faulty_call_goes_back_in_a_form_that_endpoints_take() -> None:
    """The history for the model has a possible name and a JSON object; what is kept is what the model wrote."""
    noted: list[ChatMessage] = []
    result, _ = work('    - {role: tool, say: ok}\n    - {call: {"no.such tool!": \'{"a\'}}\n', noted=noted)
    ((kept,), (shown,)) = noted[0].tool_calls, result.messages[0].tool_calls
    assert (kept.name, kept.arguments) == ("no__such tool!", '{"a')
    assert (shown.name, shown.arguments) == ("no__such_tool_", '{"text":"{\\"a"}')


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("notes.ad", "there is no tool 'notes.ad'; did you mean 'notes.add'?"),
        ("notes.erase", "the tool 'notes.erase' is not offered here: notes.erase needs the permission owner, which "),
        ("notes.read", "the tool 'notes.read' is not offered here: the agent was not given it"),
        ("world.publish", "the tool 'world.publish' is not offered here: the agent was not given it"),
        ("world.use_tool", "there is no tool 'world.use_tool'"),
    ],
)
def test_a_tool_that_is_not_offered_is_told_from_one_that_does_not_exist(name: str, said: str) -> None:
    """The error says which it is and why, with the names that people write; asking for a tool adds none."""
    rules = f"    - {{role: tool, say: ok}}\n    - {{call: {{{name}: {{}}}}}}\n"
    result, scene = work(rules, names=("notes.add",), sections="audit: {}\n")
    (seen,) = results(result)
    assert said in seen["error"]
    (noted,) = scene.events("audit.record")
    assert (noted["what"], noted["data"]["tool"]) == ("tool.denied", name)
    (warned,) = sim.Tools.of(scene.world).warnings()
    assert said in warned.text
    assert "__" not in seen["error"] + noted["data"]["reason"] + warned.text
    assert name.startswith("notes") or name not in sim.Tools.of(scene.world).by_name


class Dotted(Worker):
    """Has its calls answered under the names that people write, as some models do."""

    async def decide_action(self) -> sim.Action:
        service, plain = Models.of(self.world), Models.of(self.world).complete

        async def dotted(*given: Any) -> Any:
            answer = await plain(*given)
            calls = [attrs.evolve(one, name=dotted_name(one.name)) for one in answer.completion.tool_calls]
            return attrs.evolve(answer, completion=attrs.evolve(answer.completion, tool_calls=tuple(calls)))

        service.complete = dotted  # type: ignore[assignment]
        return await super().decide_action()


def test_a_model_may_call_a_tool_by_the_name_that_people_write() -> None:
    """Errors name tools with a dot, so a call with a dot is run; what the model sees keeps the form of endpoints."""
    result, _ = work("    - {role: tool, say: ok}\n    - {call: {notes.add: {text: milk}}}\n", base=Dotted)
    assert (result.tools, NOTED) == (1, ["milk"])
    assert [call.name for call in result.messages[0].tool_calls] == ["notes__add"]


class Placed(Worker):
    """Is given a context by the runtime, as an agent in a conversation is."""

    names = ("notes.whose", "notes.open", "notes.seed")

    async def decide_action(self) -> sim.Action:
        place = {"user": "user:1", "platform": "mail", "channel": "c", "thread": None, "conversation": "conversation-1"}
        tools = sim.Tools.on(self.world)
        tools.context = lambda agent_id: place
        tools.add(whose, seed_tool, sim.Tool("notes.open", lambda arguments: dict(arguments)))
        return await super().decide_action()


@sim.tool("notes.whose", safety="pure")
def whose(user: Given[str], platform: Given[str], conversation: Given[str], about: str) -> list[str]:
    """Say whose notes these are.

    Args:
        about: what they are about.
    """
    return [user, platform, conversation, about]


@sim.tool("notes.seed", safety="pure")
def seed_tool(user_id: str, about: str) -> list[str]:
    """Say whose notes these are, with the name of the seed.

    Args:
        about: what they are about.
    """
    return [user_id, about]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("notes.whose", ["user:1", "mail", "conversation-1", "x"]),
        ("notes.seed", ["user:1", "x"]),
        ("notes.open", {"about": "x"}),
    ],
)
def test_context_that_a_model_sends_is_overwritten(tool: str, expected: Any) -> None:
    """Whatever a model says of user and place, the call is made, and the tool gets what the runtime knows."""
    forged = "user: eve, user_id: eve, platform: x, channel: x, thread: x, conversation: x, conversation_id: x"
    call = f"{{{tool}: {{about: x, {forged}, platform_channel_id: x, platform_thread_id: x, world: x, agent: x}}}}"
    rules = f"    - {{role: tool, say: ok}}\n    - {{call: {call}}}\n"
    result, _ = work(rules, base=Placed)
    assert results(result) == [{"success": True, "observation": expected}]
    assert (result.iterations, result.tools) == (2, 1)


def test_a_call_that_was_cut_off_is_never_run() -> None:
    """A call in an answer that hit its token limit may lack a part of its arguments."""
    result, _ = work("    - {call: {notes.add: {text: a}}, stop: max_tokens}\n")
    assert (result.ending, NOTED) == ("invalid_answer", [])


def test_the_same_call_twice_in_an_answer_is_run_once() -> None:
    """What may not be repeated is run once, and the model learns that; pure tools may be repeated."""
    twice = "[{notes.add: {text: a}}, {notes.add: {text: a}}, {notes.read: {size: 1}}, {notes.read: {size: 1}}]"
    result, _ = work(f"    - {{role: tool, say: ok}}\n    - {{call: {twice}}}\n")
    assert NOTED == ["a"]
    assert [one["success"] for one in results(result)] == [True, False, True, True]
    assert result.tools == 3


def test_limits_hold_within_one_answer() -> None:
    """An answer with many calls runs no more of them than the limits allow; each of the others is told so."""
    many = ", ".join(f"{{notes.add: {{text: a{n}}}}}" for n in range(40))
    result, _ = work(f"    - {{call: [{many}]}}\n", limits={"same_tool": 3})
    assert (result.ending, result.iterations, result.tools) == ("same_tool", 1, 3)
    assert NOTED == ["a0", "a1", "a2"]
    told = results(result)
    assert [one["success"] for one in told] == [True] * 3 + [False] * 37
    assert told[-1]["error"] == "notes.add was not run: the limit same_tool is reached"


def test_a_long_result_is_cut_for_the_model_and_whole_on_record() -> None:
    """The model sees 8,000 characters and a mark; the record has everything."""
    result, scene = work("    - {role: tool, say: ok}\n    - {call: {notes.read: {size: 9000}}}\n")
    (seen,) = [message.content for message in result.messages if message.role == "tool"]
    assert seen.endswith("more characters]")
    assert 8000 < len(seen) < 8050
    (event,) = scene.events("action.use_tool")
    assert event["result"] == "x" * 9000


def test_an_action_of_the_world_is_a_tool() -> None:
    """`world.noop` is the action `noop`, with its own record."""
    _, scene = work("    - {role: tool, say: ok}\n    - {call: {world.noop: {}}}\n")
    assert len(scene.events("action.noop")) == len(scene.events("action.use_tool")) == 1


def test_every_message_is_noted_in_order() -> None:
    """A conversation can keep what the loop adds, as it is added."""
    noted: list[ChatMessage] = []
    result, _ = work("    - {role: tool, say: done}\n    - {call: {notes.add: {text: milk}}}\n", noted=noted)
    assert tuple(noted) == result.messages
    assert [message.role for message in noted] == ["assistant", "tool", "assistant"]


def test_a_model_that_fails_ends_the_loop_with_its_error() -> None:
    """The agent decides what to do about it; the loop says whether a later try may succeed."""
    result, _ = work("    - {fail: bad_request}\n")
    assert (result.ending, result.retryable) == ("model_error", False)
    result, _ = work("    - {fail: overload}\n")
    assert (result.ending, result.retryable) == ("model_error", True)


@pytest.mark.parametrize(
    ("sections", "ending", "iterations", "retryable"),
    [
        ("limits: {llm_calls: {agent: 2 per 1h, policy: skip}}\n", "llm_calls", 2, True),
        ("limits: {llm_tokens: {agent: 900 per 1h}}\n", "llm_tokens", 0, False),
        ("budgets: {llm_tokens: {amount: 900}}\n", "llm_tokens", 0, False),
    ],
)
def test_the_ending_names_the_limit_that_refused_a_call(
    sections: str, ending: str, iterations: int, retryable: bool
) -> None:
    """A limit or budget that ends a loop is its ending, in a word of the engine; what was done before is counted."""
    result, _ = work("    - {call: {notes.add: {text: milk}}}\n", sections=sections)
    assert (result.ending, result.iterations, result.retryable) == (ending, iterations, retryable)
    assert isinstance(result.cause, LimitError)
    assert (result.tools, result.tokens > 0) == (iterations, iterations > 0)


def test_every_limit_of_a_call_has_an_ending() -> None:
    """The kinds of errors map to words of the closed set; one that is not known has its own word, never no model."""
    kinds = {USER_BUDGET: "user_budget", TASK_COST: "task_cost", "llm_cost": "llm_cost", "own": "other_limit"}
    assert {kind: ending_of(LimitError(kind, 2, 1, "a")) for kind in kinds} == kinds
    assert ending_of(ModelError("quota", "the ceiling is reached")) == "quota"
    assert {*kinds.values(), "quota", *FINISHED} <= set(get_args(Ending))


def test_rules_ask_with_tools_that_are_run() -> None:
    """`ask` runs the tools that are not declared under models.tools, and its result says how it ended."""
    asker = """
  - name: asker
    state: {n: 0, told: none}
    loop: {min_loop_delay: 1s}
    balance: 10
    rules:
      - when: n == 0
        do: {ask: {prompt: Pay the shop., tools: [world.transfer]}}
        set: {n: 1, told: "=result.data.text + ' ' + result.data.ending"}
      - do: stop
"""
    rules = "  rules:\n    - {role: tool, say: paid}\n    - {call: {world.transfer: {to: shop, amount: 3}}}\n"
    scene = Scene(rules, asker, "until: 10m\naccounts: {shop: 0}").run()
    assert scene.state()["told"] == "paid natural_completion"
    assert scene.world.balance("shop") == 3


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("{iterations: 3, same_tool: null}", "3 max_iterations"),
        ("{same_tool: 2}", "2 same_tool"),
        ("{cost: 0.5, time: 10m, tokens: 400}", "5 same_tool"),
    ],
)
def test_a_rule_sets_the_limits_of_its_question(limits: str, told: str) -> None:
    """`ask` takes all limits of the engine; its result names the one that ended it."""
    asker = f"""
  - name: asker
    state: {{told: none}}
    rules:
      - when: told == 'none'
        do: {{ask: {{prompt: Go., tools: [world.noop], limits: {limits}}}}}
        set: {{told: "=str(result.data.tools) + ' ' + result.data.ending"}}
      - do: stop
"""
    scene = Scene("  rules:\n    - {call: {world.noop: {}}}\n", asker).run()
    assert scene.state()["told"] == told


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"iteration": 3}, "did you mean 'iterations'"),
        ({"iterations": 0}, "the limit iterations is a whole number from 1 to 1,000, not 0"),
        ({"iterations": None}, "the limit iterations is a whole number"),
        ({"cost": -1}, "the limit cost is a number from 0, not -1"),
        ({"same_tool": True}, "the limit same_tool is a whole number"),
        ({"time": 0}, "the limit time is above 0"),
        ([3], "limits is a mapping"),
    ],
)
def test_limits_that_cannot_be(given: Any, why: str) -> None:
    """A wrong limit is one sentence, and nothing is asked."""
    with pytest.raises(UsageError) as caught:
        limits_from(given, LoopLimits())
    assert why in f"{caught.value} {caught.value.hint}"

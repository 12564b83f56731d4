"""Which message each rule reads: a rule gets the oldest that it would use, and what no rule reads blocks nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.actors.mailbox import Mailbox, Unmatched
from sim.agents import PolicyAction, PolicyRule
from sim.agents.reading import Reader
from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression
from sim.kernel import Kernel
from sim.kernel.codec import freeze
from sim.world import Message

POLICIES: tuple[Unmatched, ...] = ("keep", "drop", "fail")
MODES = ("autonomous", "tick")


def run(tmp_path: Path, text: str, mode: Any = "autonomous", until: str = "10m", seed: int = 1) -> tuple[Any, Any]:
    """Run agents, and return the last samples of the metrics, and the result."""
    path = tmp_path / "mail.yaml"
    path.write_text(f"name: mail\nuntil: {until}\n{text}")
    result = sim.run(path, mode=mode, seed=seed)
    return {name: samples[-1] for name, samples in result.metrics.items()}, result


def shop(tmp_path: Path, loop: str, rules: str, mode: str = "autonomous", sends: str = "order") -> tuple[Any, Any]:
    """Run a shop that gets a `hello` first, and then what `sends` says every ten seconds."""
    text = f"""
agents:
  - {{name: shop, state: {{sold: 0, busy: false}}, loop: {{{loop}}}, rules: [{rules}]}}
  - name: customer
    state: {{n: 0}}
    loop: {{min_loop_delay: 10s}}
    rules:
      - {{when: iteration == 1, do: {{send: {{to: shop, topic: hello}}}}}}
      - {{do: {{send: {{to: shop, topic: {sends}}}}}, set: {{n: "=n + 1"}}}}
metrics: {{every: 1m, values: {{sold: "total('shop', 'sold')", sent: "total('customer', 'n')"}}}}
"""
    return run(tmp_path, text, mode)


ORDER = """{when: "message is not None and message.topic == 'order'", set: {sold: "=sold + 1"}}"""
HELLO = {"agent": "shop", "topic": "hello", "count": 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_message_that_no_rule_reads_blocks_nothing(policy: str, mode: str, tmp_path: Path) -> None:
    """All later messages are read, and the result says who did not read what, and why."""
    loop = f"unmatched: {policy}, min_loop_delay: 1s"
    seen, result = shop(tmp_path, loop, f"{ORDER}, {{do: noop}}", mode)
    assert seen["sent"] > 50
    assert seen["sent"] - seen["sold"] <= 2  # one is lost with the failed iteration, and one sent at the end
    why = {"keep": "no rule", "drop": "dropped", "fail": "failed"}[policy]
    assert [row for row in result.unread if row["why"] != "waiting"] == [{**HELLO, "why": why}]
    assert (result.unmatched, result.errors) == (1, 1 if policy == "fail" else 0)


@pytest.mark.parametrize(
    "rules",
    [
        f"{ORDER}, {{do: {{sleep: {{message: true}}}}}}",
        f"{{when: message is None, do: {{sleep: {{message: true}}}}}}, {ORDER}",
        f"{ORDER}, {{when: message is None, do: {{sleep: {{message: true}}}}}}",
        f"{ORDER}, {{when: messages == 0, do: {{sleep: {{message: true}}}}}}, {{do: noop}}",
    ],
)
def test_an_unread_message_does_not_keep_an_agent_awake(rules: str, tmp_path: Path) -> None:
    """It counts neither as `message` nor in `messages`, and does not end a sleep until a message."""
    seen, result = shop(tmp_path, "min_loop_delay: 0", rules)
    assert seen["sold"] == seen["sent"] > 50
    assert result.iterations < 4 * seen["sent"]
    assert [row for row in result.unread if row["why"] == "no rule"] == [{**HELLO, "why": "no rule"}]


CLOSED = "{when: now < 300, do: {sleep: {any: [{until: 5m}, {message: true}]}}}"


def test_a_message_that_has_to_wait_does_not_keep_an_agent_awake(tmp_path: Path) -> None:
    """An agent that would not read it yet sleeps on, also without a delay between iterations; then it reads all."""
    seen, result = shop(tmp_path, "min_loop_delay: 0", f"{CLOSED}, {ORDER}, {{do: {{sleep: {{message: true}}}}}}")
    assert seen["sold"] == seen["sent"] > 50
    assert result.iterations < 4 * seen["sent"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_busy_agent_loses_nothing(policy: str, tmp_path: Path) -> None:
    """What arrives while another rule is in front is read later, and wakes the agent that falls asleep ready for it."""
    text = f"""
agents:
  - name: cook
    state: {{served: 0, busy: 0}}
    loop: {{min_loop_delay: 1s, unmatched: {policy}}}
    rules:
      - {{when: busy == 1, do: {{sleep: {{for: 1m}}}}, set: {{busy: 2}}}}
      - {{when: busy == 2, do: {{sleep: {{message: true}}}}, set: {{busy: 0}}}}
      - {{when: "message is not None and message.topic == 'order'", set: {{served: "=served + 1", busy: 1}}}}
      - {{do: {{sleep: {{message: true}}}}}}
  - {{name: guest, count: 3, rules: [{{when: iteration == 1, do: {{send: {{to: cook, topic: order}}}}}}, {{do: stop}}]}}
metrics: {{every: 1m, values: {{served: "total('cook', 'served')"}}}}
"""
    for mode in MODES:
        seen, result = run(tmp_path, text, mode)
        assert (seen["served"], result.unmatched, result.errors, result.unread) == (3, 0, 0, [])


def test_a_change_from_outside_lets_an_agent_read_what_waits(tmp_path: Path) -> None:
    """An intervention that sets the state of a sleeping agent wakes it for the messages that it would read now."""
    text = """
agents:
  - name: shop
    state: {open: false, sold: 0}
    rules:
      - {when: "open and message is not None", set: {sold: "=sold + 1"}}
      - {do: {sleep: {message: true}}}
  - {name: guest, count: 3, rules: [{when: iteration == 1, do: {send: {to: shop, topic: order}}}, {do: stop}]}
interventions: [{at: 5m, set: {agents.shop.state.open: true}}]
metrics: {every: 1m, values: {sold: "total('shop', 'sold')"}}
"""
    seen, result = run(tmp_path, text)
    assert (seen["sold"], result.unread) == (3, [])
    assert result.metrics["sold"][4:6] == [0, 3] or result.metrics["sold"][5:7] == [0, 3]


CHANCE = """
agents:
  - name: person
    state: {got: 0}
    loop: {min_loop_delay: 0.1s, unmatched: POLICY}
    rules: [{when: "message is not None and chance(0.3)", set: {got: "=got + 1"}}, {do: noop}]
  - {name: friend, loop: {min_loop_delay: 1s}, rules: [{do: {send: {to: person, topic: meets}}}]}
metrics: {every: 1s, values: {got: "total('person', 'got')"}}
"""


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_rule_draws_once_for_each_message(policy: str, tmp_path: Path) -> None:
    """A message that waits is not drawn for again, so the share that is read is the probability."""
    seen, result = run(tmp_path, CHANCE.replace("POLICY", policy))
    assert 0.25 * result.messages < seen["got"] < 0.35 * result.messages
    assert result.messages - 2 <= seen["got"] + result.unmatched <= result.messages


def test_a_rule_that_does_not_match_in_time_draws_nothing(tmp_path: Path) -> None:
    """The parts of a condition that draw are evaluated last, so a message waits undrawn for the state that it needs."""
    text = CHANCE.replace("POLICY", "keep").replace("chance(0.3)", "chance(1) and now > 300")
    seen, result = run(tmp_path, text)
    assert seen["got"] >= result.messages - 2
    assert result.unmatched == 0


@pytest.mark.parametrize("policy", ["block", "drop_oldest", "fail"])
def test_what_no_rule_reads_takes_no_place(policy: str, tmp_path: Path) -> None:
    """Many such messages neither stop their sender nor drop others; the mailbox keeps a limited number of them."""
    loop = f"min_loop_delay: 1s, mailbox_size: 2, mailbox_policy: {policy}"
    seen, result = shop(tmp_path, loop, f"{ORDER}, {{do: noop}}", sends="hello")
    assert result.messages == seen["sent"] + 1 > 50
    assert (result.dropped, result.refused) == (0, {})
    unread = [row for row in result.unread if row["why"] == "no rule"]
    assert result.unmatched == sum(row["count"] for row in unread) >= seen["sent"] - 1


def test_what_waits_for_its_rule_takes_a_place(tmp_path: Path) -> None:
    """A sender waits for a full mailbox, a full one drops its oldest or refuses: as if nothing had been looked at.

    The run warns of senders that wait, also while the agent that does not read is busy with other things.
    """
    counts = {}
    for policy in ("block", "drop_oldest", "fail"):
        loop = f"min_loop_delay: 1s, mailbox_size: 2, mailbox_policy: {policy}"
        rules = """{when: "message is not None and message.topic == 'order' and busy"}, {do: noop}"""
        _, result = shop(tmp_path, loop, rules)
        warned = [one["text"] for one in result.warnings]
        assert [text.rpartition(": ")[2] for text in warned] == ["1 for shop"] * (policy == "block")
        counts[policy] = (result.messages, result.dropped > 50, result.refused.get("send", 0) > 10)
        assert [row for row in result.unread if row["why"] == "waiting"] == [
            {"agent": "shop", "topic": "order", "count": 2, "why": "waiting"}
        ]
    assert counts["block"] == (3, False, False)
    assert counts["drop_oldest"][1:] == (True, False)
    assert counts["fail"] == (3, False, True)


def test_a_message_for_which_a_condition_fails_is_removed(tmp_path: Path) -> None:
    """The iteration fails once; the next one continues with the next message."""
    rules = """{when: "message is not None and message.data > 0 or False"}, {do: noop}"""
    _, result = shop(tmp_path, "min_loop_delay: 1s", rules)
    assert result.errors >= result.messages - 1 > 50
    assert "NoneType" in result.commonest_error or "None" in result.commonest_error


def test_all_rules_may_refuse_before_an_iteration_fails(tmp_path: Path) -> None:
    """With `unmatched: fail` the error names topic and sender; a message that a rule would read is not lost."""
    _, result = shop(tmp_path, "unmatched: fail, min_loop_delay: 1s", f"{ORDER}, {{do: noop}}")
    assert "no rule of shop uses the message 'hello' from customer" in result.commonest_error


class Counted(Expression):
    """An expression that counts its evaluations."""

    count = 0

    def evaluate(self, *arguments: Any, **options: Any) -> Any:
        Counted.count += 1
        return super().evaluate(*arguments, **options)


def reads(*conditions: str) -> tuple[PolicyRule, ...]:
    """Return rules with these conditions; one that does not mention messages reads none."""
    return tuple(PolicyRule(Counted.parse(text), (PolicyAction("noop", {}),), {}, {}) for text in conditions)


def put(kernel: Kernel, mailbox: Mailbox, *messages: Message) -> None:
    """Put messages into a mailbox."""
    with kernel.acting_as(kernel.supervisor):
        for message in messages:
            mailbox.offer(message)


def filled(kernel: Kernel, *letters: tuple[str, int]) -> Mailbox:
    """Return a mailbox with messages with these topics and data."""
    mailbox = Mailbox(kernel, 10_000, "fail")
    put(kernel, mailbox, *(Message("s", "p", topic, freeze(data), 0) for topic, data in letters))
    return mailbox


def test_a_long_line_costs_no_more_than_a_short_one() -> None:
    """Each message is looked at a fixed number of times, whether it is read, waits for the agent, or is for no rule."""
    counts = []
    for many in (200, 2000):
        mailbox = filled(Kernel(), *[("hello", 0), ("order", 1), ("bill", 2)] * many)
        reader = Reader(mailbox, reads("message.topic == 'order'", "ready and message.topic == 'bill'", "ready"))
        Counted.count = 0
        for turn in range(2 * many):
            place, number = reader.choose({"ready": turn >= many}, PURE_FUNCTIONS, "keep")
            assert place == (0 if turn < many else 1)
            mailbox.read(number)
        counts.append(Counted.count / many)
        assert (mailbox.waiting, mailbox.unmatched) == (0, many)
    assert counts[1] == pytest.approx(counts[0], rel=0.01)
    assert counts[0] < 20


def test_other_rules_read_what_the_old_ones_could_not() -> None:
    """A message that was set aside waits again when the agent gets other rules, before later ones."""
    mailbox = filled(Kernel(), ("a", 1), ("b", 2))
    assert Reader(mailbox, reads("message is not None and message.topic == 'c'")).choose(
        {}, PURE_FUNCTIONS, "keep"
    ) == (None, 0)
    assert (mailbox.unmatched, mailbox.waiting, len(mailbox)) == (2, 0, 2)
    reader = Reader(mailbox, reads("message.topic in ['a', 'b']"))
    assert (mailbox.unmatched, mailbox.waiting) == (0, 2)
    _, number = reader.choose({}, PURE_FUNCTIONS, "keep")
    assert mailbox.read(number).topic == "a"
    assert mailbox.offered is not None
    assert not any(mailbox.offered.unread.values())


CONDITIONS = (
    "message is not None and message.topic == 'a'",
    "message is not None and message.topic == 'b' and n % 2 == 0",
    "message is not None and message.data > n",
    "n % 3 == 1 and message is not None",
    "message is None",
    "message is None or message.data == 3",
    "message is not None and (message.topic == 'c' or n > 4)",
    "n % 5 == 2",
    "n % 4 == 3 and True",
    "messages > 2",
    "message is not None and messages > 1",
)


def expected(
    rules: tuple[PolicyRule, ...], waiting: list[Message], n: int, total: int
) -> tuple[int | None, Message | None]:
    """Return the chosen rule and its message, by trying all rules with all messages; `total` of them came."""

    def true(rule: PolicyRule, message: Message | None, others: int) -> bool:
        assert rule.when is not None
        shown = None if message is None else {"topic": message.topic, "data": message.data}
        return bool(rule.when.evaluate({"n": n, "message": shown, "messages": others}, PURE_FUNCTIONS))

    def suits(rule: PolicyRule) -> Iterator[Message]:
        return (message for message in waiting if true(rule, message, len(waiting) - 1))

    used = any(rule.reading is not None and any(suits(rule)) for rule in rules)
    left = len(waiting) if any(rule.reading for rule in rules) else total
    for place, rule in enumerate(rules):
        if rule.reading is not None and (message := next(suits(rule), None)) is not None:
            return place, message
        if (rule.reading is None or not used) and true(rule, None, left):
            return place, None
    return None, None


def test_what_no_rule_reads_is_not_counted_before_a_rule_is_reached():
    """`messages` counts what a rule may read, also where a rule before was chosen and the others did not look yet."""
    rules, kernel = reads("message is not None and message.topic == 'a'", "messages > 2", CONDITIONS[1]), Kernel()
    mailbox = filled(kernel, ("a", 0), ("b", 0), ("c", 0))
    reader = Reader(mailbox, rules)
    place, number = reader.choose({"n": 1}, PURE_FUNCTIONS, "keep")
    assert (place, mailbox.read(number).topic) == (0, "a")
    put(kernel, mailbox, Message("s", "p", "b", freeze(0), 2))
    place, number = reader.choose({"n": 2}, PURE_FUNCTIONS, "keep")
    assert (place, mailbox.read(number).topic) == (2, "b")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=5),
    st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), max_size=3), max_size=12),
)
def test_the_choice_is_that_of_trying_everything(conditions: list[str], arrivals: list[list[tuple[str, int]]]) -> None:
    """The first rule that would use a message reads the oldest such one; `message` is none if no rule would use any."""
    rules, kernel = reads(*conditions), Kernel()
    mailbox = filled(kernel)
    waiting: list[Message] = []
    reader = Reader(mailbox, rules)
    for n, letters in enumerate([*arrivals, [], [], []]):
        for topic, data in letters:
            waiting.append(Message("s", "p", topic, freeze(data), len(waiting) + n))
            put(kernel, mailbox, waiting[-1])
        would = reader.would_read({"n": n}, PURE_FUNCTIONS)
        place, number = reader.choose({"n": n}, PURE_FUNCTIONS, "keep")
        aside = {id(pending.message) for _, pending in mailbox.offered.aside} if mailbox.offered else set()
        waiting = [message for message in waiting if id(message) not in aside]
        wanted_place, wanted = expected(rules, waiting, n, len(mailbox))
        assert (place, mailbox.pending(number).message if number else None) == (wanted_place, wanted)
        assert would == (wanted is not None)
        if number:
            waiting.remove(mailbox.read(number))
        assert mailbox.waiting == len(waiting)


LET = """
agents:
  - name: a
    state: {x: 0, same: true}
    loop: {min_loop_delay: 1s}
    rules:
      - let: {roll: "=randint(1, 6)", twice: "=[roll, roll * 2]"}
        when: roll > 0 and twice[1] == 2 * roll
        do: {send: {to: b, data: "=roll"}}
        set: {x: "=x + twice[0]", same: "=same and result.success and twice[0] == roll"}
  - name: b
    state: {got: 0, sum: 0, same: true}
    loop: {min_loop_delay: 1s}
    rules:
      - let: {n: "=message.data if message is not None else 0", luck: "=uniform(0, 1)"}
        when: n > 3 and luck > 0.5
        do: [noop, {publish: {topic: lucky, data: "=luck"}}]
        set: {sum: "=sum + n", same: "=same and luck > 0.5"}
      - let: {n: "=message is None"}
        when: not n
        set: {sum: "=sum + message.data"}
metrics: {every: 60s, values: {x: "total('a', 'x')", y: "total('b', 'sum')", a: "count('a', 'same', true)",
  b: "count('b', 'same', true)", lucky: "published('lucky')"}}
"""


@pytest.mark.parametrize("mode", MODES)
def test_let_names_a_value_for_the_whole_rule(mode: str, tmp_path: Path) -> None:
    """It is computed once: `when`, arguments and `set` see the same draw, also with messages and several actions."""
    seen, result = run(tmp_path, LET, mode, "60s")
    assert result.errors == 0
    assert seen["x"] > 150
    assert 0 <= seen["x"] - seen["y"] <= 12
    assert (seen["a"], seen["b"]) == (1, 1)
    assert 5 < seen["lucky"] < 40


@pytest.mark.parametrize(
    ("let", "problem"),
    [
        ("{x: 1}", "the agent has a state variable 'x' already"),
        ("{now: 1}", "the name 'now' is reserved"),
        ("{p: '=q', q: 1}", "p uses q, which is computed after it"),
        ("{p: '=p'}", "p uses p, which is computed after it"),
        ("{p: '=nothing'}", "there is no name 'nothing' here"),
    ],
)
def test_let_that_cannot_be_is_refused(let: str, problem: str, tmp_path: Path) -> None:
    """The error says which name, and why; a name of one rule is none of the next."""
    rules = f"[{{let: {let}, when: x > 0}}]"
    with pytest.raises(UsageError, match=problem):
        run(tmp_path, f"agents: [{{name: a, state: {{x: 0}}, rules: {rules}}}]")
    with pytest.raises(UsageError, match="no name 'p'"):
        run(tmp_path, "agents: [{name: a, rules: [{let: {p: 1}, when: p > 1}, {when: p > 1}]}]")


def test_start_values_see_their_sisters(tmp_path: Path) -> None:
    """They are computed in an order that works, and before place and balance; those in a circle are refused."""
    text = """
agents:
  - {name: a, count: 2, state: {b: "=c * 2", c: "=d + index", d: 5}, balance: "=b + 1"}
  - {name: parent, rules: [{when: iteration == 1, do: {spawn: {agent: a, state: {c: 50}}}}]}
metrics: {every: 1s, values: {b: "total('a', 'b')", second: "balance('a-2')"}}
"""
    seen, _ = run(tmp_path, text, until="2s")
    assert (seen["b"], seen["second"]) == (10 + 12 + 100, 13)
    with pytest.raises(UsageError, match="need each other: b needs c needs d needs b"):
        run(tmp_path, text.replace("d: 5", 'd: "=b"'))

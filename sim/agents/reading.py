"""Which message each rule of a policy agent reads.

This is selective receive, as in Erlang: a rule gets the oldest message that it would use, and the other messages wait.
What Erlang demands of guards does not hold here: a condition can depend on the state of the agent, draw random numbers,
and fail. So a condition is split at its `and`:

- Parts that depend on the message alone are evaluated once for each message. A message that they exclude from every
  rule is set aside, so that it takes no place in the mailbox.
- Parts that do not depend on the message are evaluated once for all messages that wait. So a busy agent does not look
  at each message of a long line.
- Parts that draw random numbers come last, and once for each message. If there were a draw in every iteration in which
  a message waits, it would be read sooner or later, whatever the probability. These draws depend on the message and the
  rule, not on the moment: what else waits, and when the agent comes to read, changes neither them nor any other draw.

If a part cannot be evaluated on its own, the condition is evaluated as it is written: its parts may guard each other.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from sim.actors.mailbox import Mailbox, Pending, Unmatched
from sim.agents.toolbox import DRAWS
from sim.base.errors import ActorError
from sim.base.expressions import PURE_FUNCTIONS, Bindings, Expression, ExpressionError, Functions, Names
from sim.world import Message

_PURE = frozenset(PURE_FUNCTIONS)
_MESSAGE = frozenset({"message"})


class Named(Protocol):
    """An expression or a value with expressions."""

    @property
    def names(self) -> frozenset[str]:
        """The names that it uses."""

    @property
    def functions(self) -> frozenset[str]:
        """The functions that it calls."""


class NamedValue(Named, Protocol):
    """A value that a rule has named."""

    @property
    def constant(self) -> bool:
        """Whether it is a literal."""

    def evaluate(self, names: Names, functions: Functions, /) -> Any:
        """Return the value."""


@attrs.frozen
class Reading:
    """How the condition of a rule depends on messages.

    Attributes:
        fixed: the parts that depend on the message alone.
        own: the parts that do not depend on the message, and draw nothing.
        rest: the other parts that draw nothing.
        draws: the parts that draw random numbers.
        without: whether the rule may apply if there is no message.
    """

    fixed: tuple[Expression, ...]
    own: tuple[Expression, ...]
    rest: tuple[Expression, ...]
    draws: tuple[Expression, ...]
    without: bool

    @classmethod
    def of(cls, when: Expression | None, let: Mapping[str, Named] | None = None) -> "Reading":
        """Return how a condition depends on messages.

        Args:
            when: the condition; None: it is always true.
            let: the values that the rule has named.
        """
        fixed: list[Expression] = []
        own: list[Expression] = []
        rest: list[Expression] = []
        draws: list[Expression] = []
        for part in () if when is None else when.conjuncts():
            names, functions = all_of(part, let or {})
            if functions & DRAWS:
                draws.append(part)
            elif "message" not in names:
                own.append(part)
            elif part.names == _MESSAGE and part.functions <= _PURE:
                fixed.append(part)
            else:
                rest.append(part)
        without = _hold(fixed, {"message": None}, PURE_FUNCTIONS) is not False
        return cls(tuple(fixed), tuple(own), tuple(rest), tuple(draws), without)


def all_of(part: Named, let: Mapping[str, Named]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names and functions that a part uses, itself and by the values that the rule has named."""
    names, functions = set(part.names), set(part.functions)
    for name, value in reversed(list(let.items())):  # each can use those before it
        if name in names:
            names |= value.names
            functions |= value.functions
    return frozenset(names), frozenset(functions)


class Rule(Protocol):
    """The part of a rule that is used here."""

    @property
    def let(self) -> Mapping[str, NamedValue]:
        """The values that the rule has named."""

    @property
    def draws(self) -> bool:
        """Whether the condition draws random numbers."""

    @property
    def when(self) -> Expression | None:
        """The condition; None: it is always true."""

    @property
    def reading(self) -> Reading | None:
        """How the condition depends on messages; None if the rule does not use `message`."""


def _hold(parts: Sequence[Expression], names: Names, functions: Functions) -> bool | None:
    """Return whether all parts are true, or None if one cannot be evaluated."""
    try:
        for part in parts:  # not `all`, because this is the hot path of agents with messages
            if not part.evaluate(names, functions):
                return False
    except ExpressionError:
        return None
    return True


def _applies(rule: Rule, names: Names, functions: Functions) -> bool:
    return rule.when is None or bool(rule.when.evaluate(names, functions))


class Lets(Bindings):
    """The names of an agent, of which some are computed at their first use.

    Attributes:
        let: the values that the present rule has named.
    """

    __slots__ = ("let",)

    let: Mapping[str, NamedValue]


class _Candidates:
    """The messages that one rule may read, oldest first.

    Attributes:
        reading: how the condition of the rule depends on messages.
        numbers: their numbers in the mailbox. Those that left it meanwhile are removed later.
        unsure: the numbers of those for which the `fixed` parts could not be evaluated.
        tested: the number of the last message for which the `fixed` parts were evaluated.
    """

    __slots__ = ("numbers", "reading", "tested", "unsure")

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.numbers: deque[int] = deque()
        self.unsure: dict[int, None] = {}
        self.tested = 0


class Reader:
    """Chooses the next rule of one agent, and the message that it reads.

    Args:
        mailbox: the mailbox of the agent.
        rules: its rules, in order.

    Attributes:
        rules: the rules.
        let: the values that the chosen rule has named.
        drawn_for: the message, and the place of the rule whose condition is evaluated for it: its random draws depend
            on these. None: draws depend on the moment.
    """

    __slots__ = ("_candidates", "_counts", "_lets", "_mailbox", "_unmatched", "_unused", "drawn_for", "let", "rules")

    def __init__(self, mailbox: Mailbox, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.drawn_for: tuple[Pending, int] | None = None
        self.let: Bindings = {}
        self._lets = tuple(dict.fromkeys(name for rule in rules for name in rule.let))
        self._mailbox = mailbox
        readings = ((place, rule.reading) for place, rule in enumerate(rules))
        self._candidates = {place: _Candidates(reading) for place, reading in readings if reading is not None}
        used = (part for rule in rules for part in (rule.when, *rule.let.values()) if part is not None)
        self._counts = any("messages" in part.names for part in used)  # otherwise no message has to be counted
        self._unmatched: Unmatched = "keep"
        self._unused: list[Message] = []  # messages that no rule used in this iteration, if that makes it fail
        mailbox.offer_again()

    def choose(self, names: Bindings, functions: Functions, unmatched: Unmatched) -> tuple[int | None, int]:
        """Return the place of the first rule that applies, and the number of the message that it reads, or 0.

        A rule that reads messages applies with the oldest message for which its condition is true. Without a message
        it applies only if no rule would use any of the messages that wait.

        Args:
            names: the names of the agent; `message` is set in it, and `messages` where a condition uses it.
            functions: the functions of rules.
            unmatched: what happens to a message that no rule would use.

        Raises:
            ExpressionError: if a condition cannot be evaluated. The message for which it failed is removed.
            ActorError: if no rule uses a message, and `unmatched` is `fail`.
        """
        self._unmatched = unmatched
        self._take_in()
        passed: list[int] = []  # the places of rules that may apply without a message
        chosen: int | None = None
        number = place = 0
        alone = not self._lets and not self._counts  # a rule without messages needs no more than its condition
        names["message"] = None
        for place, rule in enumerate(self.rules):
            if rule.reading is None and alone:
                if rule.when is None or rule.when.evaluate(names, functions):
                    self.let = {}
                    chosen = place
                    break
                continue
            if self._lets:
                self._enter(place, names)
            if rule.reading is None:
                self._show(names, 0)
                if self._chosen(place, names, functions):
                    chosen = place
                    break
            elif number := self._oldest(place, names, functions):
                chosen = place
                break
            elif rule.reading.without:
                passed.append(place)
        if passed and not number and not self._wanted_behind(place, names, functions):
            self._show(names, 0)
            chosen = next((other for other in passed if self._chosen(other, names, functions)), chosen)
        if self._unused:
            self._fail()
        self._show(names, number)
        return chosen, number

    def would_read(self, names: Bindings, functions: Functions) -> bool:
        """Return whether the agent would read one of the messages that wait if its rules were checked now.

        Nothing is drawn: a condition that draws counts as true for a message, and as false without one.
        """
        self._take_in()
        for place, rule in enumerate(self.rules):
            if self._lets:
                self._enter(place, names)
            if rule.reading is not None:
                if self._wants(place, names, functions):
                    return True
                continue
            self._show(names, 0)
            when = rule.when
            if when is None or not (rule.draws or _hold((when,), names, functions) is False):
                return False
        return False

    def _enter(self, place: int, names: Bindings) -> None:
        """Have the values that a rule has named, which are computed at their first use. Needed if a rule has any."""
        self._forget(names)
        assert isinstance(names, Lets), "rules with `let` are those of an agent"
        names.let = self.rules[place].let

    def _forget(self, names: Bindings) -> None:
        for name in self._lets:
            names.pop(name, None)

    def _chosen(self, place: int, names: Bindings, functions: Functions) -> bool:
        """Return whether a rule applies without a message, and keep the values that it has named."""
        if self._lets:
            self._enter(place, names)
        if not _applies(self.rules[place], names, functions):
            return False
        self._keep(place, names)
        return True

    def _keep(self, place: int, names: Bindings) -> None:
        self.let = {name: names[name] for name in self.rules[place].let}

    def _wanted_behind(self, place: int, names: Bindings, functions: Functions) -> bool:
        """Return whether a rule behind the one at a place would read a message."""
        return any(self._wants(other, names, functions) for other in self._candidates if other > place)

    def _show(self, names: Bindings, number: int) -> None:
        """Set the names `message` and, where a condition uses it, `messages` for a waiting message; 0: for none."""
        mailbox = self._mailbox
        if self._lets:
            self._forget(names)
        names["message"] = mailbox.pending(number).names if number else None
        if not self._counts:
            return
        if number:
            names["messages"] = mailbox.waiting - 1
        else:
            names["messages"] = mailbox.waiting if self._candidates else len(mailbox)

    def _take_in(self) -> None:
        """Offer the messages that arrived since, and set aside those that no rule can read.

        All rules test them now, not when a rule is reached: `messages` would depend on which rules were reached.
        """
        mailbox = self._mailbox
        if not mailbox.queue.items:
            return
        while mailbox.queue.items:
            number = mailbox.hold()
            if not self._candidates:
                self._unwanted(number)
        for place in self._candidates:
            self._fitting(place)

    def _fitting(self, place: int) -> _Candidates:
        """Return the messages that a rule may read, after testing those that are new to it."""
        mailbox, candidates = self._mailbox, self._candidates[place]
        offered = mailbox.offered
        if offered is None:
            return candidates
        waiting, numbers = offered.waiting, candidates.numbers
        if candidates.tested < offered.offered:
            for number in range(candidates.tested + 1, offered.offered + 1):
                pending = waiting.get(number)
                if pending is None:
                    continue
                fits = _hold(candidates.reading.fixed, {"message": pending.names}, PURE_FUNCTIONS)
                if fits is False:
                    self._refuse(number)
                    continue
                numbers.append(number)
                if fits is None:
                    candidates.unsure[number] = None
            candidates.tested = offered.offered
        while numbers and numbers[0] not in waiting:
            candidates.unsure.pop(numbers.popleft(), None)
        return candidates

    def _oldest(self, place: int, names: Bindings, functions: Functions) -> int:
        """Return the number of the oldest message for which the condition of a rule is true, or 0."""
        candidates = self._fitting(place)
        numbers = candidates.numbers
        if not numbers:
            return 0
        final = self._unmatched != "keep"
        self._show(names, numbers[0])
        own = _hold(candidates.reading.own, names, functions)
        if own is False and not final:
            return 0
        later: list[int] = []  # messages that the rule may read later
        try:
            while numbers:
                number = numbers[0]
                if self._mailbox.is_pending(number):
                    whole = own is None or number in candidates.unsure
                    suits = own is not False and self._suits(place, number, whole, names, functions)
                    if suits:
                        self._keep(place, names)
                        return number
                    if final or suits is None:
                        self._refuse(number)
                    else:
                        later.append(number)
                numbers.popleft()
        finally:
            numbers.extendleft(reversed(later))
        return 0

    def _suits(self, place: int, number: int, whole: bool, names: Bindings, functions: Functions) -> bool | None:
        """Return whether the condition of a rule is true for a message; None: it is not, and this was drawn.

        Args:
            whole: evaluate the condition as it is written; otherwise its parts `fixed` and `own` are true.
        """
        rule, reading = self.rules[place], self._candidates[place].reading
        self._show(names, number)
        self.drawn_for = self._mailbox.pending(number), place
        try:
            rest = None if whole else _hold(reading.rest, names, functions)
            if rest is None:
                return _applies(rule, names, functions) or (None if reading.draws else False)
            return rest and (all(part.evaluate(names, functions) for part in reading.draws) or None)
        except ExpressionError:
            self._mailbox.read(number)  # otherwise it would fail again in each iteration
            raise
        finally:
            self.drawn_for = None

    def _wants(self, place: int, names: Bindings, functions: Functions) -> bool:
        """Return whether a rule would read one of the messages that wait; nothing is drawn, and nothing raised."""
        if self._lets:
            self._enter(place, names)
        candidates = self._fitting(place)
        if not candidates.numbers:
            return False
        self._show(names, candidates.numbers[0])
        if _hold(candidates.reading.own, names, functions) is False:
            return False
        for number in candidates.numbers if candidates.reading.rest else ():
            if self._mailbox.is_pending(number):
                self._show(names, number)
                if _hold(candidates.reading.rest, names, functions) is not False:
                    return True
        return not candidates.reading.rest

    def _refuse(self, number: int) -> None:
        """Note that one more rule will never read a message."""
        pending = self._mailbox.pending(number)
        pending.refusals += 1
        if pending.refusals == len(self._candidates):
            self._unwanted(number)

    def _unwanted(self, number: int) -> None:
        """Do what `unmatched` says with a message that no rule uses."""
        if self._unmatched == "keep":
            self._mailbox.set_aside(number)
            return
        message = self._mailbox.discard(number)
        if self._unmatched == "fail":
            self._unused.append(message)

    def _fail(self) -> None:
        unused, self._unused = self._unused, []
        first, more = unused[0], f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        raise ActorError(
            f"no rule of {first.to} uses the message {first.topic!r} from {first.sender}{more}",
            hint="add a rule that reads `message`, or set unmatched: keep or drop",
        )

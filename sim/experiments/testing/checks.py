"""The checks of the properties of a scenario, each of which watches one run.

A check is evaluated after each instant, is given each event, and is evaluated once more at the end. It stops at its
first finding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.events.topic import matches
from sim.experiments.testing.decorator import PropertyFunction
from sim.experiments.testing.view import PropertyView
from sim.experiments.testing.violations import Finding, Kind
from sim.kernel.duration import to_ns, to_text
from sim.scenario.properties import Occasion, Property
from sim.world.world import Inhabitant


@attrs.frozen
class Happened:
    """An event of a run, as the conditions of properties see it.

    Attributes:
        time_ns: its time in simulated nanoseconds.
        actor: the name of its actor.
        topic: its topic.
        names: its names for a condition: `topic`, `data`, `source`, `time` and `now`.
    """

    time_ns: int
    actor: str
    topic: str
    names: Callable[[], Mapping[str, Any]]


class Check(Protocol):
    """Watches one run for violations of one property.

    Attributes:
        judged: how often it could say whether the property holds.
        met: how often what had to happen did happen: answers in time, waits that ended, events that were counted.
        undecided: how often the run ended before it could be said.
    """

    judged: int
    met: int
    undecided: int

    def start(self, view: PropertyView) -> Finding | None:
        """Look at the run before its first step."""

    def event(self, happened: Happened) -> Finding | None:
        """Take note of an event. The instant is not over yet."""

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """Look at the run after an instant, in which the agents in `active` have acted."""

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """Look at what is left to say at the end of the run, with the samples of its metrics."""


class _Quiet:
    """What checks have in common."""

    def __init__(self) -> None:
        self.judged = 0
        self.met = 0
        self.undecided = 0

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return None

    def event(self, happened: Happened) -> Finding | None:
        """See `Check`."""
        return None

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        return None


def _error(view: PropertyView, error: ExpressionError, agent: str = "") -> Finding:
    return Finding("error", view.now_ns, f"it cannot be evaluated: {error}", agent)


class Subjects:
    """The values of an expression: one over the world, or one for each agent of a group.

    Args:
        expression: the expression.
        group: the group; None: it is over the world.
    """

    def __init__(self, expression: Expression, group: str | None) -> None:
        self.expression = expression
        self.group = group
        own = expression.functions <= frozenset(PURE_FUNCTIONS)
        computed = {"now", "place", "balance"}
        self._changes_alone = own and not expression.names & computed
        """Whether only what an agent does itself can change its value."""

    def values(self, view: PropertyView, active: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
        """Yield the values with the names of their agents; after an instant, only those that can have changed.

        Raises:
            ExpressionError: if one cannot be evaluated.
        """
        if self.group is None:
            yield "", view.value(self.expression)
            return
        for agent in self._changed(view, active):
            try:
                yield agent.agent_id, view.value_for(self.expression, agent)
            except ExpressionError as error:
                raise ExpressionError(f"{agent.agent_id}: {error}", hint=error.hint) from error

    def _changed(self, view: PropertyView, active: Sequence[str] | None) -> list[Inhabitant]:
        assert self.group is not None
        if active is None or view.changed_outside or not self._changes_alone:
            return view.members(self.group)
        world = view.world
        return [
            world.agents[name]
            for name in active
            if name in world.agents and world.in_group(world.agents[name], self.group)
        ]


class Holds(_Quiet):
    """`always` and `never`: an expression has a truth value at the end of every instant.

    Args:
        subjects: the values of the expression.
        wanted: the truth value.
    """

    def __init__(self, subjects: Subjects, *, wanted: bool) -> None:
        super().__init__()
        self._subjects = subjects
        self._wanted = wanted

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self._look(view, None)

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        return self._look(view, active)

    def _look(self, view: PropertyView, active: Sequence[str] | None) -> Finding | None:
        try:
            for agent, value in self._subjects.values(view, active):
                if value is None:  # no value is neither true nor false
                    continue
                self.judged += 1
                if bool(value) is not self._wanted:
                    text = f"{self._subjects.expression.text} is {'false' if self._wanted else 'true'}"
                    return Finding("not true" if self._wanted else "true", view.now_ns, text, agent)
        except ExpressionError as error:
            return _error(view, error)
        return None


class Eventually(_Quiet):
    """`eventually`: an expression is true at some time, of each agent if the property is about agents.

    Args:
        subjects: the values of the expression.
        within_ns: how soon, after the start or after an agent was made; None: before the end of the run.
    """

    def __init__(self, subjects: Subjects, within_ns: int | None) -> None:
        super().__init__()
        self._subjects = subjects
        self._within = within_ns
        self._since: dict[str, int] = {}
        self._met: set[str] = set()

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self._look(view, None)

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        return self._late(view.now_ns - 1) or self._look(view, active)

    def _look(self, view: PropertyView, active: Sequence[str] | None) -> Finding | None:
        if self._subjects.group is None and self._met:
            return None
        try:
            for agent, value in self._subjects.values(view, active):
                if agent in self._met:
                    continue
                self._since.setdefault(agent, view.now_ns)
                if value is not None:
                    self.judged += 1
                if value:
                    self._met.add(agent)
                    self.met += 1
                    del self._since[agent]
        except ExpressionError as error:
            return _error(view, error)
        return None

    def _late(self, until_ns: int) -> Finding | None:
        if self._within is None:
            return None
        for agent, since in self._since.items():
            if since + self._within <= until_ns:
                text = f"{self._subjects.expression.text} was not true within {to_text(self._within)}"
                return Finding("unmet", since + self._within, text, agent)
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        if self._within is not None:
            late = self._late(end_ns)
            self.undecided += 0 if late else len(self._since)
            return late
        text = f"{self._subjects.expression.text} was never true"
        return next((Finding("unmet", end_ns, text, agent) for agent in self._since), None)


class Matcher:
    """Decides whether an event is one of those that a property means."""

    def __init__(self, event: str, where: Expression | None) -> None:
        self.event = event
        self.where = where

    def fits(self, happened: Happened, first: Mapping[str, Any] | None = None) -> bool:
        """Return whether an event fits, after the event `first` if there is one.

        Raises:
            ExpressionError: if the condition cannot be evaluated.
        """
        if not matches(self.event, happened.topic):
            return False
        if self.where is None:
            return True
        names = happened.names()
        names = names if first is None else {**names, "first": first}
        return bool(self.where.evaluate(names, PURE_FUNCTIONS, lenient=True))


@attrs.frozen
class _Due:
    """An answer that is due: when at the latest, after what, and of which agent."""

    time_ns: int
    first: Mapping[str, Any] | None
    agent: str


class Follows(_Quiet):
    """`after`: each time one thing happens, another one follows within a time.

    Args:
        after: what happens.
        then: what must follow.
        within_ns: how soon.
        group: the group whose agents it is about; None: it is about the world.
    """

    def __init__(self, after: Occasion, then: Occasion, within_ns: int, group: str | None) -> None:
        super().__init__()
        self._within = within_ns
        self._after = None if after.when is None else Subjects(after.when, group)
        self._then = None if then.when is None else Subjects(then.when, group)
        self._starts = None if after.event is None else Matcher(after.event, after.where)
        self._answers = None if then.event is None else Matcher(then.event, then.where)
        self._text = then.event or (then.when.text if then.when else "")
        self._was: dict[str, bool] = {}
        self._due: list[_Due] = []
        self._answered: list[Happened] = []  # at this instant, after which it is known what an expression was at it

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self._look(view, None)

    def event(self, happened: Happened) -> Finding | None:
        """See `Check`."""
        late = self._late(happened.time_ns - 1)
        if late is not None:
            return late
        try:
            if self._answers is not None and matches(self._answers.event, happened.topic):
                self._discharge(happened)
                if self._after is not None:
                    self._answered.append(happened)
            if self._starts is not None and self._starts.fits(happened):
                self.judged += 1
                self._due.append(_Due(happened.time_ns + self._within, happened.names(), happened.actor))
        except ExpressionError as error:
            return Finding("error", happened.time_ns, f"it cannot be evaluated: {error}", happened.actor)
        return None

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        return self._late(view.now_ns - 1) or self._look(view, active)

    def _look(self, view: PropertyView, active: Sequence[str] | None) -> Finding | None:
        try:
            if self._after is not None:
                for agent, value in self._after.values(view, active):
                    if value and not self._was.get(agent, False):
                        self.judged += 1
                        self._due.append(_Due(view.now_ns + self._within, {"time": view.now_ns / 1e9}, agent))
                    self._was[agent] = bool(value)
            answered, self._answered = self._answered, []
            for happened in answered:
                self._discharge(happened)
            if self._then is not None and self._due:
                true = {agent for agent, value in self._then.values(view, None) if value}
                self._keep([due for due in self._due if (due.agent if self._then.group else "") not in true])
        except ExpressionError as error:
            return _error(view, error)
        return None

    def _discharge(self, happened: Happened) -> None:
        """Take what an event answers off what is due."""
        answers = self._answers
        assert answers is not None, "else no event is an answer"
        self._keep([due for due in self._due if not answers.fits(happened, due.first)])

    def _keep(self, due: list[_Due]) -> None:
        """Note which answers are still due."""
        self.met += len(self._due) - len(due)
        self._due = due

    def _late(self, until_ns: int) -> Finding | None:
        if not self._due or self._due[0].time_ns > until_ns:  # they are in order, because all have the same time
            return None
        due = self._due[0]
        asked = to_text(due.time_ns - self._within)
        text = f"{self._text} did not follow within {to_text(self._within)} after {asked}"
        return Finding("late", due.time_ns, text, due.agent)

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        late = self._late(end_ns - 1)  # what is due at the end does not happen any more
        self.undecided += 0 if late else len(self._due)
        return late


class Count(_Quiet):
    """`count`: the number of events of a run has bounds."""

    def __init__(self, matcher: Matcher, at_least: float | None, at_most: float | None) -> None:
        super().__init__()
        self._matcher = matcher
        self._least, self._most = at_least, at_most
        self._count = 0

    def event(self, happened: Happened) -> Finding | None:
        """See `Check`."""
        try:
            fits = self._matcher.fits(happened)
        except ExpressionError as error:
            return Finding("error", happened.time_ns, f"it cannot be evaluated: {error}", happened.actor)
        if not fits:
            return None
        self._count += 1
        self.met += 1
        if self._most is not None and self._count > self._most:
            text = f"{self._count} events {self._matcher.event}, at most {self._most:g} are allowed"
            return Finding("too many", happened.time_ns, text, happened.actor)
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        self.judged += 1
        if self._least is None or self._count >= self._least:
            return None
        text = f"{self._count} events {self._matcher.event}, at least {self._least:g} are required"
        return Finding("too few", end_ns, text)


class Blocked(_Quiet):
    """`blocked`: no agent waits in one action for longer than a time. `get` waits for work, and does not count."""

    def __init__(self, longest_ns: int, group: str | None) -> None:
        super().__init__()
        self._longest = longest_ns
        self._group = group
        self._since: dict[str, tuple[object, int, str]] = {}

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        self.judged += 1
        late = self._late(view.now_ns - 1)
        if late is not None:
            return late
        waiting: dict[str, tuple[object, int, str]] = {}
        for agent, pending in view.waiting():
            if pending.handler.awaits_work or not self._concerns(view, agent):
                continue
            before = self._since.get(agent)
            same = before is not None and before[0] is pending
            waiting[agent] = before if before is not None and same else (pending, view.now_ns, _aim(pending.action))
        self.met += sum(agent not in waiting or waiting[agent][0] is not one[0] for agent, one in self._since.items())
        self._since = waiting
        return None

    def _concerns(self, view: PropertyView, agent: str) -> bool:
        inhabitant = view.world.agents.get(agent)
        return inhabitant is not None and (self._group is None or view.world.in_group(inhabitant, self._group))

    def _late(self, until_ns: int) -> Finding | None:
        for agent, (_, since, aim) in self._since.items():
            if since + self._longest <= until_ns:
                text = f"{agent} has waited in {aim} since {to_text(since)}, longer than {to_text(self._longest)}"
                return Finding("blocked", since + self._longest, text, agent, aim)
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        return self._late(end_ns - 1)


def _aim(action: Any) -> str:
    named = [str(action.arguments[name]) for name in ("pool", "to") if name in action.arguments]
    return f"{action.kind} {named[0]}" if named else str(action.kind)


class Idle(_Quiet):
    """`idle`: no agent does nothing for longer than a time."""

    def __init__(self, longest_ns: int, group: str | None) -> None:
        super().__init__()
        self._longest = longest_ns
        self._group = group
        self._since: dict[str, int] = {}

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        self._since = dict.fromkeys(self._living(view), 0)
        return None

    def _living(self, view: PropertyView) -> list[str]:
        if self._group is not None:
            return view.world.group(self._group)
        return [name for name, agent in view.world.agents.items() if agent.alive]

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        self.judged += 1
        late = self._late(view.now_ns - 1)
        if late is not None:
            return late
        for name in active:
            agent = view.world.agents.get(name)
            if agent is None or not agent.alive:
                self._since.pop(name, None)
            elif self._group is None or view.world.in_group(agent, self._group):
                self._since.pop(name, None)  # so that the agents stay in the order of their last act
                self._since[name] = view.now_ns
        return None

    def _late(self, until_ns: int) -> Finding | None:
        for agent, since in self._since.items():
            if since + self._longest > until_ns:
                return None  # the others have acted later
            text = f"{agent} has done nothing since {to_text(since)}, longer than {to_text(self._longest)}"
            return Finding("idle", since + self._longest, text, agent)
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        return self._late(end_ns - 1)


class Conserved(_Quiet):
    """`conserved`: an expression keeps the value that it has at the start."""

    def __init__(self, expression: Expression, tolerance: float | None) -> None:
        super().__init__()
        self._expression = expression
        self._tolerance = tolerance
        self._first: float | None = None

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self.look(view, ())

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        try:
            value = view.value(self._expression)
        except ExpressionError as error:
            return _error(view, error)
        if value is None:
            return None
        if not isinstance(value, bool | int | float):
            return Finding("error", view.now_ns, f"{self._expression.text} is no number but {value!r:.60}")
        if self._first is None:
            self._first = value
            return None
        self.judged += 1
        allowed = abs(self._first) * _ROUNDING if self._tolerance is None else self._tolerance
        if abs(value - self._first) <= allowed:
            return None
        text = f"{self._expression.text} is {value:.10g}, and was {self._first:.10g} at the start"
        return Finding("changed", view.now_ns, text)


_ROUNDING: Final = 1e-9
"""The share of a conserved value that is taken for rounding: sums of floats differ in their last digits."""


class Bounds(_Quiet):
    """`metric`: the samples of a metric stay within bounds."""

    def __init__(self, metric: str, at_least: float | None, at_most: float | None) -> None:
        super().__init__()
        self._metric = metric
        self._least, self._most = at_least, at_most

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        for time, value in zip(samples.get("time", ()), samples.get(self._metric, ()), strict=False):
            if value is None:
                continue
            self.judged += 1
            if self._least is not None and value < self._least:
                text, kind = f"{self._metric} is {value:.6g}, below {self._least:g}", _LOW
            elif self._most is not None and value > self._most:
                text, kind = f"{self._metric} is {value:.6g}, above {self._most:g}", _HIGH
            else:
                continue
            return Finding(kind, to_ns(time or 0), text)
        return None


_LOW: Final[Kind] = "too low"
_HIGH: Final[Kind] = "too high"


class Coded(_Quiet):
    """`check`: a function of Python says whether a property holds."""

    def __init__(self, function: PropertyFunction) -> None:
        super().__init__()
        self._function = function
        self._met = False

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self.look(view, ())

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        form = self._function.form
        if form == "eventually" and self._met:
            return None
        try:
            value = self._function(view.world)
        except AssertionError as error:
            value, failure = False, str(error)
        except Exception as error:
            return Finding("error", view.now_ns, f"it cannot be evaluated: {type(error).__name__}: {error}")
        else:
            failure = ""
        if value is None:
            return None
        self.judged += 1
        if form == "eventually":
            self._met = bool(value)
        elif bool(value) is not (form == "always"):
            name = self._function.name
            text = failure or f"{name} is {'false' if form == 'always' else 'true'}"
            return Finding("not true" if form == "always" else "true", view.now_ns, text)
        return None

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        if self._function.form == "eventually" and not self._met:
            return Finding("unmet", end_ns, f"{self._function.name} was never true")
        return None


class Seldom(_Quiet):
    """Asks another check once in each period, after the first instant in it."""

    def __init__(self, inner: Check, every_ns: int) -> None:
        super().__init__()
        self._inner = inner
        self._every = every_ns
        self._next = 0
        self._active: dict[str, None] = {}

    def start(self, view: PropertyView) -> Finding | None:
        """See `Check`."""
        return self._counted(self._inner.start(view))

    def look(self, view: PropertyView, active: Sequence[str]) -> Finding | None:
        """See `Check`."""
        self._active.update(dict.fromkeys(active))
        if view.now_ns < self._next:
            return None
        self._next = (view.now_ns // self._every + 1) * self._every
        seen, self._active = tuple(self._active), {}
        return self._counted(self._inner.look(view, seen))

    def end(self, end_ns: int, samples: Mapping[str, Sequence[float | None]]) -> Finding | None:
        """See `Check`."""
        return self._counted(self._inner.end(end_ns, samples))

    def _counted(self, finding: Finding | None) -> Finding | None:
        self.judged, self.met, self.undecided = self._inner.judged, self._inner.met, self._inner.undecided
        return finding


def check_of(definition: Property, function: PropertyFunction | None = None) -> Check:
    """Return the check of a property.

    Args:
        definition: the property.
        function: the function that it names, if it names one.
    """
    made: Check
    if function is not None:
        return Coded(function)
    if definition.after is not None and definition.then is not None and definition.within is not None:
        return Follows(definition.after, definition.then, definition.within, definition.each)
    if definition.count is not None:
        return Count(Matcher(definition.count.event, definition.count.where), definition.at_least, definition.at_most)
    if definition.blocked is not None:
        return Blocked(definition.blocked, definition.each)
    if definition.idle is not None:
        return Idle(definition.idle, definition.each)
    if definition.metric is not None:
        return Bounds(definition.metric, definition.at_least, definition.at_most)
    expression = definition.expression
    assert expression is not None, "the scenario was checked"
    if definition.conserved is not None:
        made = Conserved(expression, definition.tolerance)
    elif definition.eventually is not None:
        made = Eventually(Subjects(expression, definition.each), definition.within)
    else:
        made = Holds(Subjects(expression, definition.each), wanted=definition.always is not None)
    return made if definition.every is None else Seldom(made, definition.every)

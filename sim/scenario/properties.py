"""The parts `properties` and `testing` of a scenario file: what must hold in every run, and what `sim test` may vary.

A run does nothing with them. `sim.experiments.testing` makes checks of them.
"""

from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue

from sim.base.expressions import Expression
from sim.llm.behaviour import FaultKind
from sim.scenario import fields as f
from sim.scenario.units import FieldError, Nanoseconds, PositiveNanoseconds
from sim.scenario.yaml_tree import Map

FORMS: Final = ("always", "never", "eventually", "after", "count", "blocked", "idle", "conserved", "metric", "check")
"""The keys of which a property has exactly one."""

_GOES_WITH: Final = {
    "each": ("always", "never", "eventually", "after", "blocked", "idle"),
    "every": ("always", "never", "eventually", "conserved"),
    "within": ("eventually", "after"),
    "then": ("after",),
    "at_least": ("count", "metric"),
    "at_most": ("count", "metric"),
    "tolerance": ("conserved",),
}
"""Further keys, and the forms of property that have them."""


class Occasion(f.ShortPart):
    """When an expression becomes true, or an event happens. A text is an expression."""

    short_form: ClassVar[JsonSchemaValue] = {"type": ["string", "boolean"], "description": "an expression"}

    when: Annotated[f.PropertyExpression | None, Field(description="an expression that becomes true")] = None
    event: Annotated[f.Pattern | None, Field(description="a pattern of topics: such an event happens")] = None
    where: Annotated[f.OccurrenceFilter | None, Field(description="which of these events: a condition on one")] = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Read a text as the expression."""
        return {"when": data} if isinstance(data, str | bool) else data

    @model_validator(mode="after")
    def _one(self) -> "Occasion":
        if (self.when is None) == (self.event is None):
            raise FieldError("expected an expression, or an event such as {event: order.placed}")
        if self.where is not None and self.event is None:
            raise FieldError("`where` is a condition on an event, and there is no `event` here")
        return self


class LaterOccasion(Occasion):
    """As `Occasion`, after another one: `where` has its event as `first`."""

    where: Annotated[
        f.AnswerFilter | None,
        Field(description="which of these events: a condition on one, with the event of `after` as `first`"),
    ] = None


class Occurrence(f.Part):
    """Events that are counted."""

    event: Annotated[f.Pattern, Field(description="a pattern of topics")]
    where: Annotated[f.OccurrenceFilter | None, Field(description="which of these events: a condition on one")] = None


class Property(f.Part):
    """What must hold in every run. It has exactly one of the keys `always` to `check`."""

    always: Annotated[
        f.PropertyExpression | None, Field(description="an expression that is true at the end of every instant")
    ] = None
    never: Annotated[
        f.PropertyExpression | None, Field(description="an expression that is true at the end of no instant")
    ] = None
    eventually: Annotated[
        f.PropertyExpression | None, Field(description="an expression that is true at some time of the run")
    ] = None
    after: Annotated[
        Occasion | None,
        Field(description="each time this happens, `then` must follow: an expression, or {event, where}"),
    ] = None
    then: Annotated[LaterOccasion | None, Field(description="what must follow: an expression, or {event, where}")] = (
        None
    )
    within: Annotated[
        PositiveNanoseconds | None, Field(description="how soon: after `after`, or after the start of the run")
    ] = None
    count: Annotated[Occurrence | None, Field(description="events whose number over the run has bounds")] = None
    blocked: Annotated[
        PositiveNanoseconds | None,
        Field(description="the longest that an agent may wait in one action; `get` waits for work, and does not count"),
    ] = None
    idle: Annotated[
        PositiveNanoseconds | None, Field(description="the longest that an agent may do nothing, asleep or not")
    ] = None
    conserved: Annotated[
        f.PropertyExpression | None, Field(description="an expression that keeps the value it has at the start")
    ] = None
    tolerance: Annotated[
        f.NotNegative | None, Field(description="by how much it may differ; default: a billionth of the value")
    ] = None
    metric: Annotated[
        str | None,
        Field(description="a metric of the file whose samples have bounds"),
        AfterValidator(f.DeclaredName("metric")),
    ] = None
    at_least: Annotated[float | None, Field(description="the lower bound")] = None
    at_most: Annotated[float | None, Field(description="the upper bound")] = None
    each: Annotated[
        str | None,
        AfterValidator(f.DeclaredName("group")),
        Field(description="a group: the property is about each of its agents, whose state the expression can name"),
    ] = None
    every: Annotated[
        PositiveNanoseconds | None, Field(description="how often to look; default: after every instant")
    ] = None
    check: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
            description="module:NAME of a function with @sim.property, in a module that --allow names",
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _note_each(cls, data: Any, info: ValidationInfo) -> Any:
        """Tell the validators of expressions whether the property is about each agent of a group."""
        context = f.context_of(info)
        if context is not None:
            each = data.get("each") if isinstance(data, Map) else None
            context.each = each if isinstance(each, str) else None
        return data

    @model_validator(mode="after")
    def _one_form(self) -> "Property":
        chosen = [name for name in FORMS if getattr(self, name) is not None]
        if len(chosen) != 1:
            raise FieldError(f"expected one of {', '.join(FORMS)}, found {' and '.join(chosen) or 'none'}")
        form = chosen[0]
        for name, forms in _GOES_WITH.items():
            if getattr(self, name) is not None and form not in forms:
                raise FieldError(f"`{name}` goes with {' or '.join(forms)}, not with {form}")
        if self.every is not None and self.within is not None:
            raise FieldError("`every` does not go with `within`", "leave out `every`: time may end between two looks")
        if form == "after" and (self.then is None or self.within is None):
            raise FieldError("`after` needs `then` and `within`", "for example after: A, within: 5m, then: B")
        if form in ("count", "metric") and self.at_least is None and self.at_most is None:
            raise FieldError(f"`{form}` needs `at_least` or `at_most`")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise FieldError(f"at_least is {self.at_least:g}, above at_most, which is {self.at_most:g}")
        if self.each is not None and self.after is not None and (self.after.event or (self.then and self.then.event)):
            raise FieldError("`each` is for expressions, not for events", "name the agent in `where`, as `source`")
        return self

    @property
    def form(self) -> str:
        """The key of `FORMS` that it has."""
        return next(name for name in FORMS if getattr(self, name) is not None)

    @property
    def expression(self) -> Expression | None:
        """The expression of `always`, `never`, `eventually` or `conserved`."""
        return self.always or self.never or self.eventually or self.conserved


class FaultBounds(f.Part):
    """The failures of model calls that `sim test --faults` may inject."""

    kinds: Annotated[
        tuple[FaultKind, ...], Field(strict=False, min_length=1, description="the kinds; see `faults` of `models`")
    ]
    share: Annotated[float, Field(gt=0, le=1, description="the largest share of calls that fail")] = 0.5


class Testing(f.Part):
    """What `sim test --faults` may vary. A run does nothing with it."""

    faults: Annotated[FaultBounds | None, Field(description="failures of model calls; null: none")] = None
    latency: Annotated[
        tuple[Nanoseconds, Nanoseconds] | None,
        Field(strict=False, description="shortest and longest time that an answer of a model may be late"),
    ] = None

    @model_validator(mode="after")
    def _in_order(self) -> "Testing":
        if self.latency is not None and self.latency[0] > self.latency[1]:
            raise FieldError("expected [shortest, longest] with the shortest first", None, ("latency",))
        if self.faults is None and self.latency is None:
            raise FieldError("expected at least one of faults, latency")
        return self

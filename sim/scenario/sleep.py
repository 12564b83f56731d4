"""The `sleep` of a rule: its model, derived from the types of wake conditions, and its record."""

from functools import cache
from typing import Annotated, Any, ClassVar, ForwardRef, Self

import attrs
from pydantic import Field, create_model, model_validator

from sim.actors.wake import CONDITIONS, ConditionType
from sim.base.expressions import Names
from sim.scenario import fields as f
from sim.scenario.meanings import FIELDS
from sim.scenario.units import FieldError

_PARTS: Any = ForwardRef("tuple[sleep, ...] | None")  # refers to the model that is being created
_TIMEOUT = Annotated[f.TimeValue | None, Field(description="after how long to wake in any case")]


@attrs.frozen
class SleepSpec:
    """The condition that ends a sleep.

    Attributes:
        values: what the rule says, by key: a value to evaluate, a filter, a name, or conditions.
    """

    values: Names


class SleepPart(f.Part):
    """Sleep until something happens."""

    types: ClassVar[tuple[ConditionType, ...]] = ()

    def _has(self, key: str) -> bool:
        return getattr(self, key) is not None

    @model_validator(mode="after")
    def _one(self) -> Self:
        heads = [head.name for kind in self.types for head in kind.heads]
        present = [name for name in heads if self._has(name)]
        if len(present) != 1:
            raise FieldError(f"expected exactly one of {', '.join(heads)}, found {' and '.join(present) or 'none'}")
        for kind in self.types:
            chosen = present[0] in {head.name for head in kind.heads}
            for more in kind.more:
                if more.required and self._has(more.name) != chosen:
                    raise FieldError(f"{kind.heads[0].name} needs {more.name}")
                if self._has(more.name) and not chosen:
                    raise FieldError(f"{more.name} needs {kind.heads[0].name}")
        return self

    def spec(self) -> SleepSpec:
        """Return the condition as a record."""
        fields = ((name, getattr(self, name)) for name in type(self).model_fields)
        return SleepSpec({name: _plain(value) for name, value in fields if value is not None})


def _plain(value: Any) -> Any:
    return tuple(part.spec() for part in value) if isinstance(value, tuple) else value


def sleep_model() -> type[SleepPart]:
    """Return the model of `sleep`, with all defined types of wake conditions."""
    return _model(tuple(CONDITIONS))


@cache
def _model(names: tuple[str, ...]) -> type[SleepPart]:
    types = tuple(CONDITIONS[name] for name in names)
    fields: dict[str, Any] = {}
    for kind in types:
        for argument in (*kind.heads, *kind.more):
            description = Field(description=argument.description)
            if argument.meaning == "conditions":
                parts = Field(strict=False, min_length=1, description=argument.description)
                fields[argument.name] = (Annotated[_PARTS, parts], None)
            else:
                fields[argument.name] = (Annotated[FIELDS[argument.meaning] | None, description], None)
    heads = ", ".join(head.name for kind in types for head in kind.heads)
    summary = f"Sleep until something happens; exactly one of {heads}."
    model = create_model("sleep", __base__=SleepPart, __doc__=summary, **fields, timeout=(_TIMEOUT, None))
    model.types = types
    model.model_rebuild(_types_namespace={"sleep": model})
    return model

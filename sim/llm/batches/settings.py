"""What the operator sets for batches, and how a run folder shows that they were used."""

from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import UsageError
from sim.kernel import Duration, to_ns, to_seconds
from sim.kernel.codec import JsonObject

NOTES: Final = "run.batches"
"""The file in a run folder that notes the batches of the run."""


def _seconds(value: Duration) -> float:
    return to_seconds(to_ns(value))


def _above_zero(_: object, field: "attrs.Attribute[Any]", value: float) -> None:
    if not value > 0:
        raise UsageError(f"{field.name} of batches must be above 0, not {value!r}")


def _share(_: object, __: object, value: float) -> None:
    if not 0 <= value <= 1:
        raise UsageError(f"the price of batches is a share from 0 to 1, not {value!r}")


@attrs.frozen
class Batching:
    """How calls are answered in batches.

    Args:
        poll: real time (seconds, or text such as `30s`) between two looks at a batch.
        wait: the longest real time that a batch may take. It is then cancelled, and its unanswered requests go into the
            next one. The default is a little more than the 24 hours that an endpoint has.
        price: what a call costs in a batch, as a share of its price outside one.
        requests: the most requests of a batch. The default is the limit of OpenAI.
        bytes: the most bytes of a batch. The default is the limit of OpenAI.

    Raises:
        UsageError: if a value is out of range.
    """

    poll: float = attrs.field(default=60.0, converter=_seconds, validator=_above_zero)
    wait: float = attrs.field(default=25 * 3600.0, converter=_seconds, validator=_above_zero)
    price: float = attrs.field(default=0.5, validator=_share)
    requests: int = attrs.field(default=50_000, validator=_above_zero)
    bytes: int = attrs.field(default=200_000_000, validator=_above_zero)


def uses_batches(folder: Path, options: JsonObject) -> bool:
    """Return whether the calls of a run were answered in batches.

    Args:
        folder: the run folder.
        options: the options of the run on record.
    """
    return bool(options.get("batch")) or (folder / NOTES).exists()

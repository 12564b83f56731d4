"""The order of what runs at one (time, delta), and the error when that never ends."""

from collections.abc import Callable

from sim.errors import KernelError, LivelockError
from sim.kernel.future_events import Entry


def sort(batch: list[Entry], ties: Callable[[int], int] | None) -> None:
    """Sort entries of one (time, delta) by their keys.

    Args:
        batch: sorted in place.
        ties: gives each source ordinal its place instead of the ordinal itself, or None. Never the counter, so that
            what one source causes stays first in, first out.

    Raises:
        KernelError: if two entries have one key.
    """
    try:
        if ties is None:
            batch.sort()
        else:
            places = {ordinal: ties(ordinal) for ordinal in dict.fromkeys(entry[2] for entry in batch)}
            batch.sort(key=lambda entry: (entry[1], places[entry[2]], entry[2], entry[3]))
    except TypeError as error:  # two equal keys make the comparison reach the targets
        raise KernelError(f"two wake-ups at {batch[0][0]} ns have one order key") from error


def livelock(batch: list[Entry], now: int, rounds: int) -> LivelockError:
    """Return the error for time that stands still, naming who keeps it so."""
    targets = [getattr(entry[4], "actor", entry[4]) for entry in batch]
    names = sorted({getattr(target, "name", "a timer") for target in targets})[:5]
    return LivelockError(
        f"time stands still at {now / 1e9:g} s: after {rounds} rounds {', '.join(names)} still cause more",
        hint="let them sleep between two actions (min_loop_delay), or raise execution.max_deltas",
    )

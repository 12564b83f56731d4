"""The texts that employees and their jobs post."""

from sim.kernel.duration import NS, to_text

MINUTE_NS = 60 * 10**9


def heartbeat(title: str, active: int, triggers: int, action: str, next_ns: int | None) -> str:
    """Return the heartbeat of a cycle.

    Args:
        title: the title of the employee.
        active: the number of its tasks in progress or pending.
        triggers: the number of new triggers in this cycle.
        action: what it did; empty: nothing.
        next_ns: the nanoseconds until its next cycle; None: it has no clock.
    """
    following = "at the next trigger" if next_ns is None else spelled(next_ns)
    return (
        f"{title}: Loop completed.\n"
        f"  Active tasks: {active} | New triggers: {triggers} | Action taken: {action or 'None'}\n"
        f"  Next run: {following}"
    )


def alert(title: str, silent_ns: int, interval_ns: int) -> str:
    """Return the warning about an employee that is silent.

    Args:
        title: its title.
        silent_ns: the nanoseconds since its last heartbeat.
        interval_ns: the time between two of its cycles.
    """
    return (
        f"WARNING: {title} has not posted a heartbeat in {spelled(silent_ns)}\n"
        f"  (expected every {short(interval_ns)}). Check worker health."
    )


def daily_summary(date: str, counts: dict[str, int], silent: list[str], failing: list[str]) -> str:
    """Return the daily summary.

    Args:
        date: the day.
        counts: what was done since the last summary.
        silent: the titles of those whose heartbeat is missing.
        failing: what cannot be used at present, with the reasons.
    """
    did = ", ".join(f"{counts[name]} {word}" for name, word in _SUMMED)
    lost = " | ".join(f"{word}: {counts[name]}" for name, word in _LOST)
    return (
        f"Daily summary of {date}: {did}.\n  Missing heartbeats: {', '.join(silent) or 'none'}"
        f"\n  {lost}\n  Failing at present: {'; '.join(failing) or 'none'}"
    )


_SUMMED = (
    ("cycles", "loops"),
    ("created", "tasks created"),
    ("steps", "steps done"),
    ("completed", "tasks completed"),
    ("failed", "tasks failed"),
    ("overdue", "tasks overdue"),
)

_LOST = (("dead_letters", "Dead letters"), ("lost", "Lost events"), ("failed_assessments", "Failed assessments"))

_UNITS = ((1, "second"), (60, "minute"), (3600, "hour"), (86_400, "day"))


def spelled(time_ns: int) -> str:
    """Return a time in whole units, rounded to the nearest: `5 minutes`, `90 seconds`, `36 hours`.

    The unit is the largest of which there are at least two, so that rounding changes the time by a fifth at most; one
    minute, hour or day is said as such.
    """
    seconds = max(0, round(time_ns / NS))
    for size, unit in reversed(_UNITS):
        if seconds >= 2 * size or seconds == size:
            count = (seconds + size // 2) // size
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{seconds} seconds"


def short(time_ns: int) -> str:
    """Return a time in minutes, such as `15 min`, or as a duration if it is not a whole number of them: `90s`."""
    minutes, rest = divmod(time_ns, MINUTE_NS)
    return to_text(time_ns) if rest or not minutes else f"{minutes} min"

"""The texts that employees and their jobs post, as seed 000 has them."""

from sim.kernel.duration import to_text

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


def daily_summary(date: str, counts: dict[str, int], silent: list[str]) -> str:
    """Return the daily summary.

    Args:
        date: the day.
        counts: what was done since the last summary.
        silent: the titles of the employees whose heartbeat is missing.
    """
    did = ", ".join(f"{counts[name]} {word}" for name, word in _SUMMED)
    return f"Daily summary of {date}: {did}.\n  Missing heartbeats: {', '.join(silent) or 'none'}"


_SUMMED = (
    ("cycles", "loops"), ("created", "tasks created"), ("steps", "steps done"), ("completed", "tasks completed"),
    ("failed", "tasks failed"), ("overdue", "tasks overdue"),
)  # fmt: skip


def spelled(time_ns: int) -> str:
    """Return a time as words: `5 minutes`, `1 minute`; any other time as `1m30s`."""
    minutes, rest = divmod(time_ns, MINUTE_NS)
    if rest or not minutes:
        return to_text(time_ns)
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def short(time_ns: int) -> str:
    """Return a time as the seed shortens it: `15 min`."""
    minutes, rest = divmod(time_ns, MINUTE_NS)
    return to_text(time_ns) if rest or not minutes else f"{minutes} min"

"""The day: a thousand policy agents, an iteration a minute each, for 24 simulated hours, recorded on disk."""

import tempfile
from pathlib import Path

SCENARIO = Path(__file__).parent / "scenarios" / "day.yaml"


def day(until: str) -> str:
    """Run the scenario and say how long it took."""
    from sim import run  # late: the workloads of the kernel alone need none of it

    with tempfile.TemporaryDirectory(prefix="sim-day-") as folder:
        result = run(SCENARIO, until=until, out=Path(folder))
    rate = result.iterations / result.wall_seconds
    return (
        f"day.yaml, {until}: {result.iterations:,} iterations, {result.actions:,} actions, {result.events:,} events"
        f" recorded in {result.wall_seconds:.1f} s: {rate:,.0f} iterations a second"
    )

"""Actors, simulated time, the order of steps, waits, random streams and effects, without any idea of an agent.

Functions of the C extension `compiled` replace equal functions in Python where it is there. May import: `base` and
below. Read first: `kernel.py` (time and the main loop), `order.py` (who comes first), `waits.py` (what an actor can
wait for).
"""

from sim.base.errors import Cancelled
from sim.kernel.actor import Actor, Exit, Rank, Source
from sim.kernel.all_of import all_of
from sim.kernel.compiled import COMPILED, core, described
from sim.kernel.coroutines import UNDER_WAY
from sim.kernel.duration import NS, Duration, to_duration, to_ns, to_seconds, to_text
from sim.kernel.effects import Effect, Outcome, perform
from sim.kernel.future_events import FutureEvents
from sim.kernel.groups import Fired, first_of, first_of_ns
from sim.kernel.kernel import ARMED, RETURNED, Kernel, Pause, Ticker, Timer
from sim.kernel.latch import Join, Latch, join
from sim.kernel.order import WakeBatch
from sim.kernel.ports import Recorder
from sim.kernel.rng import Stream
from sim.kernel.until import Until, run_until
from sim.kernel.waits import Queue, Signal, Waiters, sleep

__all__ = [
    "COMPILED", "NS", "Actor", "Duration", "Effect", "Exit", "Fired", "Join", "Kernel", "Latch", "Outcome", "Pause",
    "Queue", "Recorder", "Signal", "Source", "Stream", "Ticker", "Timer", "Until", "all_of", "first_of", "first_of_ns",
    "join", "perform", "run_until", "sleep", "to_duration", "to_ns", "to_seconds", "to_text",
]  # fmt: skip

DRIVEN = (Rank, Source, Actor, Kernel, FutureEvents, WakeBatch, Signal, Waiters, Queue)
"""The classes whose slots the C code accesses."""

if core is not None:
    core.take_over(
        {cls.__name__: cls for cls in DRIVEN}, ARMED, Pause.BUDGET, Cancelled, described, (UNDER_WAY, RETURNED)
    )

"""The kernel: actors, time, order, waits, random streams and effects. It knows nothing of agents or worlds.

Layout, from the bottom: `duration` and `codec` (edges of time and data), `rng` (random draws), `actor` (who is in the
order), `future_events` (the calendar), `order` (what runs at one instant), `effects` and `ports` (the outside, as
protocols), `kernel` (time and the loop), `waits`, `latch` and `all_of` (what an actor can wait for), `until` (how far a
run goes). What `sim._speedups` holds in C takes over from the same functions in Python.
"""

from sim._speedups import COMPILED, core, described
from sim.errors import Cancelled
from sim.kernel.actor import Actor, Exit, Source
from sim.kernel.all_of import all_of
from sim.kernel.duration import NS, Duration, to_ns, to_seconds, to_text
from sim.kernel.effects import Effect, Outcome, perform
from sim.kernel.future_events import FutureEvents
from sim.kernel.kernel import ARMED, Kernel, Pause, Ticker, Timer
from sim.kernel.latch import Join, Latch, join
from sim.kernel.order import WakeBatch
from sim.kernel.ports import Recorder
from sim.kernel.rng import Stream
from sim.kernel.until import Until, run_until
from sim.kernel.waits import Fired, Queue, Signal, Waiters, first_of, first_of_ns, sleep

__all__ = [
    "COMPILED", "NS", "Actor", "Duration", "Effect", "Exit", "Fired", "Join", "Kernel", "Latch", "Outcome", "Pause",
    "Queue", "Recorder", "Signal", "Source", "Stream", "Ticker", "Timer", "Until", "all_of", "first_of", "first_of_ns",
    "join", "perform", "run_until", "sleep", "to_ns", "to_seconds", "to_text",
]  # fmt: skip

DRIVEN = (Source, Actor, Kernel, FutureEvents, WakeBatch, Signal, Waiters, Queue)
"""The classes whose slots the C reads."""

if core is not None:
    core.take_over({cls.__name__: cls for cls in DRIVEN}, ARMED, Pause.BUDGET, Cancelled, described)

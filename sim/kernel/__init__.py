"""The kernel: actors, simulated time, order of steps, waits, random streams and effects. It is independent of agents.

Modules, from the lowest layer to the highest:

- `duration`: conversion between seconds, text and nanoseconds
- `codec`: canonical JSON
- `rng`: random streams and keyed draws
- `actor`: sources and actors
- `future_events`: the future-event list
- `order`: the order of entries at one (time, delta)
- `rows`: the rows of a record
- `effects`, `ports`: effects, and the protocols that the kernel needs from its surroundings
- `kernel`: simulated time and the main loop
- `coroutines`: coroutines that yield to the kernel
- `waits`, `latch`, `groups`, `all_of`: what an actor can wait for
- `until`: running up to a time or a condition

If the C extension `sim.kernel.compiled` is available, its functions replace the equal functions in Python.
"""

from sim.base.errors import Cancelled
from sim.kernel.actor import Actor, Exit, Rank, Source
from sim.kernel.all_of import all_of
from sim.kernel.compiled import COMPILED, core, described
from sim.kernel.duration import NS, Duration, to_duration, to_ns, to_seconds, to_text
from sim.kernel.effects import Effect, Outcome, perform
from sim.kernel.future_events import FutureEvents
from sim.kernel.groups import Fired, first_of, first_of_ns
from sim.kernel.kernel import ARMED, Kernel, Pause, Ticker, Timer
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
    core.take_over({cls.__name__: cls for cls in DRIVEN}, ARMED, Pause.BUDGET, Cancelled, described)

"""The kernel: actors, time, order, waits, random streams and effects. It knows nothing of agents or worlds.

Layout, from the bottom: `duration` and `codec` (edges of time and data), `rng` (streams), `source` (who is in
the order), `future_events` (the calendar), `effects` and `ports` (the outside, as protocols), `scheduler`
(the loop), `waits` (what an actor can wait for), `host` and `watchdog` (the edge: asyncio or trio, threads,
real time). What `compiled` finds in C takes over from the same functions in Python.
"""

from sim.errors import Cancelled
from sim.kernel.compiled import COMPILED, core
from sim.kernel.duration import NS, Duration, to_ns, to_seconds, to_text
from sim.kernel.effects import Effect, Outcome, perform
from sim.kernel.future_events import FutureEvents
from sim.kernel.loop import ARMED, Loop
from sim.kernel.order import Crowd
from sim.kernel.ports import Recorder
from sim.kernel.rng import Stream
from sim.kernel.scheduler import Kernel
from sim.kernel.source import Actor, Exit, Source
from sim.kernel.targets import Pause, Ticker, Timer
from sim.kernel.waits import Fired, Queue, Signal, Waiters, first_of, sleep

__all__ = [
    "COMPILED", "NS", "Actor", "Duration", "Effect", "Exit", "Fired", "Kernel", "Outcome", "Pause", "Queue", "Recorder",
    "Signal", "Source", "Stream", "Ticker", "Timer", "first_of", "perform", "sleep", "to_ns", "to_seconds", "to_text",
]  # fmt: skip

if core is not None:
    _classes = (Source, Actor, Loop, Kernel, FutureEvents, Crowd, Signal, Waiters, Queue)
    core.take_over({cls.__name__: cls for cls in _classes}, ARMED, Pause.BUDGET, Cancelled)

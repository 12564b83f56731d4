"""The kernel: actors, time, order, waits, random streams and effects. It knows nothing of agents or worlds.

Layout, from the bottom: `duration` and `codec` (edges of time and data), `rng` (streams), `source` (who is in
the order), `future_events` (the calendar), `effects` and `ports` (the outside, as protocols), `scheduler`
(the loop), `waits` (what an actor can wait for), `host` and `watchdog` (the edge: asyncio or trio, threads,
real time).
"""

from sim.kernel.duration import NS, Duration, to_ns, to_seconds, to_text
from sim.kernel.effects import Effect, Outcome, perform
from sim.kernel.ports import Recorder
from sim.kernel.rng import Stream
from sim.kernel.scheduler import Kernel
from sim.kernel.source import Actor, Exit, Source
from sim.kernel.targets import Pause, Ticker, Timer
from sim.kernel.waits import Fired, Queue, Signal, first_of, sleep

__all__ = [
    "NS", "Actor", "Duration", "Effect", "Exit", "Fired", "Kernel", "Outcome", "Pause", "Queue", "Recorder",
    "Signal", "Source", "Stream", "Ticker", "Timer", "first_of", "perform", "sleep", "to_ns", "to_seconds", "to_text",
]  # fmt: skip

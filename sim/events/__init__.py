"""Events: what happened, and who is told of it.

`topic` (names and patterns), `event` (the record), `bus`, `coerce` (data of a record in the type that it should
have), `event_text` (an event as words).
"""

from sim.events.bus import BusStatistics, EventBus, Subscription
from sim.events.event import Event
from sim.events.topic import matches

__all__ = ["BusStatistics", "Event", "EventBus", "Subscription", "matches"]

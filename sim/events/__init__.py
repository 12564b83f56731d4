"""Events: what happened, told to whoever subscribed. `topic` (names and patterns), `event` (the record), `bus`."""

from sim.events.bus import BusStatistics, EventBus, Subscription
from sim.events.event import Event
from sim.events.topic import matches

__all__ = ["BusStatistics", "Event", "EventBus", "Subscription", "matches"]

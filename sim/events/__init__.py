"""Events and their delivery to subscribers.

Modules: `topic` (topics and patterns), `event` (the record of one event), `bus` (the event bus and subscriptions),
`coerce` (data of a record in the type that it should have), `event_text` (an event in words).
"""

from sim.events.bus import BusStatistics, EventBus, Subscription
from sim.events.event import Event
from sim.events.topic import matches

__all__ = ["BusStatistics", "Event", "EventBus", "Subscription", "matches"]

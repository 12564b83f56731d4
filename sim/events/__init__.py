"""Events, and their delivery to subscribers.

May import: `kernel` and below. Read first: `bus.py` (who hears what), then `topic.py` (topics and patterns).
"""

from sim.events.bus import BusStatistics, EventBus, Subscription
from sim.events.event import Event
from sim.events.topic import matches

__all__ = ["BusStatistics", "Event", "EventBus", "Subscription", "matches"]

"""Rate limits, budgets, quotas, money, and pools that agents share, in simulated time and whole units.

Between a check and the change that follows from it there is no await, so no other actor can run in between. May
import: `events` and below. Read first: `rates.py` (the rate tracker), then `pool.py` (the base of all pools).
"""

from sim.resources.budgets import Budgets, Earmark
from sim.resources.capacity import Capacity, CapacityWatch
from sim.resources.container import Container
from sim.resources.ledger import MICRO, Ledger, to_micro
from sim.resources.pool import Pool, PoolStatistics
from sim.resources.preemptive import Preempted, PreemptiveResource, Use
from sim.resources.quotas import Quotas
from sim.resources.rates import Limit, Policy, RateTracker
from sim.resources.slots import PriorityResource, Resource
from sim.resources.store import Store
from sim.resources.uses import RateStatistics, RateUse
from sim.resources.windows import Rate, Reservation

__all__ = [
    "MICRO",
    "Budgets",
    "Capacity",
    "CapacityWatch",
    "Container",
    "Earmark",
    "Ledger",
    "Limit",
    "Policy",
    "Pool",
    "PoolStatistics",
    "Preempted",
    "PreemptiveResource",
    "PriorityResource",
    "Quotas",
    "Rate",
    "RateStatistics",
    "RateTracker",
    "RateUse",
    "Reservation",
    "Resource",
    "Store",
    "Use",
    "to_micro",
]  # fmt: skip

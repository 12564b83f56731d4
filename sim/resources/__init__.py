"""Resources: what agents use up, hold, own, and share.

Layout, from the bottom: `windows` (one rolling window), `capacity` (the two things to wait for at the rate
tracker), `admission` (who comes when), `uses` (sums), `rates` (the tracker); `budgets` (spent, reset each period),
`quotas` (held and given back), `ledger` (money); `pool` (what all pools share), and on it `slots`, `preemptive`,
`container` and `store`, in the field's terms. All is simulated time, whole units, and one step: nothing here awaits
between a check and what follows from it.
"""

from sim.resources.budgets import Budgets, Earmark
from sim.resources.capacity import Capacity, Watch
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
    "MICRO", "Budgets", "Capacity", "Container", "Earmark", "Ledger", "Limit", "Policy", "Pool", "PoolStatistics",
    "Preempted", "PreemptiveResource", "PriorityResource", "Quotas", "Rate", "RateStatistics", "RateTracker", "RateUse",
    "Reservation", "Resource", "Store", "Use", "Watch", "to_micro",
]  # fmt: skip

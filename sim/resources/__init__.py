"""Resources: rate limits, budgets, quotas, money, and pools that agents share.

Modules, from the lowest layer to the highest:

- `windows`: a rolling window and reservations
- `capacity`: the waits of the rate tracker, for capacity and for a level
- `admission`: the order in which waiting actors get capacity
- `uses`: statistics of rate limits
- `rates`: the rate tracker
- `ledger`: balances of accounts and transfers
- `budgets`: amounts that are spent and renewed in each period
- `quotas`: amounts that are held and returned
- `pool`: the base of all pools; `slots`, `preemptive`, `container` and `store`: the pools

All times are simulated times, and amounts are whole units. Between a check and the change that follows from it there is
no await, so that no other actor can run in between.
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

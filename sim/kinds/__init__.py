"""The kinds of agents that come with `sim`, each as a package of a user could be.

A kind has its settings, actions, tools and views. No kind imports another. What they define is listed in
`sim.base.words`, and a kind is imported when a scenario uses one of its words. May import: `agents` and below. Read
first: `town` (the smallest), then `sop/employee.py`.
"""

"""The ground under all other packages: what needs no idea of an actor, a run or a scenario.

That is errors, the safe language of rules, levels of permission, harmless text and pages. May import: nothing of
`sim`. Read first: `errors.py` (the one tree of errors), then `expressions/expression.py`.
"""

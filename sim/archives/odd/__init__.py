"""A description of a model after the ODD protocol, derived from its checked scenario and from the definitions it uses.

ODD (overview, design concepts, details) is the common form in which agent-based models are described: Grimm et al.,
Ecological Modelling 198 (2006) and 221 (2010), and JASSS 23(2) 7 (2020), whose headings are used here. What follows
from no definition is left to the author, and marked. Nothing is inferred from an absence: what an agent in code does,
or a part that does not say whether it draws, is said to be unknown.

Read first: `page.py`, then `chance.py`, which finds every place that can draw, and `variants.py`, which says what
holds in which variant of a scenario.
"""

from sim.archives.odd.page import odd_description, without_scenario
from sim.archives.odd.subject import LiveChange, Pace, Subject, Variant

__all__ = ["LiveChange", "Pace", "Subject", "Variant", "odd_description", "without_scenario"]

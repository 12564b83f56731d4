"""The bench: one scenario in several modes, with the same seeds, measured and compared.

From a plan to a page:

    modes     the modes, and how a scenario is run in each
    plan      what is to be measured: swept values, seeds, modes
    host      the runs, in processes side by side (edge)
    trial      one run, and what was measured of it
    concurrency    calls of language models under way, over simulated time
    outcome_distance     how far the outcomes of two runs are apart
    estimate  means over seeds, with confidence intervals
    rows      what the runs come to, by combination and mode
    files     the folder: page, JSON, CSV
    page      the page, with `charts`, `parts`, and the sections `outcomes` and `meaning`
"""

from sim.bench.files import PAGE, make_folder, to_json, write
from sim.bench.modes import MODES
from sim.bench.plan import TrialPlan, make_plan, overrides_of
from sim.bench.processes import cores, machine, measure
from sim.bench.rows import FIGURES, Bench, Row, evaluate, problems_of
from sim.bench.trial import BASES, Trial

__all__ = [
    "BASES",
    "FIGURES",
    "MODES",
    "PAGE",
    "Bench",
    "Row",
    "Trial",
    "TrialPlan",
    "cores",
    "evaluate",
    "machine",
    "make_folder",
    "make_plan",
    "measure",
    "overrides_of",
    "problems_of",
    "to_json",
    "write",
]  # fmt: skip

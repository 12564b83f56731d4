"""The bench: runs one scenario in several modes with the same seeds, measures and compares them.

The modules, from the plan to the page:

    modes             the modes, and the settings of a scenario in each mode
    plan              the plan of a bench: varied values, seeds, modes
    processes         the runs, in parallel processes (edge)
    trial             one run and its measurements
    concurrency       calls of language models in flight, over simulated time
    outcome_distance  the distance of the outcomes of two runs
    rows              the results by combination and mode
    files             the folder: page, JSON, CSV
    page              the page, with `page_parts`, and the sections `outcomes` and `page_notes`
"""

from sim.experiments.bench.files import PAGE, append, make_folder, to_json, write
from sim.experiments.bench.modes import MODES
from sim.experiments.bench.plan import TrialPlan, make_plan
from sim.experiments.bench.processes import machine, measure
from sim.experiments.bench.rows import FIGURES, Bench, Row, evaluate, problems_of
from sim.experiments.trial import BASES, Trial

__all__ = [
    "BASES",
    "FIGURES",
    "MODES",
    "PAGE",
    "Bench",
    "Row",
    "Trial",
    "TrialPlan",
    "append",
    "evaluate",
    "machine",
    "make_folder",
    "make_plan",
    "measure",
    "problems_of",
    "to_json",
    "write",
]  # fmt: skip

"""A run or an experiment as one zip file that can be cited, read, checked and repeated elsewhere.

May import: `experiments` and below. Read first: `write.py` (makes it), then `check.py` (judges it) and
`fresh.py` (repeats it in a new environment).
"""

from sim.archives.check import Checked, check_archive
from sim.archives.crate import Author, Details
from sim.archives.fresh import Repeated, repeat, sim_in, use_own_sim
from sim.archives.write import Archive, archive_experiment, archive_run

__all__ = [
    "Archive",
    "Author",
    "Checked",
    "Details",
    "Repeated",
    "archive_experiment",
    "archive_run",
    "check_archive",
    "repeat",
    "sim_in",
    "use_own_sim",
]

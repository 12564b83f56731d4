"""Archives: a run or an experiment as one zip file that can be cited, read and checked elsewhere.

Modules:

    write       makes the archive of a run or of an experiment
    software    what it was made with: wheels and modules of agents, a wheel of sim, versions of what they need
    wheels      a wheel built from the files of an installed package
    crate       metadata as an RO-Crate, and the citation file
    odd         a description after the ODD protocol, filled from the scenario
    check       whether an archive is complete and unchanged, and unpacking it
    fresh       repeats the run of an archive in a new environment
    compare     whether the repetition of an experiment has the same results
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

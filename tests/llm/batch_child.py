"""The command in a process of its own, which kills itself at a crash point: what the tests of batches kill.

`SIM_KILL` holds the point and `n` as JSON: at the n-th reach of the point the process is killed.
"""

import json
import os
import sys

from sim.base import crashpoints
from sim.cli import main
from tests.proof.child import DEEDS, hook_for

if __name__ == "__main__":
    plan = json.loads(os.environ["SIM_KILL"])
    if "point" in plan:
        crashpoints.hook = hook_for(plan["point"], plan["n"], DEEDS["kill"])
    main(sys.argv[1:])

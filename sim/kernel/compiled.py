"""The hot paths in C, if they were compiled.

`c/` holds the inner loop, the commonest waits and some short functions of other layers once more; each layer gives its
classes to it (`take_over_...`), and it knows no other. Where it could not be compiled the same functions run in Python:
slower, and in the same order, which the tests compare. Each function in Python says what is right; the pattern is that
of PEP 399.
"""

import importlib
from contextlib import suppress
from typing import Any

core: Any = None
with suppress(ImportError):
    core = importlib.import_module("sim.kernel._core")  # by name, for it need not be there
    if core.is_taken():  # by classes of `sim` that were imported before: there is one core in a process
        core = None

COMPILED = core is not None
"""Whether this process runs them in C."""

"""The hot paths in C, if they were compiled.

`c/` holds the inner loop and the commonest waits once more. Where it could not be compiled the same functions run
in Python: slower, and in the same order, which the tests compare. Each function in Python says what is right; the
pattern is that of PEP 399.
"""

from contextlib import suppress
from typing import Any

core: Any = None
with suppress(ImportError):
    from sim.kernel import _core as core  # type: ignore[no-redef]  # the same name, on purpose

COMPILED = core is not None
"""Whether this process runs them in C."""

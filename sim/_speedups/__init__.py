"""The hot paths of the kernel in C, if they were compiled. This package imports no other of `sim`.

The C holds the inner loop, the commonest waits and some short functions of the kernel once more; `take_over` gives it
the kernel's classes. A class above the kernel that wants to be driven by it declares its layout itself and registers
(`take_over_slots`). Where it could not be compiled the same functions run in Python: slower, and in the same order,
which the tests compare. Each function in Python says what is right; the pattern is that of PEP 399.
"""

import importlib
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

core: Any = None
with suppress(ImportError):
    core = importlib.import_module("sim._speedups._core")  # by name, for it need not be there
    if core.is_taken():  # by classes of `sim` that were imported before: there is one core in a process
        core = None

COMPILED = core is not None
"""Whether this process runs them in C."""


def described(function: Callable[..., Any]) -> str:
    """Return the signature and docstring of a function, as C functions keep theirs."""
    signature = inspect.signature(function)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty)).replace("(self", "($self", 1)
    return f"{function.__name__}{text}\n--\n\n{inspect.getdoc(function) or ''}"

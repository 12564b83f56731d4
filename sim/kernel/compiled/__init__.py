"""The hot paths of the kernel in C, if they were compiled. This package imports no other package of `sim`.

The C code duplicates the main loop, the most frequent waits, some short functions of the kernel, and what each turn of
an agent runs: the iteration, the execution of an action, its rate limits and the event about it. `take_over` gives it
the classes of the kernel. A class above the kernel declares the layout of its slots and registers with a function of
its own (`take_over_slots`, ...).

Without the C code, the functions in Python run instead: slower, but in the same order, which the tests compare. As in
PEP 399, each function in Python defines the correct behaviour.

C files: `module` (the module and `take_over`), `core` and `layout` (declarations), `loop` (the main loop), `calls`
(`wake`, `emit`, `put_nowait`), `wait` (waits), `turns` (turns of agents), `actions` (executing an action), `rates`
(rate limits), `bus` (events of the simulation itself), `slots` (slots of resources), `reader` (an iterator), `sort`
(sorting), `shuffle` (the order of turns), `draws` (keyed draws), `rows` (recorders that collect events), `lanes` (the
events of each lane of a hash), `state` (what is in the state of an agent).
"""

import importlib
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

core: Any = None
with suppress(ImportError):
    core = importlib.import_module("sim.kernel.compiled._core")  # by name, because it may be missing
    if core.is_taken():  # by an earlier import of `sim`; a process can use the C code for one import only
        core = None

COMPILED = core is not None
"""Whether this process uses the C code."""


def described(function: Callable[..., Any]) -> str:
    """Return the signature and docstring of a function, in the format of docstrings of C functions."""
    signature = inspect.signature(function)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=signature.empty)).replace("(self", "($self", 1)
    return f"{function.__name__}{text}\n--\n\n{inspect.getdoc(function) or ''}"

"""The code that a run was made with, as hashes."""

import hashlib
from pathlib import Path

import pytest

from sim.kernel.compiled import core
from sim.runner.fingerprint import code_hashes


@pytest.mark.skipif(core is None, reason="the kernel runs in Python here")
def test_the_compiled_part_is_covered() -> None:
    """Where compiled functions are used, they are code of the run: their file is under a hash of its own."""
    assert core is not None
    assert code_hashes(())["sim.kernel.compiled._core"] == hashlib.sha256(Path(core.__file__).read_bytes()).hexdigest()


def test_modules_of_agents_are_covered() -> None:
    """The module that defines a class of agents beside `sim` is covered, those of `sim` only as a whole."""

    class Own:
        """Stands for a class of agents of a researcher."""

    found = code_hashes((Own, Path))

    assert found[__name__] == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert {name for name in found if name.startswith("sim")} <= {"sim", "sim.kernel.compiled._core"}

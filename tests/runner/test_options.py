"""The options of runs: each is declared once, as a field of a record."""

import inspect
import re
from typing import Any

import attrs
import pytest

import sim
from sim.inspect.analysis.experiment_options import ArmsArguments, BenchArguments, FitArguments, SweepArguments
from sim.runner.estimate import estimate
from sim.runner.options import AskOptions, BranchOptions, EstimateOptions, ResumeOptions, RunOptions, VerifyOptions

VERBS: list[tuple[Any, Any, tuple[str, ...]]] = [
    (sim.run, RunOptions, ("scenario",)), (sim.replay, VerifyOptions, ("run",)), (sim.resume, ResumeOptions, ("run",)),
    (sim.branch, BranchOptions, ("run",)), (sim.ask, AskOptions, ("run", "questions")),
    (sim.sweep, SweepArguments, ("scenario",)), (sim.bench, BenchArguments, ("scenario",)),
    (sim.fit, FitArguments, ("scenario",)),
    (sim.arms, ArmsArguments, ("run",)), (estimate, EstimateOptions, ("scenario",)),
    (sim.run_async, RunOptions, ("scenario",)), (sim.sweep_async, SweepArguments, ("scenario",)),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "record", "own"), VERBS)
def test_a_function_has_the_fields_of_its_record_as_options(verb: Any, record: Any, own: tuple[str, ...]) -> None:
    """What `help` and a notebook show of a function are its own arguments and, by name, each field of its record; the
    docstring of the record tells each of them once.
    """
    parameters = inspect.signature(verb).parameters
    fields = {field.name for field in attrs.fields(record)}
    assert tuple(parameters)[: len(own)] == own
    assert set(parameters) == fields | set(own)
    assert all(one.kind is one.KEYWORD_ONLY for name, one in parameters.items() if name in fields)
    told = re.findall(r"^ {4}(\w[\w, ]*):", (inspect.getdoc(record) or "").partition("Args:\n")[2], re.MULTILINE)
    names = [name for line in told for name in line.split(", ")]
    assert fields <= set(names)
    assert len(names) == len(set(names))


def test_what_a_function_is_about_can_be_named_too(tmp_path) -> None:
    """The scenario or the run may be given by its name; a call without one says what is needed."""
    with pytest.raises(sim.UsageError, match=r"nothing\.yaml"):
        sim.run(scenario=tmp_path / "nothing.yaml")  # type: ignore[call-arg]  # type checkers want it first
    with pytest.raises(TypeError, match="replay takes run, and options by their names"):
        sim.replay()  # type: ignore[call-arg]  # what is tested


def test_a_misspelt_option_is_named(tmp_path) -> None:
    """An option that does not exist is refused at once, with the nearest name; nothing is run."""
    options: Any = {"seeed": 3}
    for verb in (sim.run, sim.replay, sim.resume):
        with pytest.raises(sim.UsageError, match="there is no option 'seeed'"):
            verb(tmp_path / "nothing.yaml", **options)
    with pytest.raises(sim.UsageError, match="did you mean 'seed'"):
        sim.run(tmp_path / "nothing.yaml", **options)
    with pytest.raises(sim.UsageError, match=r"'allow_chnage'.*did you mean 'allow_change'"):
        sim.replay(tmp_path, allow_chnage=True)  # type: ignore[call-arg]  # what is tested


def test_values_are_checked_before_anything_is_read(tmp_path) -> None:
    """A value that an option does not take is refused, also before a missing file is noticed."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"backend": "curio"}, "the backend is asyncio or trio, not 'curio'"),
        ({"mode": "fast"}, "the mode is autonomous or tick, not 'fast'"),
        ({"max_wall": 0}, "max_wall must be above 0 s"),
    ]
    for options, words in wrong:
        with pytest.raises(sim.UsageError, match=words):
            sim.run(tmp_path / "nothing.yaml", **options)

"""An option of runs is one field of a record: in Python, on each command, in the help and the docs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import click
import pytest

from sim.base.shown import shown, shown_fields
from sim.cli import verbs
from sim.cli.declared import options_of
from sim.experiments.options import Study, Work
from sim.experiments.plan import TrialHosting
from sim.inspect.analysis.experiment_options import (
    ArmsArguments,
    BenchArguments,
    ExperimentOptions,
    SweepArguments,
    VariedOptions,
    WorkerOptions,
)
from sim.runner.options import (
    AskOptions,
    BranchOptions,
    Change,
    ContinueOptions,
    Decisions,
    EstimateOptions,
    Hosting,
    HostOptions,
    Keep,
    ReplayOptions,
    ResumeOptions,
    RunOptions,
    VerifyOptions,
)
from sim.tools.rights import Rights

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
FIELDS = {**shown_fields(RunOptions), **shown_fields(ReplayOptions)}
VERBS = ("run", "resume", "replay", "branch", "ask", "sweep", "bench")
OF_PROGRAMS = {
    "kinds": "classes of the program", "definitions": "definitions of the program", "access": "the options of models",
    "progress": "--quiet", "stuck": "reported always", "on_interrupt": "the commands print a result",
    "begun": "a function", "out": "--out, also of commands that only read", "expected": "what an estimate returned",
    "default_recording": "of experiments",
}  # fmt: skip
"""Fields that are no options of commands, and why, or what stands for them."""
_RECORDED, _OF_RECORD = "the record says it", "nothing is recorded before"
LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "run": dict.fromkeys(("allow_change", "other_endpoint"), _OF_RECORD),
    "resume": dict.fromkeys(("seed", "mode", "until", "clock", "speed", "overrides", "tags", "recording"), _RECORDED),
    "replay": {
        **dict.fromkeys(("seed", "mode", "until", "clock", "speed", "overrides", "tags", "recording"), _RECORDED),
        "other_endpoint": "it asks no model",
    },
    "branch": dict.fromkeys(("mode", "clock", "speed", "recording"), _RECORDED),
    "ask": dict.fromkeys(("seed", "mode", "until", "clock", "speed", "overrides", "tags", "recording"), _RECORDED),
    "sweep": {"seed": "--first-seed", **dict.fromkeys(("clock", "speed", "tags"), "trials take no real time")},
    "bench": {
        "mode": "--mode, several",
        "seed": "--seed, several",
        **dict.fromkeys(("clock", "speed", "tags"), "trials take no real time"),
    },
}
"""Options that a command does not have in this form, and why."""


def params(verb: str) -> dict[str, click.Option]:
    """Return the options of a command by name."""
    command = verbs.get_command(click.Context(verbs), verb)
    assert command is not None
    return {str(one.name): one for one in command.params if isinstance(one, click.Option)}


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_is_an_option_of_every_command(verb):
    """Each command has each option as the field declares it, on its page too, or there is a reason why not."""
    found, left = params(verb), LEFT_OUT[verb]
    chapter = PAGE.partition(f"\n## sim {verb}\n")[2].partition("\n## ")[0]
    for name in FIELDS:
        if name in left:
            continue
        made: Any = options_of(RunOptions if name in shown_fields(RunOptions) else ReplayOptions, name)(lambda: None)
        (declared,) = made.__click_params__
        assert name in found, f"sim {verb} lacks {declared.opts[0]}"
        own = found[name]
        assert (own.opts, own.multiple, own.is_flag) == (declared.opts, declared.multiple, declared.is_flag)
        assert (own.metavar, repr(own.type), own.default) == (declared.metavar, repr(declared.type), declared.default)
        assert re.search(rf"^\| `{declared.opts[0]}[` ]", chapter, re.MULTILINE)
    assert not left.keys() & found.keys(), "it has the option after all"


def test_every_field_is_an_option_or_there_is_a_reason():
    """A new field is told to be an option of commands, or why it is none."""
    fields = {field.name for record in (RunOptions, ReplayOptions) for field in attrs.fields(record)}
    assert fields == FIELDS.keys() | OF_PROGRAMS.keys()
    assert not FIELDS.keys() & OF_PROGRAMS.keys()
    assert all(field.help.endswith(".") for field in FIELDS.values())


OWN: dict[str, tuple[Any, dict[str, str | None]]] = {
    "resume": (ResumeOptions, {}), "replay": (VerifyOptions, {"parts": None}),  # all of the record is compared
    "branch": (BranchOptions, {"record": "no_record"}),
    "ask": (AskOptions, {"at": "times", "confirm": "yes"}),
}  # fmt: skip
"""The record of each verb that begins with a run, and what stands for a field of it; None: nothing does."""


@pytest.mark.parametrize("verb", OWN)
def test_a_verb_has_the_fields_of_its_record(verb):
    """What a function alone can be told, the command can be told as well."""
    record, other = OWN[verb]
    shared = {field.name for field in attrs.fields(ReplayOptions)} | OF_PROGRAMS.keys()
    names = {other.get(field.name, field.name) for field in attrs.fields(record)} - shared - {None}
    assert names <= params(verb).keys()


def test_experiments_take_how_runs_are_hosted():
    """What says how a run is hosted is the same record for trials, in Python and for the workers."""
    assert issubclass(WorkerOptions, Hosting)
    assert issubclass(TrialHosting, Hosting)
    assert issubclass(WorkerOptions, Decisions)
    assert issubclass(TrialHosting, Decisions)


def test_no_option_is_declared_twice():
    """A record has what it shares with another from a record of which both are made."""
    shared = [Rights, Hosting, Decisions]
    runs = [HostOptions, Change, Keep, RunOptions, EstimateOptions, ReplayOptions, VerifyOptions, ContinueOptions]
    runs += [ResumeOptions, BranchOptions]
    experiments = [Study, Work, WorkerOptions, ExperimentOptions, VariedOptions, SweepArguments, BenchArguments]
    for records in (runs, [*experiments, ArmsArguments]):
        own = [field.name for record in (*shared, *records) for field in attrs.fields(record) if not field.inherited]
        assert len(own) == len(set(own))


def test_a_new_field_is_an_option_at_once():
    """The option, its type, bounds and help follow from the field alone."""

    @attrs.frozen(kw_only=True)
    class More(RunOptions):
        patience: int = attrs.field(default=3, metadata=shown("How long.", least=1, show_default=True))

    made: Any = options_of(More, "patience")(lambda: None)
    (option,) = made.__click_params__
    assert (option.opts, option.default, option.help) == (["--patience"], 3, "How long.")
    assert repr(option.type) == "<IntRange x>=1>"

"""The options of sweeps, benches and arms: no verb and no function lacks one, and each reaches its record."""

import inspect
from pathlib import Path
from typing import Any

import attrs
import click
import pytest

import sim
from sim.cli import bench, branch, study, sweep
from sim.experiments.options import Precision, StudyOptions, SweepOptions
from sim.experiments.plan import Plan, TrialHosting
from sim.experiments.results import Results
from sim.inspect.analysis.experiment_options import ExperimentOptions
from sim.tools.rights import Rights

OTHER_NAMES = {
    "precision": ("until_precision", "most_seeds"), "count": ("seeds",), "ceiling_micro": ("ceiling",),
    "listed": ("points",),
    "models": ("access",),
}  # fmt: skip
"""What a field is called in Python, where that is not its own name."""

ON_COMMAND_LINE = {
    **OTHER_NAMES, "count": ("count",), "precision": ("share", "most_seeds"), "models": ("models",),
    "access": ("base_url", "endpoints"),
    "kinds": (), "definitions": (),  # of a program
    "stuck": (),  # such a step is reported in any case
}  # fmt: skip

MADE = {"answers", "runs", "scratch"}
"""The fields of `TrialHosting` that are places in the folder of the experiment."""

OPTIONS = (
    "--seeds", 3, "--first-seed", 7, "--until-precision", "5%", "--most-seeds", 20, "--outcome", "n", "--record",
    "--answers", "all", "--until", "30s", "--jobs", 1, "--ceiling", 1.5, "--ceiling-tokens", 10, "--backend", "trio",
    "--max-wall", "5m", "--allow-change", "--other-endpoint", "--allow-commands", "--to", "study",
)  # fmt: skip
SWEPT = (
    "--vary", "agents.ant.state.n=1,4", "--set", "seed=4", "--recording", "changes", "--model", "openai:m",
    "--base-url", "http://127.0.0.1:1/v1", "--edge-workers", "2@ray", "--ray", "auto",
)  # fmt: skip
SCENARIO = """
name: ants
until: 1m
agents: [{name: ant, state: {n: 0}, rules: [{set: {n: "=n + 1"}}]}]
metrics: {every: 10s, values: {n: "total('ant', 'n')"}}
models: {provider: simulated, rules: [{say: hello}]}
"""


def fields(*records: Any) -> set[str]:
    """Return the names of the fields of records."""
    return {field.name for record in records for field in attrs.fields(record)}


def named(names: set[str], other: dict[str, tuple[str, ...]]) -> set[str]:
    """Return what fields are called elsewhere."""
    return {new for name in names for new in other.get(name, (name,))}


def options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by the names of their values."""
    return {str(one.name): one for one in command.params if isinstance(one, click.Option)}


def test_verbs_and_functions_have_the_same_options() -> None:
    """Each field of the records of plans and of hosting is an option of each verb and function that can have it;
    `sweep` and `bench` differ in modes, and in `--seed`; each option that verbs share has one spelling and one type.
    """
    hosted = fields(TrialHosting) - MADE
    every, of_sweeps = fields(StudyOptions) | hosted, fields(SweepOptions) | hosted
    verbs = {verb: options(command) for verb, command in (("sweep", sweep.command), ("bench", bench.command))}
    arms = options(branch.command)
    for verb, found in verbs.items():
        left_out = {"baseline", "second_order"} if verb == "bench" else set()  # a bench compares modes
        assert named(of_sweeps - left_out, ON_COMMAND_LINE) <= found.keys(), verb
    assert named(every, ON_COMMAND_LINE) <= arms.keys()
    assert verbs["sweep"].keys() - verbs["bench"].keys() == {"mode", "baseline", "second_order"}
    assert verbs["bench"].keys() - verbs["sweep"].keys() == {"modes", "seeds"}
    for name in named(every, ON_COMMAND_LINE):
        for other in (verbs["bench"], arms):
            ours, theirs = verbs["sweep"][name], other[name]
            assert (ours.opts, ours.type.to_info_dict()) == (theirs.opts, theirs.type.to_info_dict()), name

    own = set(inspect.signature(sim.sweep).parameters) | fields(ExperimentOptions)
    assert named(of_sweeps, OTHER_NAMES) <= own
    assert named(every, OTHER_NAMES) <= fields(ExperimentOptions)
    assert {*inspect.signature(sim.bench).parameters} ^ {*inspect.signature(sim.sweep).parameters} == {
        "mode", "modes", "seed_list", "baseline", "second_order",
    }  # fmt: skip


@pytest.mark.parametrize("verb", ["sweep", "bench", "branch"])
def test_each_option_reaches_the_plan_or_the_hosting(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all are given on the command line, no field of the records has its default value."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr("sim.runner.options.need", lambda *_: None)  # Ray is not installed for tests
    Path("ants.yaml").write_text(SCENARIO)
    given: list[tuple[Plan, TrialHosting]] = []

    def work_on(results: Results, _: object, hosting: TrialHosting, **__: object) -> int:
        given.append((results.plan, hosting))
        return 0

    for module in (study, branch):
        monkeypatch.setattr(module, "work_on", work_on)
    if verb == "branch":
        run = sim.run("ants.yaml", out="runs").run
        command, words = branch.command, [run, "--at", "5s", "--arm", "many:limits.llm_calls.global=9 per 1m"]
    else:
        command, words = {"sweep": sweep.command, "bench": bench.command}[verb], ["ants.yaml", *SWEPT]
    assert command.main([*map(str, (*words, *OPTIONS))], standalone_mode=False) == 0
    ((plan, hosting),) = given

    defaults = {field.name: field.default for field in attrs.fields(TrialHosting)}
    left_out = (
        MADE | fields(Rights) | ({"access", "edge_workers", "ray"} if verb == "branch" else set())
    )  # its run asks no model at an endpoint
    assert [name for name in defaults.keys() - left_out if getattr(hosting, name) == defaults[name]] == []
    assert Rights(**hosting.keywords) == Rights(allow_commands=True)
    assert (plan.seeds, plan.precision, plan.outcomes) == ((7, 3), Precision(0.05, 20), ("n",))
    assert (plan.until, plan.answers, plan.record) == ("30s", "all", True)
    if verb != "branch":
        assert (plan.vary, plan.models) == (("agents.ant.state.n=1,4",), ("openai:m",))
        assert plan.overrides == ("seed=4", "recording.level=changes")

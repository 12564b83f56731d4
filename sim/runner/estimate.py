"""What a run will spend on language models, before anything is spent.

The scenario is run once with the same models, simulated: they take time, use tokens and cost what the price list says,
but nobody is asked. What they answer comes from the scenario's scripted rules, or is filler; so the estimate is as good
as these are like the real answers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import attrs

from sim.errors import UsageError
from sim.llm import Access
from sim.runner.options import RunKeywords, RunOptions
from sim.runner.running import run
from sim.scenario import Scenario, load


def estimate(scenario: Scenario | str | Path, **options: Unpack[RunKeywords]) -> Mapping[str, Any]:
    """Return what a run with these options would call and spend, as `RunResult.models` says it.

    Args:
        scenario: a scenario, or the path of a scenario file.
        options: see `RunOptions`; nothing is kept, and real time does not matter.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong, or the scenario names code of its own, which might not only think.
        RunError: if the run fails.
        KeyboardInterrupt: if it was interrupted: what comes after an estimate must not start then.
    """
    chosen = RunOptions.of(options)
    checked = scenario if isinstance(scenario, Scenario) else load(Path(scenario), chosen.overrides)
    foreign = next((entry for entry in checked.agents if entry.kind != "policy"), None)
    if foreign is not None:
        raise UsageError(f"what {foreign.name} does is code ({foreign.kind}), so its model calls cannot be estimated")
    access = (chosen.access or Access()).offline()
    dry = attrs.evolve(
        chosen, access=access, out=None, clock="virtual", speed=None, overrides=(), expected={}, on_interrupt="raise"
    )
    fields = {field.name: getattr(dry, field.name) for field in attrs.fields(RunOptions)}
    return run(checked, **fields).models

"""Estimates what a run will spend on language models before it starts.

The scenario is run once with simulated models in place of the real ones: they take time, use tokens and cost what the
price list says, but no request is sent. Their answers come from the scripted rules of the scenario, or are filler
text. The estimate is therefore as accurate as these answers resemble real ones.
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
from sim.scenario.packaged import find_scenario
from sim.tools import ToolsSettings


def estimate(scenario: Scenario | str | Path, **options: Unpack[RunKeywords]) -> Mapping[str, Any]:
    """Return the model calls and the spending of a run with these options, in the form of `RunResult.models`.

    Args:
        scenario: a scenario, or the path of a scenario file.
        options: see `RunOptions`; nothing is recorded, and the clock is virtual.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong; if an agent has its own code, which might do more than ask models; or if the
            scenario has tools of MCP servers.
        RunError: if the run fails.
        KeyboardInterrupt: if the estimate was interrupted, so that the run after it does not start.
    """
    chosen = RunOptions.of(options)
    if isinstance(scenario, Scenario):
        checked = scenario
    else:
        path, allow = find_scenario(scenario, chosen.allow)
        chosen = attrs.evolve(chosen, allow=allow)
        checked = load(path, chosen.overrides, allow, chosen.kinds)
    foreign = next((entry for entry in checked.agents if entry.kind != "policy"), None)
    if foreign is not None:
        raise UsageError(
            f"the agent {foreign.name} has its own code ({foreign.kind}), so its model calls cannot be estimated"
        )
    tools = checked.sections.get("tools")
    if isinstance(tools, ToolsSettings) and tools.servers:
        raise UsageError("the scenario has tools of MCP servers, which an estimate does not call, so it cannot be made")
    access = (chosen.access or Access()).offline()
    if checked.models is not None and checked.models.latency is not None:
        checked = checked.model_copy(update={"models": checked.models.with_known_latency()})
    dry = attrs.evolve(
        chosen, access=access, out=None, clock="virtual", speed=None, overrides=(), expected={}, on_interrupt="raise"
    )
    fields = {field.name: getattr(dry, field.name) for field in attrs.fields(RunOptions)}
    return run(checked, **fields).models

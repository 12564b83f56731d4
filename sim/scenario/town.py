"""What the part `town` of a scenario demands of the rest of it."""

from sim.agents.town import DAY_STEPS, MAX_AGENTS
from sim.errors import UsageError
from sim.kernel import NS, to_text
from sim.scenario import schema

VILLAGER = "villager"
"""The kind of agents that live in a town."""

STEP_NS = 10 * NS
"""Simulated time of one step of a villager."""

_DAY_NS = DAY_STEPS * STEP_NS


def check_town(scenario: schema.Scenario, until_ns: int | None = None) -> schema.Agent | None:
    """Return the entry of the villagers of a scenario, if it has any.

    Args:
        scenario: a checked scenario.
        until_ns: simulated time of the run in nanoseconds, in place of the scenario's `until`.

    Raises:
        UsageError: if there are villagers without a town, or the town does not fit the scenario.
    """
    entries = [entry for entry in scenario.agents if entry.kind == VILLAGER]
    if scenario.town is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} are villagers, and there is no town", hint="add `town: {}`")
        return None
    if len(entries) != 1:
        raise UsageError(f"a town has one entry of kind {VILLAGER} in agents, not {len(entries)}")
    if scenario.space is not None:
        raise UsageError("space and town do not go together: a town makes its own space")
    if scenario.execution.sync is None:
        raise UsageError(
            "the calls of a town take service time, and execution.sync says nothing of it",
            hint="--set execution.sync=causal",
        )
    period = scenario.execution.tick.period
    if period != STEP_NS:
        raise UsageError(f"the steps of a town last 10s, and execution.tick.period is {to_text(period)}")
    begins, until = scenario.town.begins, until_ns or scenario.end_ns
    if begins % STEP_NS:
        raise UsageError(f"the steps of a town last 10s, and town.begins is {to_text(begins)}")
    if begins + until > _DAY_NS:
        raise UsageError(
            f"a town has one day: town.begins is {to_text(begins)}, and {to_text(until)} from then on is longer",
            hint=f"--set until={to_text(_DAY_NS - begins)}" if begins < _DAY_NS else "town.begins is below 24h",
        )
    if entries[0].count > MAX_AGENTS:
        raise UsageError(f"agents.{entries[0].name}.count: a town has 1 to {MAX_AGENTS} agents, not {entries[0].count}")
    if scenario.models is None:
        raise UsageError("villagers call language models, and the scenario has none", hint="add `models:`")
    return entries[0]

"""The check of models on islands: what their calls would share, and who cannot ask them."""

from collections.abc import Iterator
from typing import Any, Final

from sim.base.errors import Problem
from sim.kernel import NS, to_text
from sim.llm.behaviour import Draw
from sim.scenario.actions import Do
from sim.scenario.island_uses import travels
from sim.scenario.schema import Scenario
from sim.scenario.symbols import items, mapping
from sim.scenario.yaml_tree import Map, Mark
from sim.world.islands import IslandSettings

LIMITED: Final = frozenset({"llm_calls", "llm_tokens"})
"""The limits that each call of a model uses, without a price in `costs`."""


def check_models(tree: Map, scenario: Scenario, settings: IslandSettings) -> Iterator[Problem]:
    """Yield what is wrong with models in a file with islands.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        settings: its islands.
    """
    models = scenario.models
    if models is None:
        return
    part = mapping(tree, "models")
    simulated = mapping(part, "simulated")
    if models.simulated.server is not None and isinstance(simulated, Map):
        yield simulated.keys_at["server"].problem(
            "models.simulated.server cannot be in a file with islands: all agents would wait for it",
            "give the times of a call: first_token and per_token",
        )
    if models.latency is not None and isinstance(part, Map):
        shortest, least = _shortest(models.latency.made()), to_text(settings.latency)
        if shortest < settings.latency:
            message = f"models.latency can be {to_text(shortest)}, and calls of islands take at least {least}"
            hint = f"write `latency: {least}` or more, or a uniform distribution that begins there"
            yield part.values_at["latency"].problem(message, hint)
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        for place, rule in enumerate(entry.rules):
            asked = [do for do in rule.do if do.kind == "ask"]
            if not asked:
                continue
            path, mark = f"agents[{number}].rules[{place}].do", _mark(items(raw, "rules")[place])
            if travels(entry):
                yield mark.problem(
                    f"{path}: agents that travel cannot ask models, which count the calls of an agent on its island",
                    "let an agent that stays ask, and send it a message",
                )
            for tool in (tool for do in asked for tool in _run(do)):
                message = f"{path}: agents on islands cannot use the tool {tool!r:.80}, which all would share"
                yield mark.problem(message, "name tools of models.tools, whose calls are not run")


def _shortest(latency: Draw) -> int:
    """Return the shortest latency of a distribution, in nanoseconds; the others begin at 0."""
    return round(latency.a * NS) if latency.kind in ("constant", "uniform") else 0


def _run(do: Do) -> Iterator[str]:
    """Yield the tools of a question that would be run: all agents share them."""
    tools = do.arguments.get("tools")
    named: Any = tools.raw if tools is not None and tools.constant else ()
    yield from (name for name in named if isinstance(name, str) and "." in name)


def _mark(rule: Any) -> Mark:
    assert isinstance(rule, Map), "it was read from a file"
    mark: Mark = rule.values_at.get("do", rule.mark)
    return mark

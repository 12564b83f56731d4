"""A description of a model after the ODD protocol, filled from its scenario.

ODD (overview, design concepts, details) is the common form in which agent-based models are described: Grimm et al.,
Ecological Modelling 198 (2006) and 221 (2010), and JASSS 23(2) 7 (2020). What a scenario does not say is left to its
author, and marked.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sim.agents.toolbox import DRAWS
from sim.base.expressions import functions_at
from sim.base.text import plain
from sim.scenario.fields import plain as as_plain
from sim.scenario.overrides import apply_overrides, parse_all
from sim.scenario.symbols import items, mapping
from sim.scenario.yaml_tree import read_tree

_BY_AUTHOR: Final = "*To be written by the author: {}.*"
_CONCEPTS: Final = (
    ("Basic principles", "which theories and hypotheses the model rests on"),
    ("Emergence", "which results emerge from what agents do, and which are imposed by rules"),
    ("Adaptation", "how agents change what they do in response to changes of themselves or of their environment"),
    ("Objectives", "what agents try to reach, and how they measure it"),
    ("Learning", "whether agents change their way of deciding by experience"),
    ("Prediction", "what agents expect of the future, and on what ground"),
)
_SENSES: Final = {name for name, function in functions_at("agent").items() if function.senses != "nothing"}
_CALLS: Final = re.compile(r"\b(\w+)\(")
_LONGEST: Final = 2000  # characters of a value


def odd_description(text: str, overrides: Sequence[str], facts: Mapping[str, Any]) -> str:
    """Return a description of a model, as Markdown.

    Args:
        text: the text of its scenario.
        overrides: the `key=value` changes to it.
        facts: what else is known of the run or the experiment, by name, such as its seed.
    """
    tree, problems = read_tree(text, "the scenario")
    if problems:  # it has been read before
        return "The scenario cannot be read.\n"
    apply_overrides(tree, parse_all(overrides))
    scenario = as_plain(tree)
    return "\n".join(_page(scenario, text, overrides, facts)) + "\n"


def _page(scenario: dict[str, Any], text: str, overrides: Sequence[str], facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {_words(scenario.get('name'))}: a description after the ODD protocol"
    yield "\nThis description follows the ODD protocol (Grimm et al. 2006, 2010, 2020). It was filled from the"
    yield "scenario; what a scenario does not say is marked as to be written by the author."
    yield "\n## 1. Purpose and patterns\n"
    yield _words(scenario.get("description")) or _BY_AUTHOR.format("the purpose of the model")
    comment = _first_comment(text)
    if comment:
        yield f"\nThe scenario says of itself:\n\n{comment}"
    yield "\n" + _BY_AUTHOR.format("the patterns by which the model is judged to be good enough for its purpose")
    yield from _entities(scenario)
    yield from _processes(scenario)
    yield from _concepts(scenario)
    yield "\n## 5. Initialization\n"
    yield from _initialization(scenario, overrides, facts)
    yield "\n## 6. Input data\n"
    yield from _input(scenario)
    yield "\n## 7. Submodels\n"
    yield from _submodels(scenario)


def _entities(scenario: dict[str, Any]) -> Iterator[str]:
    yield "\n## 2. Entities, state variables, and scales\n"
    for agent in items(scenario, "agents"):
        number = agent.get("count", 1)
        many = "created during the run" if agent.get("template") else f"{number} of them" if number != 1 else "one"
        if "table" in agent:
            many = f"{agent['sample']} rows" if agent.get("sample") is not None else "each row"
            many = f"{many} of the table {_code(agent['table'])}"
        yield f"**{_words(agent.get('name'))}** ({many}; kind of agent: {_code(agent.get('kind', 'policy'))})\n"
        yield from _table(("state variable", "value at the start"), mapping(agent, "state").items())
    for key, title in (
        ("places", "Places"),
        ("space", "Space"),
        ("pools", "Shared resources"),
        ("accounts", "Accounts"),
    ):
        if scenario.get(key):
            yield f"**{title}**\n"
            yield from _table((title.lower(), "value"), _rows(scenario[key]))
    if scenario.get("artifacts"):
        yield f"**Artifacts**: {_code(scenario['artifacts'])}\n"
    yield f"**Scales**: simulated time is continuous and ends after {_code(scenario.get('until', '1h'))}."
    if mapping(scenario, "stop"):
        yield f"The run stops before if {_code(scenario['stop'])}."
    yield _space(scenario)


def _space(scenario: dict[str, Any]) -> str:
    places = mapping(scenario, "places")
    if scenario.get("space"):
        return "Space is continuous and two-dimensional."
    if "grid" in places:
        return f"Space is a grid of {_code(places['grid'])} places (columns, rows)."
    return "Space is a graph of places." if places else "There is no space."


def _processes(scenario: dict[str, Any]) -> Iterator[str]:
    execution = mapping(scenario, "execution")
    yield "\n## 3. Process overview and scheduling\n"
    if execution.get("use_autonomous_loops", True):
        yield "Each agent has a loop of its own: it wakes at a time, an event, a message or a level of a resource,"
        yield "decides on an action, and determines what it waits for next. Nothing happens between such moments."
    else:
        yield "Time advances in ticks; in each tick every agent that is not asleep has one turn."
    if execution:
        yield f"Settings of the execution: {_code(execution)}."
    yield "Of what happens at the same time, the order follows from a key of time, priority and cause, and is the"
    yield "same in every run with the same seed.\n"
    for agent in items(scenario, "agents"):
        rules = items(agent, "rules")
        if rules:
            yield f"**{_words(agent.get('name'))}** does the first of these that applies:\n"
            for number, rule in enumerate(rules, 1):
                when = f"if {_code(rule['when'])}" if "when" in rule else "always"
                yield f"{number}. {_words(rule.get('name')) or 'rule ' + str(number)}: {when}"
            yield ""
    for key, title in (("events", "Events"), ("interventions", "Interventions from outside")):
        if scenario.get(key):
            yield f"**{title}**\n"
            yield from (f"- {_code(one)}" for one in items(scenario, key))
            yield ""


def _concepts(scenario: dict[str, Any]) -> Iterator[str]:
    rules = json.dumps([agent.get("rules") for agent in items(scenario, "agents")], default=str)
    everything = json.dumps(scenario, default=str)
    yield "\n## 4. Design concepts\n"
    for name, what in _CONCEPTS:
        yield f"**{name}.** {_BY_AUTHOR.format(what)}\n"
    senses = sorted(_SENSES.intersection(_CALLS.findall(rules)))
    sensed = (
        f"Rules read {', '.join(f'`{name}`' for name in senses)}." if senses else "Rules read the agent's own state."
    )
    yield f"**Sensing.** {sensed}\n"
    kinds = sorted({kind for kind in ("send", "publish", "transfer", "spawn", "request") if f'"{kind}"' in rules})
    met = f"Agents interact by the actions {', '.join(f'`{kind}`' for kind in kinds)}." if kinds else (
        "Agents interact only by what they share."
    )  # fmt: skip
    yield f"**Interaction.** {met}\n"
    draws = sorted(DRAWS.intersection(_CALLS.findall(everything)))
    chance = (
        f"These are drawn at random: {', '.join(f'`{name}`' for name in draws)}." if draws else "Nothing is random."
    )
    yield f"**Stochasticity.** {chance} Draws depend on the seed, the agent and its iteration alone.\n"
    groups = sorted({str(agent["group"]) for agent in items(scenario, "agents") if "group" in agent})
    together = (
        f"Agents belong to the groups {', '.join(map(_code, groups))}." if groups else "There are no collectives."
    )
    yield f"**Collectives.** {together}\n"
    metrics = mapping(scenario, "metrics")
    yield f"**Observation.** Every {_words(metrics.get('every', '1h'))} these are measured:\n"
    yield from _table(("measure", "definition"), mapping(metrics, "values").items())


def _initialization(scenario: dict[str, Any], overrides: Sequence[str], facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"The seed of the scenario is {_code(scenario.get('seed', 0))}. The values at the start are in section 2."
    for agent in items(scenario, "agents"):
        given = {
            key: agent[key] for key in ("place", "position", "balance", "start", "params", "settings") if key in agent
        }
        if given:
            yield f"\n**{_words(agent.get('name'))}**: {_code(given)}"
    if overrides:
        yield f"\nChanged for this study: {', '.join(map(_code, overrides))}."
    yield ""
    yield from _table(("of this study", "value"), facts.items())


def _input(scenario: dict[str, Any]) -> Iterator[str]:
    places = mapping(scenario, "places")
    found = [f"- the graph of places: {_code(places[key])}" for key in ("file", "graph") if key in places]
    tables = dict.fromkeys(str(agent["table"]) for agent in items(scenario, "agents") if "table" in agent)
    found += [f"- the table of agents: {_code(table)}" for table in tables]
    if scenario.get("models"):
        found.append(f"- answers of language models: {_code(scenario['models'])}")
    yield from found or ("The model uses no input data from outside.",)


def _submodels(scenario: dict[str, Any]) -> Iterator[str]:
    for agent in items(scenario, "agents"):
        for number, rule in enumerate(items(agent, "rules"), 1):
            yield f"**{_words(agent.get('name'))}: {_words(rule.get('name')) or 'rule ' + str(number)}**\n"
            yield from _table(("part", "value"), [(key, value) for key, value in rule.items() if key != "name"])
    for key in ("limits", "budgets", "quotas", "costs"):
        if scenario.get(key):
            yield f"**{key.capitalize()}**\n"
            yield from _table(("name", "value"), _rows(scenario[key]))
    others = [agent for agent in items(scenario, "agents") if not agent.get("rules")]
    for agent in others:
        kind = _code(agent.get("kind", "policy"))
        yield f"**{_words(agent.get('name'))}**: agents of the kind {kind}, see its code."


def _rows(value: Any) -> Iterable[tuple[Any, Any]]:
    return (
        value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else [("", value)]
    )


def _table(head: tuple[str, str], rows: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    lines = [f"| {_words(key)} | {_code(value)} |" for key, value in rows]
    if lines:
        yield from (f"| {head[0]} | {head[1]} |", "| --- | --- |", *lines, "")


def _first_comment(text: str) -> str:
    """Return the comment at the beginning of a scenario, without the line for editors, as a quotation."""
    lines = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line and "yaml-language-server" not in line:
            lines.append(f"> {plain(line.lstrip('# ')).replace('<', '&lt;')}".rstrip())
    return "\n".join(lines)


def _words(value: Any) -> str:
    """Return a text as words of a sentence: without line breaks, and without signs that Markdown reads."""
    text = plain("" if value is None else " ".join(str(value).split()))
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text[:_LONGEST])


def _code(value: Any) -> str:
    """Return a value as code: in one line, with a mark that does not occur in it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = plain(" ".join(text.split()))[:_LONGEST].replace("|", "\\|")
    mark = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{mark}{text}{mark}" if mark == "`" else f"{mark} {text} {mark}"

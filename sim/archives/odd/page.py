"""The page of a description: the seven sections of the ODD protocol."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from sim.agents.family import family_for
from sim.archives.odd.chance import data_from_outside
from sim.archives.odd.code import class_of
from sim.archives.odd.concepts import concepts, when_of
from sim.archives.odd.subject import Pace, Subject, expressions_in, follows_rules
from sim.archives.odd.text import by_author, code, codes, comment_of, listed, pairs, quoted, table, words
from sim.archives.odd.variants import by_variant
from sim.base.expressions import functions_at
from sim.base.text import plain
from sim.kernel import to_text
from sim.kernel.codec import Json
from sim.record.files import versions
from sim.scenario.schema import Agent, Scenario
from sim.scenario.symbols import items, mapping
from sim.world.action import DEFINED

_INTRODUCTION: Final = (
    "This description follows the ODD protocol for describing individual- and agent-based models (Grimm et al. 2006),\n"
    "as updated by Grimm et al. (2020)."
)


def odd_description(subject: Subject) -> str:
    """Return a description of a model, as Markdown."""
    return "\n".join(_page(subject)) + "\n"


def without_scenario(name: str, text: str, why: str) -> str:
    """Return what remains to be written of a model whose scenario cannot be checked here, as Markdown.

    Args:
        name: the name of the scenario.
        text: its text.
        why: the reason.
    """
    lines = [
        _title(name),
        "",
        f"{_INTRODUCTION} Nothing in it is derived from the scenario, which cannot be checked here:",
    ]
    lines += ["", quoted(why.splitlines()), "", by_author("all seven sections"), "", comment_of(text)]
    return "\n".join(lines) + "\n"


def _title(name: Any) -> str:
    return f"# {words(name)}: a description after the ODD protocol"


def _page(subject: Subject) -> Iterator[str]:
    scenario = subject.scenario
    yield _title(scenario.name)
    yield f"\n{_INTRODUCTION} It was derived from the checked scenario and from the definitions"
    yield f"of sim {versions()['sim']}; what does not follow from these is marked as to be written by the author."
    yield "\n## 1. Purpose and patterns\n"
    yield words(scenario.description) or by_author("the purpose of the model")
    if comment := comment_of(subject.text):
        yield f"\nThe scenario says of itself:\n\n{comment}"
    yield "\n" + by_author("the patterns by which the model is judged to be good enough for its purpose")
    yield "\n## 2. Entities, state variables, and scales\n"
    for number in range(len(subject.scenario.agents)):
        yield from by_variant(subject, partial(_heading, number=number), start=True)
        yield from by_variant(subject, partial(_variables, number=number), start=True)
    yield from by_variant(subject, _environment, start=True)
    yield "**Scales**\n"
    yield from by_variant(subject, lambda one: [*_time(one), _space(one.scenario)])
    yield from by_variant(subject, lambda one: _end(one.scenario))
    yield "\n## 3. Process overview and scheduling\n"
    yield from _processes(subject)
    yield "\n## 4. Design concepts\n"
    yield from concepts(subject)
    yield "\n## 5. Initialization\n"
    yield from _initialization(subject)
    yield "\n## 6. Input data\n"
    yield from by_variant(subject, _input)
    yield "\n## 7. Submodels\n"
    yield from by_variant(subject, _deciding)
    yield from by_variant(subject, _functions)
    yield from by_variant(subject, lambda one: _actions(one.scenario))
    yield from by_variant(subject, _parts)


# -- 2. entities, state variables, and scales


def _heading(subject: Subject, number: int) -> Iterator[str]:
    entry = subject.scenario.agents[number]
    how = "follows rules" if follows_rules(entry) else f"decides in code: {code(_shown(subject, entry))}"
    each = "it" if entry.table is None and entry.count == 1 and not entry.template else "each of them"
    yield f"**{words(entry.name)}** ({_how_many(entry)}; {each} {how})\n"


def _variables(subject: Subject, number: int) -> Iterator[str]:
    entry, written = subject.scenario.agents[number], mapping(items(subject.tree, "agents")[number], "state")
    columns = () if entry.population is None else entry.population.states  # they hide the values of the scenario
    rows = [(words(key), "from the table" if key in columns else code(written[key])) for key in entry.state]
    yield from table(("state variable", "value at the start"), rows)
    if not rows:
        yield "The scenario gives these agents no state variables.\n"


def _environment(subject: Subject) -> Iterator[str]:
    tree = subject.tree
    titles = (("places", "Places"), ("space", "Space"), ("pools", "Shared resources"), ("accounts", "Accounts"))
    for key, title in titles:
        if tree.get(key):
            yield f"**{title}**\n"
            yield from pairs((title.lower(), "value"), _rows(tree[key]))
    if tree.get("artifacts"):
        yield "**Artifacts**\n"
        yield from pairs(("artifact", "value"), ((one.get("id"), one) for one in items(tree, "artifacts")))


def _entries(subject: Subject) -> Iterator[tuple[Agent, dict[str, Json]]]:
    return zip(subject.scenario.agents, items(subject.tree, "agents"), strict=True)


def _shown(subject: Subject, entry: Agent) -> str:
    return class_of(entry, subject.sources).name


def _how_many(entry: Agent) -> str:
    if entry.template:
        return "none at the start: a template of agents that are made during the run"
    if entry.table is None:
        return "1 agent" if entry.count == 1 else f"{entry.count:,} agents"
    if entry.sample is not None:
        return f"{entry.sample:,} agents: rows drawn from the table {code(entry.table)}"
    return f"{entry.size:,} agents: the rows of the table {code(entry.table)}"


def _time(subject: Subject) -> Iterator[str]:
    scenario = subject.scenario
    for pace in subject.paces:
        execution, mode = pace.scenario.execution, f"In the mode {words(pace.name)}, " if pace.name else ""
        if pace.mode == "tick":
            yield _sentence(f"{mode}agents act in ticks, one every {to_text(execution.tick.period)} of simulated time.")
        else:
            yield _sentence(f"{mode}simulated time is continuous: it advances from one event to the next.")
    civil = scenario.sections.get("calendar")
    if civil is not None:
        yield f"It begins at {words(civil.start)}, in the time zone {words(civil.zone)}."
    if scenario.execution.clock == "wall":
        yield f"Simulated time follows real time, {scenario.execution.speed:g} seconds for each second."


def _end(scenario: Scenario) -> Iterator[str]:
    until = scenario.until
    yield "The run ends when nothing is left to do." if until is None else f"The run ends after {to_text(until)}."
    if scenario.stop is not None:
        yield (
            f"It ends before that if {code(scenario.stop.when.text)}, which is checked every"
            f" {to_text(scenario.metrics.every)}."
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _space(scenario: Scenario) -> str:
    places, space = scenario.places, scenario.space
    texts = []
    if space is not None and space.size is not None:
        texts.append(f"Space is a plane of {space.size[0]:g} by {space.size[1]:g}, with the metric {space.metric}.")
    if places is not None and places.grid is not None:
        around = "eight" if places.diagonals else "four"
        edge = "whose last column and row are adjacent to the first ones" if places.wrap else "with borders"
        texts.append(f"Places form a grid of {places.grid[0]} by {places.grid[1]}, with {around} neighbours, {edge}.")
    elif places is not None:
        texts.append("Places form a graph.")
    if any((family := family_for(entry)) is not None and family.position for entry in scenario.agents):
        texts.append("Agents bring their own positions in space.")
    return " ".join(texts) or "The scenario has no places and no space."


# -- 3. process overview and scheduling

_WHEN: Final = ("at", "every", "daily", "cron", "times")


def _processes(subject: Subject) -> Iterator[str]:
    yield from by_variant(subject, _paces)
    yield from by_variant(subject, _ties)
    yield from by_variant(subject, _all_rules)
    yield from by_variant(subject, lambda one: _by_themselves(one.scenario))
    yield from by_variant(subject, _events)
    if subject.changes:
        yield "**Changes during the run**\n"
        for change in subject.changes:
            what = [*map(code, change.overrides), *map(words, change.others)]
            note = f" ({words(change.note)})" if change.note else ""
            yield f"- {_sentence(change.when)}: {', '.join(what) or 'nothing'}{note}"
        if subject.more_changes:
            yield f"- After these, there are {subject.more_changes:,} more changes, which are not described."
        yield ""


def _paces(subject: Subject) -> Iterator[str]:
    for pace in subject.paces:
        if pace.name:
            yield f"**Mode {words(pace.name)}.**"
        yield from _pace(pace)
        yield ""


def _all_rules(subject: Subject) -> Iterator[str]:
    for entry, raw in _entries(subject):
        yield from _rules(subject, entry, raw)


def _pace(pace: Pace) -> Iterator[str]:
    execution = pace.scenario.execution
    period = to_text(execution.tick.period)
    if pace.mode != "tick":
        yield "Each agent runs a loop of its own: it decides on an action, acts, and then waits, until a time, an"
        yield "event, a message or a level of a limit. Without such a wait, these are the pauses:\n"
        head = ("agents", "pause between iterations", "longest pause after failures")
        yield from table(head, _pauses(pace.scenario))
    elif execution.sync is not None:
        yield f"Agents act in synchronised rounds, one every {period}. The policy {code(execution.sync)} decides which"
        yield "agent can begin its next round before others have ended theirs."
    else:
        yield f"A tick begins every {period}, or later, if agents still act in the one before. In each tick, an agent"
        yield "has one turn, unless it sleeps, is paused or waits. A sleep or a pause ends at the first tick at or"
        yield "after its time."
        yield from _turns(pace.scenario)


def _ties(subject: Subject) -> Iterator[str]:
    """Yield the order of what happens at one instant, which all paces of a scenario have."""
    if any(pace.scenario.execution.ties == "shuffled" for pace in subject.paces):
        yield "What happens at one instant happens in an order that is drawn from the seed.\n"
    else:
        yield "What happens at one instant happens in a fixed order: by its cause, and by the order of the scenario.\n"


def _pauses(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    for entry in scenario.agents:
        loop = entry.loop.over(scenario.execution.agent_loop)
        yield words(entry.name), to_text(loop.min_loop_delay), to_text(loop.max_loop_delay)


def _turns(scenario: Scenario) -> Iterator[str]:
    tick = scenario.execution.tick
    if tick.concurrency == "parallel":
        yield "In a tick, all agents decide first, on the same state, and then act one after another,"
    else:
        yield "In a tick, agents act one after another, each on what those before it have left,"
    groups = f"the groups {codes(tick.groups)} first, and within a group " if tick.groups else ""
    shuffled = "in an order that is drawn again for each tick"
    yield f"{groups}{shuffled if tick.order == 'shuffled' else 'in the order of the scenario'}."


def _rules(subject: Subject, entry: Agent, raw: dict[str, Json]) -> Iterator[str]:
    name = f"**{words(entry.name)}**"
    if not follows_rules(entry):
        yield f"{name} decides in code: {code(_shown(subject, entry))}; {by_author('what it does, and when')}\n"
    elif not entry.rules:
        yield f"{name} has no rules, and does nothing.\n"
    else:
        yield f"In each iteration, {name} does the first of these that applies:\n"
        for number, (rule, written) in enumerate(zip(entry.rules, items(raw, "rules"), strict=True), 1):
            when = f"if {code(str(written['when']))}" if "when" in written else "always"
            kinds = codes(dict.fromkeys(do.kind for do in rule.do))
            yield f"{number}. {words(rule.name) or f'rule {number}'}: {when}, by {kinds}"
        yield ""


def _by_themselves(scenario: Scenario) -> Iterator[str]:
    """Yield what happens at fixed intervals."""
    places, health = scenario.places, scenario.execution.health
    sentences = []
    if places is not None and places.rules:
        sentences.append(f"Every {to_text(places.every)}, each place takes the first of its rules that applies.")
    if places is not None and places.stock is not None:
        sentences.append(
            f"Every {to_text(places.stock.every)}, {places.stock.growth:g} grows at each place, up to its capacity."
        )
    sentences += [
        f"Every {to_text(budget.reset)}, the budget {code(name)} of each agent is renewed."
        for name, budget in scenario.budgets.items()
        if budget.reset is not None
    ]
    if health is not None:
        cure = " and restarted" if health.cure == "restart" else ""
        sentences.append(f"Every {to_text(health.every)}, agents without a sign of life are reported{cure}.")
    if sentences:
        yield "**At intervals**\n"
        yield from (f"- {what}" for what in sentences)
        yield ""


def _events(subject: Subject) -> Iterator[str]:
    scenario = subject.scenario
    for title, key, entries in (
        ("Events", "events", scenario.events),
        ("Interventions from outside", "interventions", scenario.interventions),
    ):
        if entries:
            yield f"**{title}**\n"
            for entry, raw in zip(entries, items(subject.tree, key), strict=True):
                what = {name: value for name, value in raw.items() if name not in _WHEN}
                yield f"- {_sentence(when_of(entry))}: {code(what)}"
            yield ""


# -- 5. initialization

_MOST_UNCHECKED: Final = 5  # combinations that are named with a reason

_AT_START: Final = (
    "group", "place", "position", "partners", "balance", "start", "permission", "params", "settings", "columns",
    "weights", "replace",
)  # fmt: skip


def _initialization(subject: Subject) -> Iterator[str]:
    yield from by_variant(subject, _start, start=True)
    if subject.overrides:
        yield f"\nChanged for this study: {codes(subject.overrides)}."
    if subject.combinations:
        yield f"\n{_derived_from(subject)}"
    for what in subject.unchecked[:_MOST_UNCHECKED]:
        yield f"\nNot described, because it cannot be checked here: {words(what)}."
    if (left := len(subject.unchecked) - _MOST_UNCHECKED) > 0:
        yield f"\nThe same is true of {left:,} more."
    yield ""
    yield from pairs(("of this study", "value"), subject.facts.items())


def _derived_from(subject: Subject) -> str:
    count, whole = len(subject.variants), subject.combinations
    if count == whole:
        return f"The statements of all sections were derived from all {whole:,} combinations of varied values."
    return (
        f"The statements of all sections were derived from {count:,} of {whole:,} combinations of varied values. What"
        " is true of the others only is missing."
    )


def _start(subject: Subject) -> Iterator[str]:
    scenario = subject.scenario
    yield f"The seed of the scenario is {scenario.seed}. State variables have the values of section 2 at the start."
    for entry, raw in _entries(subject):
        settings = {key: raw[key] for key in _AT_START if key in raw}
        if settings:
            yield f"\n**{words(entry.name)}**\n"
            yield from pairs(("setting", "value"), settings.items())
    tables = dict.fromkeys(entry.table for entry in scenario.agents if entry.table is not None)
    if tables:
        yield f"Agents are initialized from the data of {listed(map(code, tables))}."
    places = scenario.places
    if places is not None and (places.file or places.graph):
        yield f"Places are initialized from the graph {code(places.file or places.graph)}."


# -- 6. input data


def _input(subject: Subject) -> Iterator[str]:
    if sources := list(data_from_outside(subject)):
        yield f"The model uses {listed(sources)}; they are in the record of a run."
    elif subject.in_code:
        yield "The scenario names no input data for processes that change over time."
    else:
        yield "The model uses no input data for processes that change over time."
    if subject.in_code:
        yield "\n" + by_author(f"whether the code of {codes(one.name for one in subject.in_code)} reads any")


# -- 7. submodels

_ELSEWHERE: Final = frozenset({
    "agents", "places", "space", "pools", "accounts", "artifacts", "events", "interventions", "metrics", "stop",
    "name", "description", "seed", "until", "properties", "testing",
})  # fmt: skip
"""The parts of a scenario that other sections show, or that are not of the model."""


def _deciding(subject: Subject) -> Iterator[str]:
    for entry, raw in _entries(subject):
        if not follows_rules(entry):
            yield from _class(subject, entry)
        for number, rule in enumerate(items(raw, "rules"), 1):
            yield f"**{words(entry.name)}: {words(rule.get('name')) or f'rule {number}'}**\n"
            yield from pairs(("part", "value"), [(key, value) for key, value in rule.items() if key != "name"])


def _parts(subject: Subject) -> Iterator[str]:
    for key, value in subject.tree.items():
        if key not in _ELSEWHERE:
            yield f"**{words(key.capitalize())}**" + ("\n" if value else ": with the defaults of all settings.\n")
            yield from pairs(("name", "value"), _rows(value) if value else ())


def _class(subject: Subject, entry: Agent) -> Iterator[str]:
    agent_class = class_of(entry, subject.sources)
    yield f"**{words(entry.name)}** decides in code: {code(agent_class.name)}\n"
    if agent_class.doc:
        yield "Its class says of itself:\n\n" + quoted(agent_class.doc.splitlines()) + "\n"
    elif not agent_class.read:
        yield "The source of this class was not there when the description was made.\n"
    rows = (
        (code(name), code(kind), code(default) if default else "", words(doc))
        for name, kind, default, doc in agent_class.params
    )
    yield from table(("param", "type", "default", "what it is"), rows)
    if agent_class.state:
        yield f"Its code names the state variables {codes(agent_class.state)}.\n"
    family = family_for(entry)
    if family is not None and family.actions:
        yield "Its kind brings these actions:\n"
        yield from table(("action", "what it does"), ((code(one.kind), words(one.summary)) for one in family.actions))
    yield by_author("how these agents decide") + "\n"


def _functions(subject: Subject) -> Iterator[str]:
    """Yield what the functions in expressions do, as they are defined."""
    scenario = subject.scenario
    parts = (scenario.agents, scenario.places, scenario.models, scenario.interventions, scenario.sections)
    called = sorted({name for part in parts for _, one in expressions_in(part) for name in one.functions})
    functions = functions_at("any", "agent", "start")
    rows = [(code(functions[name].call), functions[name].summary) for name in called if name in functions]
    if rows:
        yield "**Functions that expressions call**\n"
        yield from table(("function", "value"), ((call, plain(summary).replace("|", r"\|")) for call, summary in rows))


def _actions(scenario: Scenario) -> Iterator[str]:
    """Yield what the actions of rules do, as they are defined."""
    kinds = sorted({do.kind for entry in scenario.agents for rule in entry.rules for do in rule.do})
    if kinds:
        yield "**Actions of rules**\n"
        yield from table(("action", "what it does"), ((code(kind), words(DEFINED[kind].summary)) for kind in kinds))


def _rows(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value, 1) if isinstance(value, list) else [("", value)]

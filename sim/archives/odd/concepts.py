"""The design concepts of a description: what agents read, how they act on others, what is random, what is measured."""

from collections.abc import Iterator
from typing import Final

from sim.actors.wake import CONDITIONS
from sim.agents.family import family_for
from sim.archives.odd.chance import chance_of
from sim.archives.odd.code import class_of
from sim.archives.odd.subject import Subject, expressions_in, follows_rules
from sim.archives.odd.text import by_author, code, codes, listed, pairs, table, words
from sim.archives.odd.variants import by_variant
from sim.base.expressions import functions_at
from sim.kernel import to_text
from sim.scenario.schedule import END, Scheduled
from sim.scenario.schema import Agent, Scenario
from sim.scenario.scopes import NAMES_OF_RULES
from sim.scenario.sleep import SleepSpec
from sim.world.action import DEFINED

_FIRST: Final = (
    ("Basic principles", "which theories and hypotheses the model rests on"),
    ("Emergence", "which results emerge from what agents do, and which are imposed by rules"),
    ("Adaptation", "how agents change what they do in response to changes of themselves or of their environment"),
    ("Objectives", "what agents try to reach, and how they measure it"),
    ("Learning", "whether agents change their way of deciding by experience"),
    ("Prediction", "what agents expect of the future, and on what ground"),
)


def concepts(subject: Subject) -> Iterator[str]:
    """Yield the section on design concepts."""
    for name, what in _FIRST:
        yield f"**{name}.** {by_author(what)}\n"
    yield "**Sensing.** What agents read; those that follow rules read nothing else:\n"
    yield from by_variant(subject, _all_sensing)
    yield "\n**Interaction.** By which actions agents change what others can notice:\n"
    yield from by_variant(subject, _all_acting)
    yield "\n**Stochasticity.** " + "\n".join(_chance(subject)) + "\n"
    yield "**Collectives.** Each agent belongs to a group, by which it can be counted, addressed and limited:\n"
    yield from by_variant(subject, lambda one: _groups(one.scenario))
    yield by_author("whether agents form collectives that affect them, or that they form themselves") + "\n"
    yield from by_variant(subject, lambda one: observation(one.scenario))


# -- sensing


def _all_sensing(subject: Subject) -> Iterator[str]:
    yield from (f"- {_sensing(subject, entry)}" for entry in subject.scenario.agents)
    if reads := list(_read_by_models(subject.scenario)):
        yield f"- The scripted answers of language models depend, beside the question, on {'; '.join(reads)}."


def _sensing(subject: Subject, entry: Agent) -> str:
    name = f"**{words(entry.name)}**"
    if not follows_rules(entry):
        return f"{name} {_decides(subject, entry)}; {by_author('what these agents read')}"
    if not entry.rules:
        return f"{name} has no rules, and reads nothing."
    reads = [*_own(entry), *_read_by_names(entry), *_read_by_functions(entry.rules), *_read_in_sleep(entry)]
    return f"{name} reads {'; '.join(dict.fromkeys(reads))}." if reads else f"{name} reads nothing."


def _decides(subject: Subject, entry: Agent) -> str:
    reach = {"own": "its own data alone", "space": "its own data and what it sees in space"}
    family = family_for(entry)
    declared = None if family is None else reach.get(str(family.agent.reach))
    said = f", and its class declares that it reads and changes {declared}" if declared else ""
    return f"decides in code: {code(class_of(entry, subject.sources).name)}{said}"


def _own(entry: Agent) -> Iterator[str]:
    used = {name for _, one in expressions_in(entry.rules) for name in one.names}
    for do in (do for rule in entry.rules for do in rule.do if do.sleep is None):
        kept = {one.name for one in DEFINED[do.kind].arguments() if one.meaning == "history"}
        used |= {value.raw for name, value in do.arguments.items() if name in kept}
    if states := [key for key in entry.state if key in used]:
        yield f"its own state ({codes(states)})"


def _read_by_names(entry: Agent) -> Iterator[str]:
    used = {name for _, one in expressions_in(entry.rules) for name in one.names}
    for name, (_, what) in NAMES_OF_RULES.items():
        if name in used and name != "pi" and name not in entry.state:
            yield f"{what} ({code(name)})"


def _read_by_functions(rules: object) -> Iterator[str]:
    functions = functions_at("agent")
    called = sorted({name for _, one in expressions_in(rules) for name in one.functions})
    for name in called:
        function = functions.get(name)
        if function is not None and (function.senses != "nothing" or "calendar" in function.needs):
            what = function.summary.partition(";")[0]
            yield f"{what} ({code(name)})"


def _read_by_models(scenario: Scenario) -> Iterator[str]:
    rules = () if scenario.models is None else scenario.models.rules
    used = {name for _, one in expressions_in(rules) for name in one.names}
    if "state" in used:
        yield "the state of the agent that asks or is asked (`state`)"
    yield from (f"{NAMES_OF_RULES[name][1]} ({code(name)})" for name in ("now", "me", "group") if name in used)
    yield from _read_by_functions(rules)


def _read_in_sleep(entry: Agent) -> Iterator[str]:
    if entry.subscribe:
        yield f"events with the topics {codes(entry.subscribe)}"
    for rule in entry.rules:
        for do in rule.do:
            yield from () if do.sleep is None else _sleep(do.sleep)
            pattern = do.arguments.get("or_event")
            if pattern is not None:
                yield f"events with the topics {code(pattern.raw)}"


def _sleep(spec: SleepSpec) -> Iterator[str]:
    arguments = spec.values
    for kind in CONDITIONS.values():
        for head in kind.heads:
            if head.name not in arguments:
                continue
            value = arguments[head.name]
            for part in value if isinstance(value, tuple) else ():  # of `any` and `all`
                yield from _sleep(part)
            if kind.reads is None:
                yield f"what the condition {code(head.name)} of its sleep depends on"
            elif kind.reads:
                yield kind.reads.format(code(_raw(value)))


def _raw(value: object) -> object:
    return getattr(value, "raw", value)


# -- interaction


def _all_acting(subject: Subject) -> Iterator[str]:
    yield from (f"- {_acting(subject, entry)}" for entry in subject.scenario.agents)
    yield from (f"- {what}" for what in _between(subject.scenario))


def _acting(subject: Subject, entry: Agent) -> str:
    name = f"**{words(entry.name)}**"
    if not follows_rules(entry):
        return f"{name} {_decides(subject, entry)}; {by_author('how these agents act on others')}"
    kinds = dict.fromkeys(do.kind for rule in entry.rules for do in rule.do if _reaches_others(do.kind))
    if not kinds:
        return f"{name} takes no action that others can notice."
    return f"{name} acts by {', '.join(f'{code(kind)} ({words(_summary(kind))})' for kind in kinds)}."


def _reaches_others(kind: str) -> bool:
    """Return whether an action can change what others notice."""
    return DEFINED[kind].scope != "own" and not DEFINED[kind].idle


def _summary(kind: str) -> str:
    text = DEFINED[kind].summary.removesuffix(".")
    return text[:1].lower() + text[1:]


def _between(scenario: Scenario) -> Iterator[str]:
    """Yield how agents affect each other otherwise."""
    readers = [
        words(entry.name)
        for entry in scenario.agents
        if any("state_of" in one.functions for _, one in expressions_in(entry.rules))
    ]
    if readers:
        yield f"The state variables of agents are read by the rules of {listed(readers)} (`state_of`)."
    shared = [name for name, limit in scenario.limits.items() if limit.global_ or limit.group]
    if shared:
        yield f"Agents compete for the limits that several share: {codes(shared)}."
    if scenario.models is not None and scenario.models.simulated.server is not None:
        yield "Calls of simulated language models compete for the machines of a modelled server."


# -- stochasticity, collectives


def _chance(subject: Subject) -> Iterator[str]:
    chance = chance_of(subject)
    if chance.none and len(subject.variants) < subject.combinations:
        yield "In the combinations that were read, nothing is drawn at random; in the others, that is not known."
        return
    if chance.none:
        yield "Nothing is drawn at random: runs with different seeds differ in nothing but the seed."
        return
    if chance.drawn:
        yield "These are drawn at random, or can be:\n"
        yield from (f"- {what}" for what in chance.drawn)
        yield "\nEach draw follows from the seed, from what it is for, the agent or place, and the simulated time."
    else:
        yield "The rules and settings of the scenario draw nothing."
    if chance.unknown:
        yield "\nIt is not known here:\n"
        yield from (f"- {what}" for what in chance.unknown)
        yield "\n" + by_author("what the code above draws at random")
    if chance.outside:
        yield "\nThese are not drawn, but come from outside of the simulation. The seed does not determine them:\n"
        yield from (f"- {what}" for what in chance.outside)


def _groups(scenario: Scenario) -> Iterator[str]:
    groups: dict[str, dict[str, None]] = {}
    for entry in scenario.agents:
        for group in (entry.group_name, *(() if entry.population is None else sorted(entry.population.groups))):
            groups.setdefault(group, {})[entry.name] = None
    yield from table(("group", "agents"), ((code(group), codes(names)) for group, names in groups.items()))


# -- observation


def observation(scenario: Scenario) -> Iterator[str]:
    """Yield what is measured, and when."""
    if not scenario.metrics.values:
        yield "**Observation.** No values are sampled.\n"
    else:
        every = to_text(scenario.metrics.every)
        yield f"**Observation.** At the start, then every {every}, and at the end, these are sampled:\n"
        values = scenario.metrics.values.items()
        yield from pairs(("measure", "definition"), ((name, value.text) for name, value in values))
    recorded = {
        f"{code(name)} ({words(entry.name)})"
        for entry in scenario.agents
        for rule in entry.rules
        for name in rule.record
    }
    if recorded:
        yield f"Rules record the observations {listed(sorted(recorded))}.\n"
    for one in scenario.interventions:
        if one.survey is not None:
            whom = codes(one.chosen) if one.chosen else "all agents"
            yield f"{when_of(one).capitalize()}, {whom} are asked, without noticing it:\n"
            yield from (f"- {words(question.ask)}" for question in one.survey.questions)
            yield ""
    outcomes = scenario.sections.get("outcomes")
    if outcomes:
        yield f"Outcomes of a run are {codes(outcomes)}; section 7 has their definitions.\n"


def when_of(entry: Scheduled) -> str:
    """Return when an entry of a scenario happens, in words."""
    times = "" if entry.times is None else f", {entry.times} times in all"
    if entry.at == END:
        return "at the end of the run"
    first = "" if entry.at is None else f"from {to_text(int(entry.at))} on, "
    if entry.daily is not None:
        return f"{first}every day at {words(entry.daily)}{times}"
    if entry.cron is not None:
        return f"{first}by the schedule {code(entry.cron)}{times}"
    at = to_text(int(entry.at or 0))
    return f"at {at}" if entry.every is None else f"at {at} and then every {to_text(entry.every)}{times}"

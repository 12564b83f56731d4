"""Chance in a scenario: each place that can draw, and each part of which it is not known whether it draws."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from sim.agents.family import family_for
from sim.agents.toolbox import DRAWS
from sim.archives.odd.subject import OBSERVING, Subject, expressions_in
from sim.archives.odd.text import code, codes, listed, words
from sim.archives.odd.variants import noted
from sim.base.expressions import ExpressionError
from sim.llm.access import INSIDE, Access
from sim.llm.behaviour import Draw
from sim.scenario.models import Models
from sim.scenario.overrides import Override, parse_all
from sim.scenario.values import compile_value, is_expression
from sim.world.action import DEFINED
from sim.world.section import SECTIONS

_IN_SANDBOX: Final = frozenset({"run_python", "run_tests"})
"""The actions of `sim` that run commands, if the operator allows it."""


@attrs.frozen
class Chance:
    """What is random in a scenario.

    Attributes:
        drawn: what is drawn at random, or can be: one phrase each.
        unknown: what code draws that does not say whether it draws: one phrase each.
        outside: what comes from outside of the simulation and is in the record: one phrase each.
    """

    drawn: tuple[str, ...]
    unknown: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def none(self) -> bool:
        """Whether it is known that nothing is random."""
        return not (self.drawn or self.unknown or self.outside)


def chance_of(subject: Subject) -> Chance:
    """Return what is random in a scenario. If it is true of some variants only, a phrase names these."""
    if subject.variants:
        chances, variants = [chance_of(one.subject) for one in subject.variants], subject.variants
        return Chance(
            (*noted(variants, [one.drawn for one in chances]), *_changes(subject)),
            (*noted(variants, [one.unknown for one in chances]), *_further(subject)),
            noted(variants, [one.outside for one in chances]),
        )
    drawn = (
        *_orders(subject),
        *_expressions(subject),
        *_samples(subject),
        *_sections(subject),
        *_models(subject),
        *_changes(subject),
    )
    unknown = (*_unknown(subject), *_further(subject))
    return Chance(tuple(dict.fromkeys(drawn)), unknown, tuple(_outside(subject)))


def _orders(subject: Subject) -> Iterator[str]:
    for pace in subject.paces:
        execution, mode = pace.scenario.execution, f" (mode {words(pace.name)})" if pace.name else ""
        if execution.ties == "shuffled":
            yield f"the order of what happens at one instant{mode}"
        if pace.mode == "tick" and execution.sync is None and execution.tick.order == "shuffled":
            yield f"the order in which agents have their turns, drawn again for each tick{mode}"


def _expressions(subject: Subject) -> Iterator[str]:
    """Yield the places whose expressions draw, each with the functions."""
    functions_by_place: dict[str, dict[str, None]] = {}
    scenario = subject.scenario
    parts = {name: getattr(scenario, name) for name in type(scenario).model_fields if name not in OBSERVING}
    for key, value in parts.items():
        for path, expression in expressions_in(value, "" if key == "sections" else key):
            for name in sorted(expression.functions & DRAWS):
                functions_by_place.setdefault(_place(subject, path), {})[name] = None
    for number, intervention in enumerate(scenario.interventions):
        for key, value in (intervention.set or {}).items():
            for name in sorted(_called(value, texts=_of_state(Override.of(key, value))) & DRAWS):
                where = f"what the intervention {number + 1} sets {code(key)} to"
                functions_by_place.setdefault(where, {})[name] = None
    yield from (f"{place}: {codes(names)}" for place, names in functions_by_place.items())


def _changes(subject: Subject) -> Iterator[str]:
    """Yield the changes during a run whose values are drawn."""
    for change in subject.changes:
        for override in parse_all(change.overrides):
            names = sorted(_called(override.value, texts=True) & DRAWS)
            if names and _of_state(override):  # the variants have the others
                yield f"what {code(override.key)} is set to {change.when}: {codes(names)}"


def _of_state(override: Override) -> bool:
    return override.path[0] == "agents" and override.path[2:3] == ("state",)


def _further(subject: Subject) -> Iterator[str]:
    if subject.more_changes:
        yield f"what the {subject.more_changes:,} changes of the run that are not described draw"


def _called(value: object, *, texts: bool) -> frozenset[str]:
    """Return the functions that a value which is set during a run may call.

    Args:
        value: the value.
        texts: whether a text without `=` stays a text, as in state variables. Otherwise it can be a condition.
    """
    if isinstance(value, dict):
        return frozenset(name for part in value.values() for name in _called(part, texts=texts))
    if isinstance(value, list | tuple):
        return frozenset(name for part in value for name in _called(part, texts=texts))
    if not isinstance(value, str) or (texts and not is_expression(value)):
        return frozenset()
    try:
        return compile_value(value if is_expression(value) else f"={value}").functions
    except ExpressionError:  # a text, and no expression
        return frozenset()


def _place(subject: Subject, path: str) -> str:
    """Return the words for the part of a scenario with an expression, from its path: `agents[0].rules[1].when`."""
    first, _, rest = path.partition(".")
    number = int(first.partition("[")[2].rstrip("]") or 0)
    part = rest.partition(".")[0].partition("[")[0]
    if first.startswith("agents["):
        name = words(subject.scenario.agents[number].name)
        if part == "rules":
            return f"the rules of {name}"
        if part == "state":
            return f"the value at the start of {code(rest.split('.')[1])} of {name}"
        return f"the setting {code(part)} of {name}"
    if first.startswith("interventions["):
        return f"whom the intervention {number + 1} concerns"
    if first == "models":
        return "the scripted answers of language models"
    if first == "places":
        return "what places do in their rules" if part == "rules" else f"{code(part)} of places at the start"
    return f"the part {code(first)}"


def _samples(subject: Subject) -> Iterator[str]:
    for entry in subject.scenario.agents:
        if entry.sample is not None:
            yield f"which rows of {code(entry.table)} the agents {words(entry.name)} are"


def _sections(subject: Subject) -> Iterator[str]:
    for key, settings in subject.scenario.sections.items():
        draws = SECTIONS[key].draws
        yield from () if draws is None else (f"{words(what)} ({code(key)})" for what in draws(settings))
    drawing: dict[str, list[str]] = {}
    for entry in subject.scenario.agents:
        family = family_for(entry)
        for what in () if family is None else family.draws or ():
            drawing.setdefault(what, []).append(words(entry.name))
    yield from (f"{words(what)} ({listed(names)})" for what, names in drawing.items())


# -- models


def providers_of(subject: Subject) -> frozenset[str]:
    """Return the providers whose models can answer."""
    models = subject.scenario.models
    if models is None:
        return frozenset()
    chains = Access(models=subject.models).chains()
    named = {provider for chain in chains.values() for provider, _ in chain}
    return frozenset(named | (set() if "*" in chains else {models.provider}))


def _models(subject: Subject) -> Iterator[str]:
    models = subject.scenario.models
    if models is None:
        return
    providers = providers_of(subject)
    if providers.intersection(INSIDE) and any(rule.choose and len(rule.choose) > 1 for rule in models.rules):
        yield "which of several scripted answers a language model gives"
    if "simulated" in providers:
        yield from _simulated(models)
    if providers.difference(INSIDE) and models.latency is not None and _varies(models.latency.made()):
        yield "how long a call of a language model at an endpoint takes in simulated time"
    for number, fault in enumerate(models.faults, 1):
        if fault.share < 1:
            yield f"which calls of language models the fault {number} ({code(fault.kind)}) affects"
        if fault.kind == "malformed_arguments" or fault.kind == "truncate":
            yield f"where the fault {number} ({code(fault.kind)}) cuts an answer"
    if _can_fail(models, providers):
        yield "a part of the wait before a call of a language model is repeated after a failure"


def _simulated(models: Models) -> Iterator[str]:
    profile = models.simulated.profile()
    varying: Mapping[str, Any] = {
        "the time until an answer begins": profile.first_token,
        "the time for each token of it": profile.per_token,
    }
    if models.simulated.server is None:
        names = [name for name, draw in varying.items() if isinstance(draw, Draw) and _varies(draw)]
        if names:
            yield f"of simulated calls of language models, {listed(names)}"
    if isinstance(profile.output_tokens, Draw) and _varies(profile.output_tokens):
        yield "of simulated calls of language models, the length of an answer"
    if any(0 < failure.share < 1 for failure in profile.failures):
        kinds = codes(failure.kind for failure in profile.failures if failure.share)
        yield f"which simulated calls of language models fail ({kinds})"
    if any(failure.share and _varies(failure.after) for failure in profile.failures):
        yield "the time until a failure of a simulated call of a language model shows"


def _varies(draw: Draw) -> bool:
    """Return whether a distribution has more than one value."""
    if draw.kind == "exponential":
        return draw.a > 0
    return draw.kind != "constant" and draw.a != draw.b


def _can_fail(models: Models, providers: frozenset[str]) -> bool:
    """Return whether a call can fail so that it is repeated: not if all that answers are scripts that never do."""
    scripts = (reply for number, rule in enumerate(models.rules) for reply in rule.made(number).replies)
    return providers != {"scripted"} or bool(models.faults) or any(reply.fail for reply in scripts)


# -- what is not known, and what comes from outside


def _unknown(subject: Subject) -> Iterator[str]:
    for entry in subject.scenario.agents:
        family = family_for(entry)
        if family is None or family.draws is None:
            yield f"what the code of {words(entry.name)} ({code(entry.kind)}) draws"
    kinds = {do.kind for entry in subject.scenario.agents for rule in entry.rules for do in rule.do}
    for kind in sorted(kinds):
        if DEFINED[kind].draws is not False:
            declared = ", which declares that it draws random numbers" if DEFINED[kind].draws else ""
            yield f"what is drawn by the code of the action {code(kind)}{declared}"
    for key in subject.scenario.sections:
        if SECTIONS[key].draws is None:
            yield f"what the code of the part {code(key)} draws"
    places = subject.scenario.places
    if places is not None and places.graph is not None and ":" in places.graph:
        yield f"how the code of {code(places.graph)} makes the graph of places"


def _outside(subject: Subject) -> Iterator[str]:
    yield from data_from_outside(subject)
    if subject.scenario.execution.clock == "wall":
        yield "the pace of real time, which the simulated time follows"


def data_from_outside(subject: Subject) -> Iterator[str]:
    """Yield the data that comes from outside of the simulation and is in the record: one phrase each."""
    scenario = subject.scenario
    providers = sorted(providers_of(subject).difference(INSIDE))
    if providers:
        measured = scenario.models is not None and scenario.models.latency is None
        yield f"answers of language models at {listed(map(code, providers))}" + (" and their time" if measured else "")
    approvals = scenario.sections.get("approvals")
    if approvals is not None and approvals.person == "real":
        yield "the decisions of a person who approves calls"
    tools = scenario.sections.get("tools")
    servers = getattr(tools, "servers", None)
    if servers:
        yield f"the answers of the MCP servers {codes(servers)}"
    acts = {one.kind for entry in scenario.agents if (family := family_for(entry)) for one in family.actions}
    if getattr(tools, "commands", None) or acts & _IN_SANDBOX:
        yield "the output of commands in a sandbox, where the operator allows them"

"""What cannot happen in a scenario: it is valid, but probably not what its author meant.

`sim check` and each run report it. It is no error: a run may end earlier than the file says, and a branch later.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from sim.agents.toolbox import DRAWS
from sim.base.errors import Problem
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError, did_you_mean
from sim.events.topic import COMPLETE_TOPICS, OWN_TOPICS, OWN_WORDS, matches
from sim.kernel.calendar import Calendar
from sim.kernel.duration import MAX_NS, to_ns, to_text
from sim.scenario.named import names_without_effect
from sim.scenario.schedule import END
from sim.scenario.schema import Rule, Scenario
from sim.scenario.symbols import actions_of, items, mapping, sleep_topics
from sim.scenario.values import is_expression
from sim.scenario.yaml_tree import Map, Mark
from sim.world.action import DEFINED
from sim.world.calendar import CalendarSettings

_BEGINS: Final = re.compile(r"=\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")\s*\+")
"""An expression that begins with a text, such as `='hit.' + me`."""

Finding = tuple[Mark, str, str | None]


def never_happens(scenario: Scenario, until_ns: int | None = None) -> list[Problem]:
    """Return what cannot happen in a scenario, in the order of the file.

    Args:
        scenario: a scenario that was loaded from a file or text; of another one nothing is known.
        until_ns: the end of the run in simulated nanoseconds; None: as in the file.
    """
    tree = scenario._tree
    if tree is None:
        return []
    end = scenario.end_ns if until_ns is None else until_ns
    civil = scenario.sections.get("calendar")
    calendar = civil.calendar if isinstance(civil, CalendarSettings) else None
    findings = [
        *_too_late(scenario, tree, end, calendar),
        *_too_late_to_matter(scenario, tree, end),
        *_never_spawned(scenario, tree),
        *_behind(scenario, tree),
        *_never_published(scenario, tree),
        *_never_published_by_sim(scenario, tree),
        *names_without_effect(scenario, tree),
    ]
    problems = [mark.problem(message, hint) for mark, message, hint in findings]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


# -- what is due too late


def _too_late(scenario: Scenario, tree: Map, end: int, calendar: Calendar | None) -> Iterator[Finding]:
    """Yield events and interventions whose first time is not before the end."""
    if end == MAX_NS:
        return
    for key, entries in (("events", scenario.events), ("interventions", scenario.interventions)):
        for number, (entry, raw) in enumerate(zip(entries, items(tree, key), strict=True)):
            if entry.at == END:
                continue
            first = entry.after(-1, calendar)
            if first is not None and first < end:
                continue
            verb = "publish" if key == "events" else entry.verb  # type: ignore[attr-defined]
            what = {"publish": "is never published", "survey": "is never asked"}.get(verb, "is never done")
            when = "it has no time" if first is None else f"it is first due at {to_text(first)}"
            mark = _mark(raw, next((name for name in ("at", "daily", "cron") if name in raw), "topic"))
            yield (
                mark,
                f"{key}[{number}] {what}: {when}, and the run ends at {to_text(end)}",
                "what is due at the end does not happen any more; `at: end` is done when the run has ended",
            )


def _too_late_to_matter(scenario: Scenario, tree: Map, end: int) -> Iterator[Finding]:
    """Yield agents that start too late or are never made, and a stop condition that is checked at the start only."""
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        start = entry.start.raw if entry.start.constant else 0
        if not entry.template and to_ns(start) >= end:
            when = f"it starts at {to_text(to_ns(start))}, and the run ends at {to_text(end)}"
            yield _mark(raw, "start"), f"agents[{number}] never acts: {when}", None
    every = scenario.metrics.every
    if scenario.stop is not None and every >= end:
        message = f"stop.when is checked at the start only: every {to_text(every)}, and the run ends at {to_text(end)}"
        yield _mark(mapping(tree, "stop"), "when"), message, "it is checked with the metrics: set metrics.every"


def _never_spawned(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield templates that no rule spawns, if all agents follow rules."""
    if any(entry.kind != "policy" for entry in scenario.agents):
        return
    spawned = set[str]()
    for _, rule in _rules(tree):
        for kind, arguments in actions_of(rule):
            if not DEFINED[kind].apply.__module__.startswith("sim.") or kind in ("use_tool", "ask"):
                return
            name = arguments.get("agent") if kind == "spawn" and isinstance(arguments, dict) else None
            if is_expression(name):
                return
            spawned.add(str(name))
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        if entry.template and entry.name not in spawned:
            message = f"agents[{number}] is never created: it is a template, and no rule spawns {entry.name!r}"
            yield _mark(raw, "template"), message, "spawn it, or leave out `template`"


# -- rules


def _behind(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield rules that are never chosen, because of their condition or of a rule before them."""
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        keeps = entry.loop.over(scenario.execution.agent_loop).unmatched == "keep"
        always: int | None = None
        before: dict[str, int] = {}
        for place, (rule, content) in enumerate(zip(entry.rules, items(raw, "rules"), strict=True)):
            where, text, truth = f"agents[{number}].rules[{place}]", rule.when.text.strip(), _truth(rule.when)
            mark = content.mark if isinstance(content, Map) else _mark(raw, "rules")
            if always is not None:
                why = f"rules[{always}] before it applies in every iteration"
                yield mark, f"{where} is never chosen: {why}", "put it before that rule, or give that rule a `when`"
            elif truth is False:
                yield _mark(content, "when"), f"{where} is never chosen: its condition is never true", None
            elif text in before and not rule.let and _is_same(rule.when):
                why = f"rules[{before[text]}] before it has the same condition"
                yield mark, f"{where} is never chosen: {why}", "the first rule whose condition is true is chosen"
            if truth and always is None:
                always = place
            if not rule.let and (keeps or not _may_read(rule)):
                before.setdefault(text, place)


def _may_read(rule: Rule) -> bool:
    """Return whether a rule may read messages.

    Where what is not read is dropped, such a rule may have refused the messages that wait before its condition became
    true, and a rule behind it with the same condition is chosen.
    """
    values = [*rule.set.values(), *rule.record.values(), *(value for do in rule.do for value in do.arguments.values())]
    sleeps = any(do.sleep is not None for do in rule.do)
    return sleeps or "message" in rule.when.names or any("message" in value.names for value in values)


def _is_same(condition: Expression) -> bool:
    """Return whether a condition is the same for two rules of one iteration that have it.

    Draws differ. So does `messages`, if one of the rules reads a message, which does not count, and the other does not.
    """
    return not condition.functions & DRAWS and ("message" in condition.names or "messages" not in condition.names)


def _truth(condition: Expression) -> bool | None:
    """Return whether a condition is always true or always false; None if that depends on something."""
    if condition.names or condition.functions - set(PURE_FUNCTIONS):
        return None
    try:
        return bool(condition.evaluate({}, PURE_FUNCTIONS))
    except ExpressionError:
        return None


# -- topics


def _never_published(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield patterns of topics that no event can have, if the file says all topics that are published."""
    published = _published(scenario, tree)
    if published is None:
        return
    exact, beginnings = published
    for mark, where, pattern in awaited(scenario, tree):
        if _by_simulation(pattern) or any(matches(pattern, topic) for topic in exact):
            continue
        if any(_may_match(pattern, beginning) for beginning in beginnings):
            continue
        message = f"{where}: nothing in this file publishes the topic {pattern!r}"
        yield mark, message, did_you_mean(pattern, exact) or "publish it, by a rule, in `events` or from outside"


def _never_published_by_sim(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield patterns of topics of chats, conversations and executors that these do not publish."""
    words = {topic.partition(".")[0] for topic in COMPLETE_TOPICS}
    for mark, where, pattern in awaited(scenario, tree):
        if pattern.partition(".")[0] in words and not any(matches(pattern, topic) for topic in COMPLETE_TOPICS):
            message = f"{where}: the simulation publishes nothing under the topic {pattern!r}"
            yield mark, message, did_you_mean(pattern, COMPLETE_TOPICS)


def _published(scenario: Scenario, tree: Map) -> tuple[list[str], list[str]] | None:
    """Return the topics that the file publishes, and the beginnings of those that are evaluated; None if unknown.

    They are unknown if agents have code, if tools may publish, or if a topic is evaluated as a whole.
    """
    if any(entry.kind != "policy" for entry in scenario.agents) or scenario.sections.get("tools") is not None:
        return None
    topics: list[Any] = [event.topic for event in scenario.events]
    topics += [one.publish.topic for one in scenario.interventions if one.publish is not None]
    for _, rule in _rules(tree):
        for kind, arguments in actions_of(rule):
            if kind in ("use_tool", "ask") or not DEFINED[kind].apply.__module__.startswith("sim."):
                return None
            if kind == "publish":
                topics.append(arguments.get("topic") if isinstance(arguments, dict) else None)
    exact, beginnings = list[str](), list[str]()
    for topic in topics:
        begins = _BEGINS.match(topic) if is_expression(topic) else None
        if begins is not None:
            beginnings.append(begins[1] or begins[2] or "")
        elif is_expression(topic) or not isinstance(topic, str):
            return None
        else:
            exact.append(topic)
    return exact, beginnings


def awaited(scenario: Scenario, tree: Map) -> Iterator[tuple[Mark, str, str]]:
    """Yield the patterns that a file waits for or counts: the position, the place, and the pattern.

    Args:
        scenario: a scenario that was loaded from a file or text.
        tree: the tree of it.
    """
    for number, entry in enumerate(items(tree, "agents")):
        for pattern in scenario.agents[number].subscribe:
            yield _mark(entry, "subscribe"), f"agents[{number}].subscribe", pattern
    for where, rule in _rules(tree):
        for kind, arguments in actions_of(rule):
            named_arguments = arguments if isinstance(arguments, dict) else {}
            for awaited in sleep_topics(named_arguments) if kind == "sleep" else [named_arguments.get("or_event")]:
                if isinstance(awaited, str) and not is_expression(awaited):
                    yield _mark(rule, "do"), f"{where}.do.{kind}", awaited
    values = mapping(mapping(tree, "metrics"), "values")
    expressions = [(_mark(values, name), f"metrics.values.{name}", e) for name, e in scenario.metrics.values.items()]
    if scenario.stop is not None:
        expressions.append((_mark(mapping(tree, "stop"), "when"), "stop.when", scenario.stop.when))
    for mark, where, expression in expressions:
        for literal in expression.literals:
            if literal.function == "published" and literal.position == 0:
                yield mark, where, literal.text


def _rules(tree: Map) -> Iterator[tuple[str, Map]]:
    for number, entry in enumerate(items(tree, "agents")):
        for place, rule in enumerate(items(entry, "rules")):
            if isinstance(rule, Map):
                yield f"agents[{number}].rules[{place}]", rule


def _by_simulation(pattern: str) -> bool:
    """Return whether the simulation itself may publish under a pattern."""
    first = pattern.partition(".")[0]
    return first in ("*", "**") or first in OWN_WORDS or any(matches(pattern, topic) for topic in OWN_TOPICS)


def _may_match(pattern: str, beginning: str) -> bool:
    """Return whether a topic with this beginning can match a pattern."""
    fixed = pattern.partition("*")[0]
    return fixed.startswith(beginning) or (beginning.startswith(fixed) and fixed != pattern)


def _mark(part: Any, key: str) -> Mark:
    assert isinstance(part, Map), "it was read from a file"
    return part.values_at.get(key, part.mark)

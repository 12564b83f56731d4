"""What the description of a run or an experiment is about: its scenario in all variants that were run.

No code of agents is run to describe them. A scenario that cannot be checked without is described by its author.
"""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.archives.odd import VARIED, LiveChange, Pace, Subject, Variant, odd_description, without_scenario
from sim.archives.software import MODULES, Software
from sim.base.errors import UsageError
from sim.experiments.modes import modes_of
from sim.experiments.plan import Plan
from sim.experiments.points import MODE, Point, overrides_of
from sim.kernel import to_ns, to_text
from sim.kernel.codec import decode
from sim.record import StoredRun, open_run
from sim.record.files import SCENARIO
from sim.scenario import Scenario, load
from sim.scenario.fields import plain
from sim.scenario.live_changes import read_changes
from sim.scenario.loading import loads
from sim.scenario.overrides import Override, apply_overrides, parse_all, value_text

_MOST_POINTS: Final = 100  # combinations whose scenario is read
_MOST_VALUES: Final = 10  # of a key, where its value is shown
_NAMES: Final = ("name", "id", "topic")  # the keys by which paths find items of lists


def odd_of_run(stored: StoredRun, text: str, software: Software) -> str:
    """Return the description of the model of a run, with all that its options and changes during the run changed."""
    try:
        return odd_description(_subject_of_run(stored, text, software))
    except UsageError as error:
        return without_scenario(stored.info.name, text, str(error))


def odd_of_plan(plan: Plan, text: str, software: Software) -> str:
    """Return the description of the model of an experiment, in all of its combinations, modes or arms."""
    try:
        if plan.past is not None:
            with open_run(plan.past.run, verify=False) as stored:
                return odd_description(_subject_of_arms(plan, stored, text, software))
        return odd_description(_subject_of_sweep(plan, text, software))
    except UsageError as error:
        return without_scenario(plan.name, text, str(error))


# -- a run, and what changes during it


@attrs.frozen
class _Change:
    """What an input from outside changed at a time."""

    at_ns: int
    overrides: tuple[str, ...]
    seed: int | None = None
    models: tuple[str, ...] = ()

    def told(self, when: str) -> LiveChange:
        others = [f"the seed becomes {self.seed}"] if self.seed is not None else []
        others += [f"the language models become {', '.join(self.models)}"] if self.models else []
        return LiveChange(when, self.overrides, tuple(others))


def _changes_of(stored: StoredRun) -> Iterator[_Change]:
    """Yield what branches, and people outside, changed during a run, in order."""
    rows = stored.query("SELECT time_ns, kind, data FROM inputs WHERE kind IN ('branch', 'parameters') ORDER BY id")
    for at_ns, kind, data in rows:
        given: Mapping[str, Any] = decode(data.encode() if isinstance(data, str) else data)
        if kind == "branch":
            # it is the last input before the time of the branch, one nanosecond earlier
            yield _Change(at_ns + 1, tuple(given["set"]), given["seed"], tuple(given.get("model", ())))
        else:
            yield _Change(at_ns, tuple(f"{key}={value_text(value)}" for key, value in given["set"].items()))


@attrs.frozen
class _Past:
    """The subjects of a run up to a time, from its beginning on.

    Attributes:
        first: that of the beginning.
        later: that of each change, from that time on, with the time.
        changes: what changes.
        live: the overrides by which the last subject differs from the scenario at the beginning.
    """

    first: Subject
    later: tuple[tuple[int, Subject], ...]
    changes: tuple[_Change, ...]
    live: tuple[Override, ...]


def _past_of(stored: StoredRun, text: str, software: Software, until_ns: int | None, until: str | None) -> _Past:
    info, given = stored.info, stored.info.options
    keys = {"until": "until", "clock": "execution.clock", "speed": "execution.speed"}
    options = {**given, **({} if until is None else {"until": until})}
    chosen = tuple(f"{key}={options[name]}" for name, key in keys.items() if options.get(name) is not None)
    overrides = (*given.get("set", ()), *chosen)
    mode: Any = "tick" if info.mode == "tick" else "autonomous"
    facts = {"seed": info.seed, "mode": info.mode}
    if info.origin is not None:
        facts["branch of the run"] = f"{info.origin['run']}, at {to_text(int(info.origin['at_ns']))}"
        if info.origin["at_ns"] == 0 and info.origin.get("seed") is not None:
            facts["seed"] = info.origin["seed"]
    scenario = loads(text, str(stored.path / SCENARIO), overrides)
    first = Subject(
        scenario=scenario, text=text, paces=(Pace(mode, scenario),), overrides=overrides, facts=facts,
        models=tuple(given.get("model") or ()), sources=_sources(software),
    )  # fmt: skip
    live: tuple[Override, ...] = ()
    later, made, present = [], [], first
    for change in _changes_of(stored):
        if until_ns is not None and change.at_ns >= until_ns:
            break
        try:
            live = (*live, *read_changes(scenario, parse_all(change.overrides)).others)
            changed = scenario.source.load(live) if live else scenario
        except UsageError:  # it was refused in the run as well
            continue
        present = _changed(present, changed, change.models)
        later.append((change.at_ns, present))
        made.append(change)
    return _Past(first, tuple(later), tuple(made), live)


def _changed(subject: Subject, scenario: Scenario, models: tuple[str, ...]) -> Subject:
    """Return a subject with another scenario, and other models if there are any."""
    paces = tuple(attrs.evolve(pace, scenario=scenario) for pace in subject.paces)
    return attrs.evolve(subject, scenario=scenario, paces=paces, models=models or subject.models, tree=_tree(scenario))


def _subject_of_run(stored: StoredRun, text: str, software: Software) -> Subject:
    past = _past_of(stored, text, software, None, None)
    if not past.changes:
        return past.first
    changes = tuple(one.told(f"at {to_text(one.at_ns)}") for one in past.changes)
    return attrs.evolve(past.first, variants=tuple(_periods(past)), changes=changes)


def _periods(past: _Past, last: str = "") -> Iterator[Variant]:
    """Yield a variant for each part of a run between changes.

    Args:
        past: the parts.
        last: the end of the last one, in words; empty: that of the run.
    """
    times = [*(to_text(at) for at, _ in past.later), last]
    yield Variant(past.first, when=f"until {times[0]}" if times[0] else "from the start on")
    for number, (at, subject) in enumerate(past.later, 1):
        end = f" until {times[number]}" if times[number] else " on"
        yield Variant(subject, when=f"from {to_text(at)}{end}", from_start=False)


def _subject_of_arms(plan: Plan, stored: StoredRun, text: str, software: Software) -> Subject:
    """Return the subject of arms: the run that all begin from, and the changes of each arm from its time on."""
    assert plan.past is not None, "see odd_of_plan"
    at, at_ns = plan.past.at, to_ns(plan.past.at)
    past = _past_of(stored, text, software, at_ns, plan.until)
    first = past.first
    facts = {"seed of the run from which the arms begin": first.facts["seed"], "time at which they begin": at}
    facts |= {"seeds of each arm": f"{plan.seeds[1]} from {plan.seeds[0]} on", "mode": first.facts["mode"]}
    first = attrs.evolve(first, facts=facts)
    changes = [one.told(f"at {to_text(one.at_ns)}") for one in past.changes]
    variants = list(_periods(attrs.evolve(past, first=first), at)) if at_ns else []
    last = past.later[-1][1] if past.later else first
    for name, point in zip(plan.arms, plan.points, strict=True):
        overrides = overrides_of(point)
        changes.append(LiveChange(f"at {at}, in the arm {name}", overrides))
        if at_ns:
            others = read_changes(last.scenario, parse_all(overrides)).others
            changed = last.scenario if not others else first.scenario.source.load((*past.live, *others))
            when = f"from {at} on in the arm {name}"
        else:
            changed = loads(text, str(stored.path / SCENARIO), (*first.overrides, *overrides))
            when = f"in the arm {name}"
        variants.append(Variant(_changed(last, changed, plan.models), when=when, from_start=not at_ns))
    return attrs.evolve(first, variants=tuple(variants), changes=tuple(changes))


# -- a sweep or a bench


def _subject_of_sweep(plan: Plan, text: str, software: Software) -> Subject:
    chosen = () if plan.until is None else (f"until={plan.until}",)
    overrides = (*plan.overrides, *chosen)
    scenario = load(plan.file, overrides)  # without `allow`: no code of agents is run to describe it
    first = Subject(
        scenario=scenario, text=text, paces=_paces(plan, scenario, overrides), overrides=overrides,
        facts=_facts(plan), models=plan.models, sources=_sources(software),
    )  # fmt: skip
    unique = {overrides_of(point): {k: v for k, v in point.items() if k != MODE} for point in plan.points}
    points = list(unique.values())
    if points == [{}]:
        return first
    texts, variants = _texts(points), []
    for point in _covering(points):
        changes = (*plan.overrides, *overrides_of(point), *chosen)
        with contextlib.suppress(UsageError):  # a combination that is not valid; its trials failed
            varied = load(plan.file, changes)
            made = attrs.evolve(
                first, scenario=varied, paces=_paces(plan, varied, changes), tree=_tree(varied, texts)
            )  # fmt: skip
            variants.append(Variant(made, point=point))
    return attrs.evolve(first, variants=tuple(variants), combinations=len(points))


def _paces(plan: Plan, scenario: Scenario, overrides: Sequence[str]) -> tuple[Pace, ...]:
    """Return how a scenario of an experiment was run: in its mode, or in those that are compared."""
    if plan.bench is None:
        autonomous = scenario.execution.use_autonomous_loops and plan.mode != "tick"
        return (Pace(plan.mode or ("autonomous" if autonomous else "tick"), scenario),)
    paces = []
    for mode in modes_of(tuple(plan.bench.modes)):
        run_mode, changes = mode.settings(synchronised=scenario.execution.sync is not None)
        with contextlib.suppress(UsageError):  # a mode that cannot run the scenario; the table of the bench says so
            paces.append(Pace(run_mode, load(plan.file, (*overrides, *changes)), mode.name))
    return tuple(paces)


def _covering(points: Sequence[Point]) -> Sequence[Point]:
    """Return points that have as many values of each key as possible: all of them, unless they are many."""
    if len(points) <= _MOST_POINTS:
        return points
    seen: set[tuple[str, str]] = set()
    first: list[Point] = []
    others: list[Point] = []
    for point in points:
        (others if seen.issuperset(point.items()) else first).append(point)
        seen.update(point.items())
    return (first + others)[:_MOST_POINTS]


def _texts(points: Sequence[Point]) -> dict[str, str]:
    """Return what is shown in place of the value of each varied key that is a single value."""
    found = {}
    for key in points[0]:
        values = list(dict.fromkeys(point[key] for point in points))
        single = not any(isinstance(one.value, dict | list) for one in parse_all(f"{key}={value}" for value in values))
        if single and key.rpartition(".")[2] not in _NAMES:
            left = len(values) - _MOST_VALUES
            found[key] = VARIED + ", ".join(values[:_MOST_VALUES]) + (f", and {left:,} more" if left > 0 else "")
    return found


def _tree(scenario: Scenario, texts: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a scenario as it is written, with texts in place of some values."""
    tree = copy.deepcopy(scenario._tree)
    if texts and tree is not None:
        apply_overrides(tree, [Override.of(key, value) for key, value in texts.items()])
    found: dict[str, Any] = plain(tree)
    return found


def _sources(software: Software) -> dict[str, bytes]:
    """Return the packed modules of agents, by path."""
    return {path.removeprefix(MODULES): text for path, text in software.files.items() if path.startswith(MODULES)}


def _facts(plan: Plan) -> dict[str, Any]:
    facts: dict[str, Any] = {"seeds": f"{plan.seeds[1]} from {plan.seeds[0]} on, for each combination"}
    facts |= {f"{VARIED}{key.partition('=')[0]}": key.partition("=")[2] for key in plan.vary}
    return facts | {"design": plan.design, "mode": plan.mode or ", ".join(plan.bench.modes if plan.bench else ())}

"""What the description of a run or an experiment is about: its scenario in all variants that were run.

No code of agents is run to describe them. A scenario that cannot be checked without is described by its author.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from sim.archives.odd import LiveChange, Pace, Subject, Variant, odd_description, without_scenario
from sim.archives.software import MODULES, Software
from sim.base.errors import UsageError
from sim.experiments.modes import modes_of
from sim.experiments.plan import Plan
from sim.experiments.points import MODE, Point, label_of, overrides_of
from sim.kernel import to_ns, to_text
from sim.kernel.codec import Json
from sim.record import StoredRun, open_run
from sim.record.files import SCENARIO
from sim.record.summary import edited
from sim.runner.origin import Origin
from sim.runner.recorded import RecordedChange, changes_of
from sim.scenario import Scenario, load
from sim.scenario.fields import plain
from sim.scenario.live_changes import merged, read_changes
from sim.scenario.loading import loads
from sim.scenario.overrides import Override, apply_overrides, parse_all

_MOST_POINTS: Final = 100  # combinations whose scenario is read
_MOST_CHANGES: Final = 100  # changes during a run that are described, each with a scenario that may have to be read
_MOST_VALUES: Final = 10  # of a key, where its value is shown
_NAMES: Final = ("name", "id", "topic")  # the keys by which paths find items of lists
_VARIED: Final = "varied: "


class _UncheckedError(Exception):
    """A scenario cannot be checked here; the text is the reason."""


def _checked(make: Callable[[], Scenario]) -> Scenario:
    """Return a scenario that is loaded.

    Raises:
        _UncheckedError: if it is not valid here, or needs code that is not run to describe it.
    """
    try:
        return make()
    except UsageError as error:
        raise _UncheckedError(str(error)) from error


def odd_of_run(stored: StoredRun, text: str, software: Software) -> str:
    """Return the description of the model of a run, with all that its options and changes during the run changed."""
    try:
        return odd_description(_subject_of_run(stored, text, software))
    except _UncheckedError as error:
        return without_scenario(stored.info.name, text, str(error))


def odd_of_plan(plan: Plan, text: str, software: Software) -> str:
    """Return the description of the model of an experiment, in all of its combinations, modes or arms."""
    try:
        if plan.past is not None:
            with open_run(plan.past.run, verify=False) as stored:
                return odd_description(_subject_of_arms(plan, stored, text, software))
        return odd_description(_subject_of_sweep(plan, text, software))
    except _UncheckedError as error:
        return without_scenario(plan.name, text, str(error))


# -- a run, and what changes during it


@attrs.define
class _Past:
    """The subjects of a run up to a time, from its beginning on.

    Attributes:
        first: that of the beginning.
        later: that of each change of more than state, from that time (nanoseconds) on.
        changes: what changes, as far as it is described.
        more_changes: how many further changes there are.
        undescribed_ns: the time of the first of them.
        live: all changes of other values than state so far.
        models: the language models now; empty: those of the beginning.
    """

    first: Subject
    later: list[tuple[int, Subject]] = attrs.field(factory=list)
    changes: list[LiveChange] = attrs.field(factory=list)
    more_changes: int = 0
    undescribed_ns: int | None = None
    live: tuple[Override, ...] = ()
    models: tuple[str, ...] = ()
    _scenarios: dict[tuple[tuple[str, str], ...], Scenario] = attrs.field(factory=dict)

    def add(self, made: RecordedChange) -> None:
        """Add a change. One that cannot be checked here is named with the reason, and its effect is not described."""
        described, change, before = len(self.changes) < _MOST_CHANGES, made.change, self.live
        notes = [] if made.by_branch else ["requested from outside; whether it was refused is not in the record"]
        try:
            self.live = merged(before, read_changes(self.first.scenario, parse_all(change.overrides)).others)
            if described:
                self.scenario(self.live)
        except UsageError as error:
            self.live = before
            notes.append(f"its effect is not described, because it cannot be checked here: {error}")
        self.models = change.models or self.models
        if not described:
            self.more_changes += 1
            self.undescribed_ns = made.at_ns if self.undescribed_ns is None else self.undescribed_ns
            return
        if self.live != before or change.models:
            self.later.append((made.at_ns, self.last()))
        words = [f"the seed becomes {change.seed}"] if change.seed is not None else []
        words += [f"the language models become {', '.join(change.models)}"] if change.models else []
        self.changes.append(LiveChange(f"at {to_text(made.at_ns)}", change.overrides, tuple(words), "; ".join(notes)))

    def last(self) -> Subject:
        """Return the subject after all changes.

        Raises:
            _UncheckedError: if its scenario cannot be checked here.
        """
        return _changed(self.first, _checked(partial(self.scenario, self.live)), self.models)

    def scenario(self, live: tuple[Override, ...]) -> Scenario:
        """Return the scenario with changes, which is loaded once: changes can alternate."""
        if not live:
            return self.first.scenario
        key = tuple((one.key, repr(one.value)) for one in live)
        if key not in self._scenarios:
            self._scenarios[key] = self.first.scenario.source.load(live)
        return self._scenarios[key]


def _past_of(stored: StoredRun, text: str, software: Software, until_ns: int | None, until: str | None) -> _Past:
    info, recorded = stored.info, stored.info.options
    keys = {"until": "until", "clock": "execution.clock", "speed": "execution.speed"}
    options = {**recorded, **({} if until is None else {"until": until})}
    chosen = tuple(f"{key}={options[name]}" for name, key in keys.items() if options.get(name) is not None)
    overrides = (*recorded.get("set", ()), *chosen)
    facts: dict[str, Json] = {"seed": info.seed, "mode": info.mode}
    if info.origin is not None:
        origin = Origin.from_json(info.origin)
        facts["branch of the run"] = f"{origin.run}, at {to_text(origin.at_ns)}"
        facts |= {f"events {name}": text for name, text in edited(info.options)}
        if origin.at_ns == 0 and origin.seed is not None:
            facts["seed"] = origin.seed
    scenario = _checked(lambda: loads(text, str(stored.path / SCENARIO), overrides))
    past = _Past(
        Subject(
            scenario=scenario,
            text=text,
            paces=(Pace(info.run_mode, scenario),),
            overrides=overrides,
            facts=facts,
            models=tuple(recorded.get("model") or ()),
            sources=_sources(software),
        )
    )
    for change in changes_of(stored):
        if until_ns is None or change.at_ns < until_ns:
            past.add(change)
    return past


def _changed(subject: Subject, scenario: Scenario, models: tuple[str, ...]) -> Subject:
    """Return a subject with another scenario, and other models if there are any."""
    paces = tuple(attrs.evolve(pace, scenario=scenario) for pace in subject.paces)
    return attrs.evolve(subject, scenario=scenario, paces=paces, models=models or subject.models, tree=_tree(scenario))


def _subject_of_run(stored: StoredRun, text: str, software: Software) -> Subject:
    past = _past_of(stored, text, software, None, None)
    variants = tuple(_periods(past)) if past.later else ()
    changes = tuple(past.changes)
    return attrs.evolve(past.first, variants=variants, changes=changes, more_changes=past.more_changes)


def _periods(past: _Past, last: str = "") -> Iterator[Variant]:
    """Yield a variant for each part of a run between changes.

    Args:
        past: the parts.
        last: the end of the last one, in words; empty: that of the run.
    """
    end = last if past.undescribed_ns is None else to_text(past.undescribed_ns)
    times = [*(to_text(at) for at, _ in past.later), end]
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
    facts |= {"seeds": plan.seeds_text, "mode": first.facts["mode"]}
    first = past.first = attrs.evolve(first, facts=facts)
    changes, last = list(past.changes), past.last()
    variants = list(_periods(past, at)) if at_ns else []
    for name, point in zip(plan.arms, plan.points, strict=True):
        overrides = overrides_of(point)
        changes.append(LiveChange(f"at {at}, in the arm {name}", overrides))
        if at_ns:
            others = read_changes(first.scenario, parse_all(overrides)).others
            changed = _checked(partial(past.scenario, merged(past.live, others)))
            when = f"from {at} on in the arm {name}"
        else:
            changed = _checked(partial(loads, text, str(stored.path / SCENARIO), (*first.overrides, *overrides)))
            when = f"in the arm {name}"
        variants.append(Variant(_changed(last, changed, plan.models), when=when, from_start=not at_ns))
    more = past.more_changes
    return attrs.evolve(first, variants=tuple(variants), changes=tuple(changes), more_changes=more)


# -- a sweep or a bench


def _subject_of_sweep(plan: Plan, text: str, software: Software) -> Subject:
    chosen = () if plan.until is None else (f"until={plan.until}",)
    overrides, unchecked = (*plan.overrides, *chosen), list[str]()
    scenario = _checked(lambda: load(plan.file, overrides))  # without `allow`: no code of agents is run to describe it
    first = Subject(
        scenario=scenario,
        text=text,
        paces=_paces(plan, scenario, overrides, unchecked),
        overrides=overrides,
        facts=_facts(plan),
        models=plan.models,
        sources=_sources(software),
    )
    unique = {overrides_of(point): {k: v for k, v in point.items() if k != MODE} for point in plan.points}
    points = list(unique.values())
    if not any(points):
        return attrs.evolve(first, unchecked=tuple(unchecked))
    texts, variants = _texts(points), []
    for point in _covering(points):
        changes = (*plan.overrides, *overrides_of(point), *chosen)
        try:
            varied = _checked(partial(load, plan.file, changes))
        except _UncheckedError as error:
            unchecked.append(f"the combination {label_of(point)}: {error}")
            continue
        paces = _paces(plan, varied, changes, unchecked)
        variants.append(Variant(attrs.evolve(first, scenario=varied, paces=paces, tree=_tree(varied, texts)), point))
    reasons = tuple(dict.fromkeys(unchecked))
    return attrs.evolve(first, variants=tuple(variants), combinations=len(points), unchecked=reasons)


def _paces(plan: Plan, scenario: Scenario, overrides: Sequence[str], unchecked: list[str]) -> tuple[Pace, ...]:
    """Return how a scenario of an experiment was run: in its mode, or in those that are compared.

    Args:
        plan: the plan.
        scenario: the scenario.
        overrides: the changes that it has.
        unchecked: gets the modes whose scenario cannot be checked, each with the reason.
    """
    if plan.bench is None:
        assert plan.mode is not None, "the plan was checked"
        return (Pace(plan.mode, scenario),)
    paces = []
    for mode in modes_of(tuple(plan.bench.modes)):
        run_mode, changes = mode.settings(synchronised=scenario.execution.sync is not None)
        try:
            changed = _checked(partial(load, plan.file, (*overrides, *changes)))
        except _UncheckedError as error:
            unchecked.append(f"the mode {mode.name}: {error}")
        else:
            paces.append(Pace(run_mode, changed, mode.name))
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
    texts = {}
    for key in points[0]:
        values = list(dict.fromkeys(point[key] for point in points))
        single = not any(isinstance(one.value, dict | list) for one in parse_all(f"{key}={value}" for value in values))
        if single and key.rpartition(".")[2] not in _NAMES:
            left = len(values) - _MOST_VALUES
            texts[key] = _VARIED + ", ".join(values[:_MOST_VALUES]) + (f", and {left:,} more" if left > 0 else "")
    return texts


def _tree(scenario: Scenario, texts: Mapping[str, str] | None = None) -> dict[str, Json]:
    """Return a scenario as it is written, with texts in place of some values."""
    tree = copy.deepcopy(scenario._tree)
    if texts and tree is not None:
        apply_overrides(tree, [Override.of(key, value) for key, value in texts.items()])
    written: dict[str, Json] = plain(tree)
    return written


def _sources(software: Software) -> dict[str, bytes]:
    """Return the packed modules of agents, by path."""
    return {path.removeprefix(MODULES): text for path, text in software.files.items() if path.startswith(MODULES)}


def _facts(plan: Plan) -> dict[str, Json]:
    """Return what is known of an experiment: what it varies, in which design, with which seeds, in which modes."""
    varied = dict(text.partition("=")[::2] for text in plan.vary)
    named = {key for keys in varied for key in keys.split(",")}
    listed = dict.fromkeys(key for point in plan.points[:1] for key in point if key != MODE and key not in named)
    facts: dict[str, Json] = {"seeds": plan.seeds_text}
    facts |= {f"{_VARIED}{key}": values for key, values in varied.items()}
    facts |= {f"{_VARIED}{key}": "in a list of combinations" for key in listed}
    if plan.fit is not None:
        fit = plan.fit
        facts |= {"fitted to": ", ".join(one.name for one in fit.targets), "loss": fit.loss}
        facts |= {"sampler": f"{fit.sampler}, of Optuna {fit.version}"}
        facts |= {"candidates": f"{fit.candidates:,} in batches of {fit.batch:,}"}
    return facts | {"design": plan.design, "mode": plan.mode or ", ".join(plan.bench.modes if plan.bench else ())}

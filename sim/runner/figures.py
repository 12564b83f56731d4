"""Figures of a run under way: what its agents have done so far, and in which states they are."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from sim.actors import AgentState
from sim.base.shown import Keywords
from sim.kernel.codec import Record
from sim.kernel.ports import Recorder
from sim.scenario.assembly.build import Simulation

_STATES: Final = tuple(str(state) for state in AgentState)
_COUNTS: Final = ("resumed", "messages", "dropped", "dead", "unmatched", "crashes", "steps")
_TABLES: Final = ("paused", "done", "refused", "failures")


class GroupFigures(Record, frozen=True):
    """The figures of one group of agents.

    Attributes:
        states: the number of agents by state.
        iterations: iterations that began.
        errors: failures of iterations.
        mail: messages in all mailboxes.
        most_mail: messages in the fullest mailbox.
    """

    states: dict[str, int]
    iterations: int
    errors: int
    mail: int
    most_mail: int


class Figures(Record, frozen=True):
    """The figures of a run, or of one process of a run.

    Attributes:
        groups: by group.
        paused: the number of paused agents, by reason.
        wakeups: (state that was left, cause, how often).
        resumed: how often an agent left a sleep or a pause.
        done, refused: by kind of action, how many were done, and refused.
        failures: by the text of an error, how often it came up.
        messages: messages that were delivered.
        dropped, dead, unmatched: see `Totals`.
        crashes: crashes of agents.
        steps: steps of the kernel.
    """

    groups: dict[str, GroupFigures]
    paused: dict[str, int]
    wakeups: tuple[tuple[str, str, int], ...]
    resumed: int
    done: dict[str, int]
    refused: dict[str, int]
    failures: dict[str, int]
    messages: int
    dropped: int
    dead: int
    unmatched: int
    crashes: int
    steps: int

    @property
    def states(self) -> dict[str, int]:
        """The number of agents in each state."""
        return {state: sum(group.states.get(state, 0) for group in self.groups.values()) for state in _STATES}

    @property
    def iterations(self) -> int:
        """Iterations of all agents."""
        return sum(group.iterations for group in self.groups.values())

    @property
    def errors(self) -> int:
        """Failures of all agents."""
        return sum(group.errors for group in self.groups.values())


class Elsewhere(Protocol):
    """A run whose agents are in other processes, as the process that records it sees it."""

    @property
    def keeper(self) -> Recorder:
        """What keeps the events of the run."""

    @property
    def now(self) -> float:
        """How far all agents are, in simulated seconds."""

    @property
    def figures(self) -> Figures:
        """The latest figures of all agents."""

    def metrics(self) -> Mapping[str, float]:
        """Return figures of the processes themselves, by name."""


def figures_of(simulation: Simulation, is_here: Callable[[str], bool] = lambda _: True) -> Figures:
    """Return the figures of a run so far. It changes nothing, so that any thread can call it during a run.

    Args:
        simulation: the run.
        is_here: whether the agent of a name is in this process; others are in no state here.
    """
    manager, world = simulation.manager, simulation.world
    states: dict[str, dict[str, int]] = {}
    counts: dict[str, list[int]] = {}  # by group: iterations, errors, messages, messages in the fullest mailbox
    paused: dict[str, int] = {}
    resumed = dropped = dead = unmatched = 0
    for group, ended in dict(manager.ended).items():
        states[group] = {str(AgentState.STOPPED): ended.loops}
        counts[group] = [ended.iterations, ended.errors, 0, 0]
        resumed += ended.wakeups
        dropped, dead, unmatched = dropped + ended.dropped, dead + ended.dead, unmatched + ended.unmatched
    for loop in dict(manager.loops).values():
        group, box = loop.agent.group, loop.agent.mailbox
        own = counts.get(group) or counts.setdefault(group, [0, 0, 0, 0])
        own[0] += loop.iteration_count
        own[1] += loop.failures
        resumed += loop.wakeups
        dropped, dead, unmatched = dropped + box.dropped, dead + box.dead, unmatched + box.unmatched
        if not is_here(loop.agent_id):
            continue
        own[2] += len(box)
        own[3] = max(own[3], len(box))
        of_group, state = states.setdefault(group, {}), str(loop.state)
        of_group[state] = of_group.get(state, 0) + 1
        if (why := loop.pause_reason) is not None:
            paused[str(why)] = paused.get(str(why), 0) + 1
    return Figures(
        groups={group: GroupFigures(states.get(group, {}), *own) for group, own in counts.items()},
        paused=paused,
        wakeups=tuple((state, cause, count) for (state, cause), count in dict(world.wakeup_counts).items()),
        resumed=resumed,
        done=dict(world.done),
        refused=dict(world.refused),
        failures={error: count for error, (count, _) in dict(world.errors).items()},
        messages=world.messages,
        dropped=dropped,
        dead=dead,
        unmatched=unmatched,
        crashes=world.crashes,
        steps=world.kernel.steps,
    )


def added(parts: Sequence[Figures]) -> Figures:
    """Return the figures of several processes of one run together."""
    groups: dict[str, GroupFigures] = {}
    for part in parts:
        for name, one in part.groups.items():
            groups[name] = _added(groups[name], one) if name in groups else one
    wakeups: dict[tuple[str, str], int] = {}
    for part in parts:
        for state, cause, count in part.wakeups:
            wakeups[state, cause] = wakeups.get((state, cause), 0) + count
    named: Keywords = {name: sum(getattr(part, name) for part in parts) for name in _COUNTS}
    named |= {name: _sums(getattr(part, name) for part in parts) for name in _TABLES}
    return Figures(groups=groups, wakeups=tuple((*key, count) for key, count in wakeups.items()), **named)


def _added(one: GroupFigures, other: GroupFigures) -> GroupFigures:
    return GroupFigures(
        states=_sums([one.states, other.states]),
        iterations=one.iterations + other.iterations,
        errors=one.errors + other.errors,
        mail=one.mail + other.mail,
        most_mail=max(one.most_mail, other.most_mail),
    )


def _sums(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for table in tables:
        for name, count in table.items():
            sums[name] = sums.get(name, 0) + count
    return sums

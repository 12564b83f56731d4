"""The options of runs and of runs from a record: spelled out for type checkers, and checked by name at run time."""

import re
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

import attrs

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.base.shown import shown
from sim.host.watchdog import Stuck
from sim.kernel import Duration, to_ns
from sim.kernel.levels import LEVELS, Level
from sim.runner.runner import Mode, RunController
from sim.tools.rights import Rights, RightsKeywords
from sim.world.action import near

if TYPE_CHECKING:
    from sim.llm.access import Access

Backend = Literal["asyncio", "trio"]
OnInterrupt = Literal["raise", "return"]
MODES: Final = ("autonomous", "tick")
CLOCKS: Final = ("virtual", "wall")
MAX_SEED: Final = 2**63 - 1
MOST_EDGE_WORKERS: Final = 64
Watcher = Callable[[RunController], None]


def _one_of(*allowed: str) -> Callable[[object, "attrs.Attribute[Any]", object], None]:
    def check(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        if value is not None and value not in allowed:
            raise UsageError(f"the {attribute.name} is {' or '.join(allowed)}, not {value!r}")

    return check


def check_above_zero(_: object, attribute: "attrs.Attribute[Any]", value: Duration | None) -> None:
    """Check that a duration is above 0 s, if there is one."""
    if value is not None and to_ns(value) == 0:
        raise UsageError(f"{attribute.name} must be above 0 s, not {value!r}")


def check_edge_workers(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """Check a number of worker processes for calls of models."""
    if type(value) is not int or not 0 <= value <= MOST_EDGE_WORKERS:
        raise UsageError(f"{attribute.name} are 0 to {MOST_EDGE_WORKERS} processes, not {value!r:.60}")


def check_reached(access: "Access | None", edge_workers: int) -> None:
    """Check that worker processes, if there are to be any, have calls to make.

    Raises:
        UsageError: if no model is at an endpoint.
    """
    if edge_workers and (access is None or not access.outside):
        raise UsageError(
            "worker processes are asked for, but no model is at an endpoint",
            hint="add --model openai:NAME, or leave out --edge-workers",
        )


def check_backend(options: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """Check that a backend is known, and installed."""
    _one_of("asyncio", "trio")(options, attribute, value)
    if value == "trio":
        need("trio", "the event loop trio needs")


_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")

_MOST_TAGS = 20


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a run, each once.

    Raises:
        UsageError: if there are too many, or one is not a word.
    """
    if isinstance(tags, str):
        raise UsageError(f"tags are a list of words, not {tags!r:.60}", hint=f"write [{tags!r:.60}]")
    for tag in tags:
        if tag.__class__ is not str or not _TAG.fullmatch(tag):
            hint = "use at most 64 letters, digits, `_`, `-`, `.` and `:`, beginning with a letter or digit"
            raise UsageError(f"{tag!r:.80} cannot be a tag", hint=hint)
    unique = tuple(dict.fromkeys(tags))
    if len(unique) > _MOST_TAGS:
        raise UsageError(f"a run has at most {_MOST_TAGS} tags, not {len(unique)}")
    return unique


class HostKeywords(RightsKeywords, total=False):
    """The options that `run` and runs from a record share; see `HostOptions`."""

    backend: Backend
    access: "Access | None"
    edge_workers: int
    progress: Watcher | bool | None
    stuck: Callable[[Stuck], None] | None
    max_wall: Duration | None
    on_interrupt: OnInterrupt
    begun: Watcher | None


class RunKeywords(HostKeywords, total=False):
    """The options of `run`; see `RunOptions`."""

    seed: int | None
    mode: Mode | None
    until: Duration | None
    clock: Literal["virtual", "wall"] | None
    speed: float | None
    out: str | PathLike[str] | None
    overrides: Sequence[str]
    tags: Sequence[str]
    expected: Mapping[str, Any]
    recording: Level | None
    default_recording: Level | None


class ReplayKeywords(HostKeywords, total=False):
    """The options that `replay`, `resume` and `branch` share; see `ReplayOptions`."""

    allow_change: bool
    other_endpoint: bool


class Options:
    """Options that keyword arguments give, with errors that name the nearest option."""

    __slots__ = ()

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Self:
        """Return the options that keyword arguments give.

        Raises:
            UsageError: if there is no option of a name, with the nearest one; or a value is not allowed.
        """
        known = {field.name: None for field in attrs.fields(cast(Any, cls))}
        for name in keywords:
            if name not in known:
                raise UsageError(
                    f"there is no option {name!r}{near(name, known)}", hint=f"there are {', '.join(known)}"
                )
        return cls(**keywords)


@attrs.frozen(kw_only=True)
class HostOptions(Options, Rights):
    """How a run is hosted, and what the operator lets it do; see `Rights`.

    Args:
        backend: `asyncio` or `trio`; it does not change the result.
        access: language models that replace the scenario's, and how to reach them. For a run from a record: how to
            reach the models on record.
        edge_workers: how many worker processes make the calls of models at endpoints; 0: the process of the run does.
            A replay starts none.
        progress: True shows a bar in a terminal (on stderr) or a notebook. A function is called with the runner about
            every tenth of a second of real time.
        stuck: called with each step that does not return.
        max_wall: real time (seconds, or text such as `10m`) after which the run is interrupted; `resume` continues it.
        on_interrupt: what a signal does once the run is suspended and its record is closed. `raise`: SIGINT raises
            KeyboardInterrupt and SIGTERM raises SystemExit(143), so that the program ends. `return`: the result is
            returned, with the status `interrupted`.
        begun: called once with the runner before the first step; for observers that read it from their own threads.

    Raises:
        UsageError: if a value is not allowed, or the package `trio` is needed and missing.
    """

    backend: Backend = attrs.field(
        default="asyncio",
        validator=check_backend,
        metadata=shown("The async library that hosts the run.", words=("asyncio", "trio"), told=True),
    )
    access: "Access | None" = None
    edge_workers: int = attrs.field(
        default=0,
        validator=check_edge_workers,
        metadata=shown(
            "Worker processes that make the calls of models at endpoints; 0: the process of the run does.",
            metavar="N", least=0, most=MOST_EDGE_WORKERS, told=True,
        ),
    )  # fmt: skip
    progress: Watcher | bool | None = None
    stuck: Callable[[Stuck], None] | None = None
    max_wall: Duration | None = attrs.field(
        default=None,
        validator=check_above_zero,
        metadata=shown("Real time after which it is interrupted; it can be resumed.", metavar="DURATION"),
    )
    on_interrupt: OnInterrupt = attrs.field(default="raise", validator=_one_of("raise", "return"))
    begun: Watcher | None = None

    def reached(self, access: "Access | None") -> "Access | None":
        """Return how models are reached, with the worker processes that were asked for.

        Args:
            access: how they are reached otherwise.

        Raises:
            UsageError: if there are to be workers, and there is nothing for them to do.
        """
        check_reached(access, self.edge_workers)
        return attrs.evolve(access, edge_workers=self.edge_workers) if access and self.edge_workers else access


@attrs.frozen(kw_only=True)
class RunOptions(HostOptions):
    """How a scenario is run; None stands for the value in the scenario.

    Args:
        seed: the seed of all random streams.
        mode: `autonomous` or `tick`.
        until: simulated time at which the run ends; what is due at it does not happen.
        clock: `virtual` jumps from event to event, `wall` follows real time.
        speed: simulated seconds per real second with the wall clock.
        out: the folder for run folders; None records nothing.
        overrides: `key=value` changes to the scenario.
        tags: words by which `sim list --tag` finds the run; they are in its record, but not in its hash.
        expected: the result of `estimate` for this run, to be compared with the actual figures.
        recording: how much is recorded: `all`, `changes` or `samples`.
        default_recording: how much is recorded if neither the scenario nor `recording` says.
    """

    mode: Mode | None = attrs.field(
        default=None, validator=_one_of(*MODES), metadata=shown("The mode of the run.", words=MODES)
    )
    seed: int | None = attrs.field(
        default=None, metadata=shown("The seed of all random streams.", least=0, most=MAX_SEED)
    )
    until: Duration | None = attrs.field(
        default=None,
        metadata=shown("The simulated time at which the run ends, exclusive: 90s or 1h30m.", metavar="DURATION"),
    )
    clock: Literal["virtual", "wall"] | None = attrs.field(
        default=None,
        validator=_one_of(*CLOCKS),
        metadata=shown("virtual: as fast as possible; wall: paced by real time.", words=CLOCKS),
    )
    speed: float | None = attrs.field(
        default=None, metadata=shown("Simulated seconds per real second with --clock wall.", above=0)
    )
    out: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    overrides: Sequence[str] = attrs.field(
        default=(),
        metadata=shown("Change a value of the scenario.", written="--set", metavar="KEY=VALUE", many=True),
    )
    tags: Sequence[str] = attrs.field(
        default=(),
        converter=check_tags,
        metadata=shown("A word by which `sim list --tag` finds the run.", written="--tag", metavar="NAME", many=True),
    )
    expected: Mapping[str, Any] = attrs.field(factory=dict)
    recording: Level | None = attrs.field(
        default=None,
        validator=_one_of(*LEVELS),
        metadata=shown("How much is recorded. Default: that of the scenario.", words=LEVELS),
    )
    default_recording: Level | None = attrs.field(default=None, validator=_one_of(*LEVELS))


@attrs.frozen(kw_only=True)
class ReplayOptions(HostOptions):
    """How a recorded run is run again.

    Args:
        allow_change: continue although the scenario or the code has changed since the record; the replay is verified
            in any case.
        other_endpoint: allow sending prompts to an endpoint other than the one on record.
    """

    allow_change: bool = attrs.field(
        default=False,
        metadata=shown("Accept a changed scenario or code. The record is still verified.", flag=True),
    )
    other_endpoint: bool = attrs.field(
        default=False,
        metadata=shown("Allow prompts to go to a different endpoint than in the recorded run.", flag=True),
    )

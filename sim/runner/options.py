"""The options of runs and of runs from a record: each is one field of a record, from which Python and the command line
take its name, its type, its check and its help.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, Protocol, Self, TypeVar, cast, overload

import attrs

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.base.shown import Keywords, shown
from sim.host.watchdog import Stuck
from sim.kernel import Duration, to_ns
from sim.kernel.codec import JsonObject
from sim.kernel.levels import LEVELS, Level
from sim.record.files import MODES, Mode
from sim.record.verifying_recorder import PARTS, Part
from sim.runner.result import SurveyCost
from sim.runner.runner import RunController
from sim.tools.rights import Rights
from sim.world.action import near

if TYPE_CHECKING:
    from sim.llm.access import Access

Backend = Literal["asyncio", "trio"]
OnInterrupt = Literal["raise", "return"]
CLOCKS: Final = ("virtual", "wall")
MAX_SEED: Final = 2**63 - 1
MOST_EDGE_WORKERS: Final = 64
Watcher = Callable[[RunController], None]

Taken = ParamSpec("Taken")
Chosen = TypeVar("Chosen", covariant=True)
First = TypeVar("First")
Second = TypeVar("Second")
Result = TypeVar("Result")


def _one_of(*allowed: str) -> Callable[[object, "attrs.Attribute[Any]", object], None]:
    def check(_: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        if value is not None and value not in allowed:
            raise UsageError(f"the {attribute.name} is {' or '.join(allowed)}, not {value!r}")

    return check


def check_above_zero(_: object, attribute: "attrs.Attribute[Any]", value: Duration | None) -> None:
    """Check that a duration is above 0 s, if there is one."""
    if value is not None and to_ns(value) == 0:
        raise UsageError(f"{attribute.name} must be above 0 s, not {value!r}")


_ON_RAY: Final = "@ray"


def _edge_workers(value: object) -> object:
    """Return a number of worker processes that is written as text as a number."""
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value) else value


def _check_edge_workers(_: object, __: "attrs.Attribute[Any]", value: object) -> None:
    """Check a number of worker processes for calls of models."""
    count = _edge_workers(value.removesuffix(_ON_RAY)) if isinstance(value, str) else value
    least = 1 if isinstance(value, str) else 0
    if type(count) is not int or not least <= count <= MOST_EDGE_WORKERS:
        most = MOST_EDGE_WORKERS
        raise UsageError(f"there are 0 to {most} worker processes, or 1@ray to {most}@ray, but not {value!r:.60}")


def _check_probe(_: object, __: "attrs.Attribute[Any]", value: object) -> None:
    if type(value) is not int or value < 0:
        raise UsageError(f"a probe makes a number of calls, not {value!r:.60}")


def check_backend(options: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """Check that a backend is known, and installed."""
    _one_of("asyncio", "trio")(options, attribute, value)
    if value == "trio":
        need("trio", "the event loop trio needs")


def _words(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(values)


def _numbers(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(values)


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


_ARGS: Final = "Args:\n"


@functools.cache
def _parts(text: str) -> tuple[str, Mapping[str, str], str]:
    """Take a docstring apart: what is before its arguments, the lines of each argument, and what is after them.

    It is without the indentation of the source, which Python itself takes away from 3.13 on.
    """
    before, _, rest = f"{inspect.cleandoc(text)}\n".partition(_ARGS)
    arguments: dict[str, str] = {}
    name, size = "", 0
    for line in rest.splitlines(keepends=True):
        if not line.startswith(" " * 4) or not line.strip():
            break
        if not line.startswith(" " * 8):
            name = line.strip().partition(":")[0]
        arguments[name] = arguments.get(name, "") + line
        size += len(line)
    return before, arguments, rest[size:]


def _with_arguments_of(text: str, others: Sequence[str]) -> str:
    """Return a docstring with the arguments of others after its own; those of rights come last."""
    before, own, after = _parts(text)
    rights = _parts(Rights.__doc__ or "")[1]
    more = {name: lines for other in others for name, lines in _parts(other)[1].items()}
    arguments = {**own, **{name: lines for name, lines in more.items() if name not in own and name not in rights}}
    arguments |= {name: lines for name, lines in more.items() if name in rights}
    return "".join((before.rstrip(), "\n\n", _ARGS, *arguments.values(), after)) if arguments else text


class Options:
    """Options that keyword arguments give, with errors that name the nearest option.

    The docstring of a record of options describes its own fields; those of the records that it is made of are added.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        cls.__doc__ = _with_arguments_of(cls.__doc__ or "", [base.__doc__ or "" for base in cls.__mro__[:0:-1]])

    @classmethod
    def of(cls, keywords: Keywords) -> Self:
        """Return the options that keyword arguments give.

        Raises:
            UsageError: if there is no option of a name, with the nearest one; or a value is not allowed.
        """
        names = {field.name: None for field in attrs.fields(cast(Any, cls))}
        for name in keywords:
            if name not in names:
                raise UsageError(
                    f"there is no option {name!r}{near(name, names)}", hint=f"there are {', '.join(names)}"
                )
        return cls(**keywords)


class _Taking(Protocol[Taken, Chosen]):
    """What gives a function its options; see `taking`."""

    @overload
    def __call__(self, work: Callable[[First, Chosen], Result], /) -> Callable[Concatenate[First, Taken], Result]: ...

    @overload
    def __call__(
        self, work: Callable[[First, Second, Chosen], Result], /
    ) -> Callable[Concatenate[First, Second, Taken], Result]: ...


def taking(record: Callable[Taken, Chosen]) -> _Taking[Taken, Chosen]:
    """Return what lets a function, which has a record as its last argument, take its fields as keyword arguments.

    So each option is declared once, as a field. Type checkers, `help` and notebooks see each of them, with its type.

    Args:
        record: a class of `Options`.
    """
    options: Any = record

    def add(work: Callable[..., Any]) -> Callable[..., Any]:
        *own, _ = inspect.signature(work).parameters.values()

        def arguments(args: tuple[Any, ...], keywords: Keywords) -> list[Any]:
            late = [keywords.pop(one.name) for one in own[len(args) :] if one.name in keywords]
            if len(args) + len(late) != len(own):
                needed = " and ".join(one.name for one in own)
                raise TypeError(f"{work.__name__.removesuffix('_async')} takes {needed}, and options by their names")
            return [*args, *late, options.of(keywords)]

        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def call(*args: Any, **keywords: Any) -> Any:
                return await work(*arguments(args, keywords))

        else:

            @functools.wraps(work)
            def call(*args: Any, **keywords: Any) -> Any:
                return work(*arguments(args, keywords))

        parameters, rights = inspect.signature(options).parameters, attrs.fields_dict(Rights)
        particular = {field.name for field in attrs.fields(options) if not field.inherited}
        fields = sorted(parameters.values(), key=lambda one: (one.name not in particular, one.name in rights))
        call.__signature__ = inspect.signature(work).replace(parameters=[*own, *fields])  # type: ignore[attr-defined]  # any function has it
        return call

    return cast("_Taking[Taken, Chosen]", add)


@attrs.frozen(kw_only=True)
class Hosting(Options, Rights):
    """How runs are hosted, those of an experiment too, and what the operator lets them do; see `Rights`.

    Args:
        backend: `asyncio` or `trio`; it does not change the result.
        access: language models that replace the scenario's, and how to reach them. For a run from a record: how to
            reach the models on record.
        edge_workers: how many worker processes make the calls of models at endpoints; 0: the process of the run does.
            `N@ray`: they are on the machines of a Ray cluster. In an experiment, each trial starts that many. A replay
            starts none.
        ray: the address of this cluster: `HOST:PORT` of its head, or `auto` for the one that runs on this machine.
        stuck: called with each step that does not return. Of an experiment: in the process of the trial; if other
            processes cannot import it, as a function in a cell of a notebook, the trials run in this one.
        max_wall: real time (seconds, or text such as `10m`) after which the run or the experiment is interrupted;
            `resume` continues it.

    Raises:
        UsageError: if a value is not allowed, or the package `trio` is needed and missing.
    """

    backend: Backend = attrs.field(
        default="asyncio",
        validator=check_backend,
        metadata=shown("The async library that hosts the run.", words=("asyncio", "trio"), show_default=True),
    )
    access: "Access | None" = None
    edge_workers: int | str = attrs.field(
        default=0,
        converter=_edge_workers,
        validator=_check_edge_workers,
        metadata=shown(
            f"Worker processes that make the calls of models at endpoints, at most {MOST_EDGE_WORKERS}; 0: the process"
            " of the run does.",
            metavar="N[@ray]",
            show_default=True,
        ),
    )
    ray: str | None = attrs.field(
        default=None,
        metadata=shown(
            "The Ray cluster of N@ray: HOST:PORT, or auto for one that runs on this machine.",
            metavar="ADDRESS",
        ),
    )
    stuck: Callable[[Stuck], None] | None = None
    max_wall: Duration | None = attrs.field(
        default=None,
        validator=check_above_zero,
        metadata=shown("Real time after which it is interrupted; it can be resumed.", metavar="DURATION"),
    )

    def __attrs_post_init__(self) -> None:
        on_ray = isinstance(self.edge_workers, str)
        if on_ray and self.ray is None:
            hint = "add --ray HOST:PORT, or --ray auto for a cluster that runs on this machine"
            raise UsageError("worker processes are to be on a Ray cluster, but none is given", hint=hint)
        if self.ray is not None and not on_ray:
            hint = "add --edge-workers N@ray, or leave out --ray"
            raise UsageError("a Ray cluster is given, but no worker process is to be on it", hint=hint)

    @property
    def edge_processes(self) -> int:
        """How many worker processes there are, wherever they are."""
        asked = self.edge_workers
        return int(asked.removesuffix(_ON_RAY)) if isinstance(asked, str) else asked

    def reached(self, access: "Access | None") -> "Access | None":
        """Return how models are reached, with the worker processes that were asked for.

        Args:
            access: how they are reached otherwise.

        Raises:
            UsageError: if there are to be workers, and no model is at an endpoint.
        """
        self.check_workers(access)
        return (
            attrs.evolve(access, edge_workers=self.edge_processes, ray=self.ray)
            if access and self.edge_processes
            else access
        )

    def check_workers(self, access: "Access | None") -> None:
        """Check that there are calls for the worker processes that were asked for.

        Raises:
            UsageError: if no model is at an endpoint, or a package that workers need is missing.
        """
        if self.edge_processes and (access is None or not access.outside):
            raise UsageError(
                "worker processes are asked for, but no model is at an endpoint",
                hint="add --model openai:NAME, or leave out --edge-workers",
            )
        if self.ray is not None:
            need("ray", "worker processes on Ray need")


@attrs.frozen(kw_only=True)
class HostOptions(Hosting):
    """How one run is hosted.

    Args:
        progress: True shows a bar in a terminal (on stderr) or a notebook. A function is called with the runner about
            every tenth of a second of real time.
        on_interrupt: what a signal does once the run is suspended and its record is closed. `raise`: SIGINT raises
            KeyboardInterrupt and SIGTERM raises SystemExit(143), so that the program ends. `return`: the result is
            returned, with the status `interrupted`.
        begun: called once with the runner before the first step; for observers that read it from their own threads.
    """

    progress: Watcher | bool | None = None
    on_interrupt: OnInterrupt = attrs.field(default="raise", validator=_one_of("raise", "return"))
    begun: Watcher | None = None


@attrs.frozen(kw_only=True, slots=False)
class Change(Options):
    """Values that replace those of the scenario; of a branch, those of its run. None: unchanged.

    Args:
        seed: the seed of all random streams; of a branch, of all draws after the time at which it begins.
        until: simulated time at which the run ends; what is due at it does not happen.
        overrides: `key=value` changes to the scenario; of a branch at a time above 0, of live parameters alone.
    """

    seed: int | None = attrs.field(
        default=None, metadata=shown("The seed of all random streams.", least=0, most=MAX_SEED)
    )
    until: Duration | None = attrs.field(
        default=None,
        metadata=shown("The simulated time at which the run ends, exclusive: 90s or 1h30m.", metavar="DURATION"),
    )
    overrides: Sequence[str] = attrs.field(
        default=(),
        metadata=shown("Change a value of the scenario.", written="--set", metavar="KEY=VALUE", many=True),
    )


@attrs.frozen(kw_only=True, slots=False)
class Keep(Options):
    """What is kept of a run.

    Args:
        out: the folder for run folders. None: of a run, nothing is recorded; of a branch, that of its run.
        tags: words by which `sim list --tag` finds the run; they are in its record, but not in its hash. A branch has
            none of its run.
    """

    out: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    tags: Sequence[str] = attrs.field(
        default=(),
        converter=check_tags,
        metadata=shown("A word by which `sim list --tag` finds the run.", written="--tag", metavar="NAME", many=True),
    )


@attrs.frozen(kw_only=True)
class RunOptions(HostOptions, Keep, Change):
    """How a scenario is run; None stands for the value in the scenario.

    Args:
        mode: `autonomous` or `tick`.
        clock: `virtual` jumps from event to event, `wall` follows real time.
        speed: simulated seconds per real second with the wall clock.
        expected: the result of `estimate` for this run, to be compared with the actual figures.
        recording: how much is recorded: `all`, `changes` or `samples`.
        default_recording: how much is recorded if neither the scenario nor `recording` says.
    """

    mode: Mode | None = attrs.field(
        default=None, validator=_one_of(*MODES), metadata=shown("The mode of the run.", words=MODES)
    )
    clock: Literal["virtual", "wall"] | None = attrs.field(
        default=None,
        validator=_one_of(*CLOCKS),
        metadata=shown("virtual: as fast as possible; wall: paced by real time.", words=CLOCKS),
    )
    speed: float | None = attrs.field(
        default=None, metadata=shown("Simulated seconds per real second with --clock wall.", above=0)
    )
    expected: JsonObject = attrs.field(factory=dict)
    recording: Level | None = attrs.field(
        default=None,
        validator=_one_of(*LEVELS),
        metadata=shown("How much is recorded. Default: that of the scenario.", words=LEVELS),
    )
    default_recording: Level | None = attrs.field(default=None, validator=_one_of(*LEVELS))


@attrs.frozen(kw_only=True)
class EstimateOptions(RunOptions):
    """For which run the spending on language models is estimated. Nothing is recorded, and the clock is virtual.

    Args:
        probe: how many calls are made for real, to scale the others; they cost money.
    """

    probe: int = attrs.field(default=0, validator=_check_probe)


@attrs.frozen(kw_only=True, slots=False)
class Decisions(Options):
    """What the operator accepts when a record is run again.

    Args:
        allow_change: accept that the scenario or the code has changed since the record; the replay is verified in any
            case.
        other_endpoint: let prompts go to an endpoint other than the one on record.
    """

    allow_change: bool = attrs.field(
        default=False,
        metadata=shown("Accept a changed scenario or code. The record is still verified.", flag=True),
    )
    other_endpoint: bool = attrs.field(
        default=False,
        metadata=shown("Allow prompts to go to a different endpoint than in the recorded run.", flag=True),
    )


@attrs.frozen(kw_only=True)
class ReplayOptions(HostOptions, Decisions):
    """How a recorded run is run again."""


@attrs.frozen(kw_only=True)
class VerifyOptions(ReplayOptions):
    """How a recorded run is run again, to be compared with its record.

    Args:
        parts: the parts of the record to compare.
    """

    parts: frozenset[Part] = PARTS


@attrs.frozen(kw_only=True)
class ContinueOptions(ReplayOptions):
    """How a run is continued from its record.

    Args:
        effects: decisions about in-doubt effects, by id: `retry`, `done`, `done:JSON` or `failed`. If one is missing,
            nothing is changed, and the result lists the effect in `doubts`. Of a branch, they are about effects that
            started before it begins.
    """

    effects: Mapping[int, str] | None = attrs.field(
        default=None,
        metadata=shown(
            "Resolve an in-doubt effect: retry, or its outcome (done, done:JSON or failed).",
            written="--effect",
            metavar="ID=DECISION",
            many=True,
        ),
    )


@attrs.frozen(kw_only=True)
class ResumeOptions(ContinueOptions):
    """How a run that was killed, interrupted or failed is continued.

    Args:
        undecided: continue although decisions are missing; the agents of those effects stay paused.
        take_over: fence out a process that has the run but hangs.
        allow_loss: continue although the last records are lost; unsafe effects that may have been executed in the lost
            part need a decision like in-doubt effects.
    """

    undecided: bool = attrs.field(
        default=False,
        metadata=shown("Continue with unresolved in-doubt effects; their agents stay paused.", flag=True),
    )
    take_over: bool = attrs.field(
        default=False, metadata=shown("Take the run from a process that holds it but hangs.", flag=True)
    )
    allow_loss: bool = attrs.field(
        default=False, metadata=shown("Continue even if the last records are lost.", flag=True)
    )


@attrs.frozen(kw_only=True)
class BranchOptions(ContinueOptions, Keep, Change):
    """From when on, and how, a branch differs from its run.

    Args:
        at: the simulated time of the branch; what is due at that time is not copied. None: that of `at_event`, or of
            the first event in `without` or `replace`.
        at_event: the number of an event, at whose time the branch begins.
        without: the numbers of messages and published events that do not arrive in the branch.
        replace: other data for messages and published events, by their numbers.
        models: language models that replace those used before `at`, as in `Access.models`.
        record: whether the branch gets a run folder. Without, nothing is kept but the result.
    """

    at: Duration | None = None
    at_event: int | None = attrs.field(
        default=None,
        metadata=shown("Begin at the time of this event: its id in `sim show RUN messages`.", metavar="ID", least=1),
    )
    without: tuple[int, ...] = attrs.field(
        default=(),
        converter=_numbers,
        metadata=shown("A message or published event that does not arrive.", metavar="ID", least=1, many=True),
    )
    replace: Mapping[int, Any] | None = attrs.field(
        default=None,
        metadata=shown("Other data for a message or published event.", metavar="ID:JSON", many=True),
    )
    models: tuple[str, ...] = attrs.field(
        default=(),
        converter=_words,
        metadata=shown(
            "A language model to use after that time.", written="--model", metavar="[TIER=]PROVIDER:NAME", many=True
        ),
    )
    record: bool = True


@attrs.frozen(kw_only=True)
class AskOptions(ReplayOptions):
    """When, and which, agents of a recorded run are asked.

    Args:
        at: the simulated time; what is due at it has not happened yet, except at time 0, at which agents begin. None:
            the end of the record.
        agents: names of agents, entries and groups; empty: all agents.
        models: language models that replace those of the run, as in `Access.models`.
        confirm: called with the cost before anything is asked; if it returns False, nothing is.
    """

    at: Duration | None = None
    agents: tuple[str, ...] = attrs.field(default=(), converter=_words)
    models: tuple[str, ...] = attrs.field(default=(), converter=_words)
    confirm: Callable[[SurveyCost], bool] | None = None

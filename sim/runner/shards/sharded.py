"""A run on shards, from a scenario to a result (edge)."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.base.extras import need
from sim.kernel.codec import decode, encode
from sim.kernel.kernel import Kernel, Pause
from sim.runner.event_loop import RunThread, in_definitions, in_plain_code, running_on
from sim.runner.options import RunOptions, taking
from sim.runner.outside_requests import OutsideRequests
from sim.runner.progress import shown
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.running import Source, kept_by, read_scenario
from sim.runner.shards.calls import Calls
from sim.runner.shards.checks import check_shards, wanted_of
from sim.runner.shards.coordinator import Coordinator, GatheredFunctions
from sim.runner.shards.merging import merge_states, merge_summaries
from sim.runner.shards.processes import Forks, ShardProcess
from sim.runner.shards.protocol import Host, Setup, Start
from sim.runner.shards.restarting import RestartedShard
from sim.runner.shards.shard import RowRecorder
from sim.runner.shards.stopping import AllStopped, StopRequests
from sim.runner.shards.watching import Watching
from sim.runner.spec import Kept, Spec
from sim.world import World
from sim.world.islands import Islands


def on_shards(shards: int, host: Host | None = None) -> Any:
    """Return a function that runs a scenario on so many shards; it takes what `sim.run` takes.

    Args:
        shards: the number of shards.
        host: where they run; None: in processes of this machine.
    """

    @taking(RunOptions)
    @in_definitions
    async def run_async(scenario: Source, options: RunOptions) -> RunResult:
        with ExitStack() as ending, _interruptible():
            return _run(scenario, options, shards, host, ending)

    return in_plain_code(run_async)


def shards_from(asked: int | str, ray: str | None = None) -> tuple[int, Host | None]:
    """Return how many shards are asked for, and where they run; None: on this machine.

    Args:
        asked: a number, or `N@ray`.
        ray: the address of the Ray cluster.

    Raises:
        UsageError: if it is neither, only one of cluster and `@ray` is given, or Ray is not installed.
    """
    written = re.fullmatch("([0-9]{1,9})(@ray)?", asked) if isinstance(asked, str) else None
    if isinstance(asked, str) and written is None:
        raise UsageError(f"shards are a number, such as 2, or 2@ray, but not {asked!r:.60}")
    if written is None or not written[2]:
        if ray is not None:
            hint = "write --shards N@ray, or leave out --ray"
            raise UsageError("a Ray cluster is given, but no shard is to be on it", hint=hint)
        return int(asked) if written else asked, None  # type: ignore[return-value]  # an integer here
    if ray is None:
        hint = "add --ray HOST:PORT, or --ray auto for a cluster that runs on this machine"
        raise UsageError("shards are to be on a Ray cluster, but none is given", hint=hint)
    need("ray", "shards on Ray need")
    from sim.runner.shards.ray_shards import RayHost  # few runs need it

    return int(written[1]), RayHost(ray, int(written[1]))


def run_on_shards(scenario: Source, shards: int | str, *, ray: str | None = None, **options: Any) -> RunResult:
    """Run a scenario with islands in several processes, and return the result, which is that of one process.

    Args:
        scenario: as `sim.run` takes it.
        shards: the number of processes that run agents; one more puts their events in order. `N@ray`: they are on the
            machines of a Ray cluster.
        ray: the address of this cluster: `HOST:PORT` of its head, or `auto` for the one that runs on this machine.
        options: see `RunOptions`.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong, or the scenario cannot be divided so.
        RunError: if the run fails, or three processes of a shard end during one order.
        KeyboardInterrupt: after Ctrl-C, once the record is closed. Where an event loop is running, as in a notebook,
            the window ends first.
    """
    result: RunResult = on_shards(*shards_from(shards, ray))(scenario, **options)
    return result


def _run(source: Source, options: RunOptions, shards: int, host: Host | None, ending: ExitStack) -> RunResult:
    """Run a scenario on shards, and return the result.

    Args:
        source, options, shards, host: see `on_shards`.
        ending: ends what was started for the run.
    """
    checked, text, chosen = read_scenario(source, options)
    spec = Spec.of(checked, text, chosen)
    check_shards(spec, chosen, shards)
    models = spec.simulation.models
    outside = models is not None and models.outside
    start_here: Start = ShardProcess if outside else Forks(spec.simulation)  # a fork would have the keys
    calls = ending.enter_context(Calls.of(models))
    start = ending.enter_context(host or nullcontext(start_here))
    started = time.monotonic()
    processes: list[RestartedShard] = []
    ending.callback(_end, spec.simulation.world, processes)
    for number, setup in enumerate(_setups(spec, chosen, shards), 1):
        processes.append(RestartedShard(number, setup, start))  # before the record has a thread
    return _recorded(processes, spec, chosen, started, calls)


def _end(world: World, processes: Sequence[RestartedShard]) -> None:
    for process in processes:
        process.close()
    world.ended = True
    world.kernel.close()


def _recorded(
    processes: Sequence[RestartedShard], spec: Spec, chosen: RunOptions, started: float, calls: Calls | None
) -> RunResult:
    """Run all shards, with a record, and return the result."""
    kept = kept_by(spec, chosen, None, ())
    try:
        if calls is not None:
            calls.begin(kept)
        for process in processes:
            process.report()
        fields, digest, now = _drive(spec, processes, kept, chosen, calls)
        hash = kept.keeper.finish("finished", digest, now, fields)
    except KeyboardInterrupt:
        kept.keeper.close()
        left = (
            "nothing was recorded" if kept.folder is None else f"sim resume {kept.folder} continues it in one process"
        )
        raise KeyboardInterrupt(f"the run on shards was interrupted; {left}") from None
    except BaseException:
        kept.keeper.close()
        raise
    return RunResult(
        run=None if kept.folder is None else str(kept.folder),
        backend=running_on(),
        hash=hash,
        events=kept.keeper.events,
        wall_seconds=time.monotonic() - started,
        **fields,
    )


def _setups(spec: Spec, chosen: RunOptions, shards: int) -> list[Setup]:
    checked, world = spec.simulation.scenario, spec.simulation.world
    files = checked.recorded_files()
    return [
        Setup(
            text=checked.source.text,
            file=checked.source.file,
            overrides=tuple(chosen.overrides),
            allow=tuple(chosen.allow),
            seed=world.kernel.seed,
            until_ns=spec.until_ns,
            islands=islands,
            files=files,
            models=() if chosen.access is None else chosen.access.models,
        )
        for islands in packed(Islands.of(world), shards)
    ]


def packed(islands: Islands, shards: int) -> list[tuple[str, ...]]:
    """Return the islands of each shard: the largest one first, each on the shard that has the fewest agents so far."""
    sizes = _sizes(islands)
    filled: list[tuple[int, list[str]]] = [(0, []) for _ in range(shards)]
    for island in sorted(sizes, key=lambda name: -sizes[name]):
        place = min(range(shards), key=lambda place: (filled[place][0], len(filled[place][1])))
        filled[place] = (filled[place][0] + sizes[island], [*filled[place][1], island])
    return [tuple(names) for _, names in filled]


def _sizes(islands: Islands) -> dict[str, int]:
    """Return the number of agents of each island."""
    sizes = dict.fromkeys(islands.names, 0)
    for island in islands.first.values():
        sizes[island] += 1
    return sizes


def _drive(
    spec: Spec, processes: Sequence[RestartedShard], kept: Kept, chosen: RunOptions, calls: Calls | None
) -> tuple[dict[str, Any], Any, int]:
    """Run all shards to the end; return the figures of the result, the final state, and the time of the end."""
    whole, kernel = spec.simulation, spec.simulation.world.kernel
    rows = kernel.recorder = RowRecorder(kernel, Islands.of(whole.world), keeps_agents=False)
    watching = Watching(kept.keeper, len(processes), asked=bool(chosen.progress) or chosen.begun is not None)
    stops = StopRequests()
    coordinator = Coordinator(whole, processes, rows, watching, spec.until_ns, calls=calls, stops=stops)
    began = time.process_time_ns()
    functions = GatheredFunctions(whole, coordinator, wanted_of(whole.scenario))
    simulation = attrs.evolve(whole, metric_functions=functions, starts=())
    runner = RunController(simulation, until_ns=spec.until_ns, mode="autonomous")
    runner.shards = watching
    whole.world.attach(stops)

    def numbers(merging: int | None = None) -> dict[str, float]:
        spent = time.process_time_ns() - began if merging is None else merging
        return _figures(Islands.of(whole.world), processes, coordinator, spent)

    with _watched(runner, watching, numbers, kept, chosen):
        runner.begin()
        _to_the_end(coordinator, kernel, spec.until_ns)
        coordinator.settle()
        runner.feed.sample_end()
        reports = coordinator.end(kernel.now, kernel.delta)
        coordinator.record_rest()
    merging = time.process_time_ns() - began
    digest = merge_states(_plain(whole.world.digest()), [report.digest or {} for report in reports])
    fields = merge_summaries(runner._summary("finished", {}), [report.summary or {} for report in reports])
    if fields["models"] and whole.models is not None:
        fields["models"] |= {name: figures for name, figures in whole.models.edge_figures().items() if figures}
    fields["services"] = {**fields["services"], "shards": numbers(merging)}
    return fields, digest, kernel.now


def _to_the_end(coordinator: Coordinator, kernel: Kernel, until_ns: int) -> None:
    """Run the coordinator to the end of the run. Then its kernel is at the time and in the round of the end."""
    try:
        if kernel.run(until_ns) is not Pause.HALTED:
            coordinator.advance(until_ns)
            kernel.advance_to(until_ns)
            return
    except AllStopped as ended:
        kernel.now, kernel.delta = ended.at, 0  # it was ahead; what it did there has no effect, and is not recorded
    kernel.delta = max(kernel.delta, coordinator.last_delta(kernel.now))


@contextmanager
def _watched(
    runner: RunController, watching: Watching, numbers: Callable[[], dict[str, float]], kept: Kept, chosen: RunOptions
) -> Iterator[None]:
    """Let the run be watched and stopped from outside."""
    kernel = runner.simulation.world.kernel
    watching.numbers = numbers
    with ExitStack() as stack:
        show = stack.enter_context(shown(chosen.progress))
        if show is not None:
            watching.show = partial(show, runner)
        if chosen.begun is not None:
            with kernel.acting_as(None):
                chosen.begun(runner)
        inbox = None
        if kept.folder is not None and kept.epoch is not None:
            inbox = stack.enter_context(OutsideRequests(kept.folder, kept.epoch, runner))
        yield
        if inbox is not None:
            inbox.finished = True


def _figures(
    islands: Islands, processes: Sequence[RestartedShard], coordinator: Coordinator, merging_ns: int
) -> dict[str, float]:
    """Return the figures of the shards themselves, which differ from run to run; `imbalance` is 1 if all shards need
    the same CPU time in each window, and the number of shards if all work is in one of them at a time.
    """
    sizes = _sizes(islands)
    agents = [sum(sizes[island] for island in process.setup.islands) for process in processes]
    even = coordinator.total_ns / len(processes)
    imbalance = coordinator.critical_ns / even if even else 1.0
    return {
        "processes": len(processes), "windows": coordinator.windows, "most agents of a shard": max(agents),
        "fewest agents of a shard": min(agents), "cpu seconds": coordinator.total_ns / 1e9,
        "critical path seconds": coordinator.critical_ns / 1e9, "imbalance": imbalance,
        "merging cpu seconds": merging_ns / 1e9,
        "restarts": sum(one.restarts for one in processes),
    }  # fmt: skip


def _plain(digest: Any) -> Any:
    """Return a state as it comes from another process."""
    return decode(encode(dict(digest)))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt a run on shards: an event loop would take note of it only after the run."""
    thread = threading.current_thread()
    if isinstance(thread, RunThread):
        thread.on_interrupt(lambda: None)  # the coordinator heeds it before each window
    if thread is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

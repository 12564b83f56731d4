import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sim.base.errors import ActorError, Cancelled, RunError, UsageError
from sim.host import effect_tasks
from sim.host.host import Host, run_actor
from sim.host.watchdog import Stuck, Watchdog
from sim.kernel import NS, Effect, Kernel, Pause, Queue, first_of_ns, perform, sleep
from sim.kernel.codec import encode
from sim.kernel.effects import hash_request
from sim.kernel.ports import Durable, NullRecorder
from sim.kernel.rows import ResultRow
from sim.kernel.waits import sleep_ns

MS = NS // 1000
FOREVER = 2**62

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class FakeClock:
    """Real time that a test moves: `step` nanoseconds at each look, and by hand."""

    def __init__(self, step: int = 0) -> None:
        self.time = 0
        self.step = step

    def now(self) -> int:
        self.time += self.step
        return self.time


async def echo(request: Any, key: str) -> Any:
    """Answer with the request at once."""
    await anyio.lowlevel.checkpoint()
    return request


def takes(seconds: float) -> Callable[[Any, str], Awaitable[Any]]:
    """Return work that takes real seconds."""

    async def call(request: Any, key: str) -> Any:
        await anyio.sleep(seconds)
        return request

    return call


def effect(call: Callable[[Any, str], Awaitable[Any]] = echo, **options: Any) -> Effect:
    """Return an effect."""
    return Effect("test", {"n": 1}, call, **options)


async def ticker(kernel: Kernel, count: int = 10**9, delay: int = 100 * MS) -> None:
    """Emit `count` events, one each `delay` nanoseconds."""
    for number in range(count):
        await sleep_ns(delay)
        kernel.emit("tick", number)


async def ask(kernel: Kernel, what: Effect, count: int = 1) -> None:
    """Perform an effect `count` times and emit each outcome."""
    for _ in range(count):
        outcome = await perform(what)
        kernel.emit("outcome", [outcome.kind, outcome.value])


# -- modelled effects


@pytest.mark.parametrize("real", [0, 0.05])
@both_hosts
def test_modelled_effects_are_delivered_at_their_time(make_kernel, real, backend):
    """A modelled outcome comes at exactly its simulated time whatever it really takes; others run until
    then.
    """
    kernel, rows = make_kernel()
    kernel.spawn("asker", ask(kernel, effect(takes(real), latency_ns=250 * MS)))
    kernel.spawn("ticker", ticker(kernel, 4))
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert [(row.time_ns // MS, row.actor) for row in rows.seen()] == [
        (100, "ticker"), (200, "ticker"), (250, "asker"), (300, "ticker"), (400, "ticker")
    ]  # fmt: skip
    assert [row[2:] for row in rows.results] == [("ok", {"n": 1}, 1, None)]
    assert rows.endings == [("asker", 1, "delivered", 250 * MS, 0)]
    assert rows.intents[0][:3] + rows.intents[0][4:] == (
        "asker", 1, "test", {"n": 1}, "modelled", "unsafe", 0
    )  # fmt: skip


def test_no_latency_at_all(kernel, rows):
    """A modelled latency of zero delivers at the same instant, and waits for the real outcome."""
    kernel.spawn("asker", ask(kernel, effect(takes(0.02), latency_ns=0)))
    anyio.run(Host(kernel).run, NS)
    assert rows.seen() == [(0, 3, "asker", "outcome", ["ok", {"n": 1}])]


def test_a_deadline_before_the_latency_always_expires(make_kernel):
    """Whether a modelled effect times out depends on its latency and deadline alone, not on the real
    answer.
    """
    for real in (0, 0.03):
        kernel, rows = make_kernel()
        kernel.spawn("asker", ask(kernel, effect(takes(real), latency_ns=20, deadline_ns=10)))
        kernel.spawn("slow", ask(kernel, effect(takes(0.01), latency_ns=5)))
        anyio.run(Host(kernel).run, NS)
        assert [row.time_ns for row in rows.seen()] == [5, 10]
        assert rows.seen()[1][4] == ["timeout", None]


@both_hosts
@pytest.mark.parametrize(
    ("error", "name"),
    [(ValueError("bad \ud800"), "ValueError"), (SystemExit(1), "SystemExit"), (Cancelled(), "Cancelled")],
)
def test_errors_are_values(make_kernel, backend, error, name):
    """An exception of the work, even `sys.exit`, is an outcome that the actor gets and that is recorded."""

    async def fail(request: Any, key: str) -> Any:
        raise error

    kernel, rows = make_kernel()
    kernel.spawn("asker", ask(kernel, effect(fail, latency_ns=5)))
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert rows.seen()[0][4][0] == "error"
    assert rows.results[0][3]["type"] == name


def test_work_that_cancels_itself_is_an_error(kernel, rows):
    """A cancellation that comes out of the work, but not from the host, neither hangs nor ends the run."""

    async def fail(request: Any, key: str) -> Any:
        raise asyncio.CancelledError

    kernel.spawn("asker", ask(kernel, effect(fail, latency_ns=5)))
    assert anyio.run(Host(kernel).run, NS) is Pause.LIMIT
    assert rows.results[0][2:4] == ("error", {"type": "CancelledError", "message": ""})


def test_outcomes_take_the_way_through_the_record(kernel, rows):
    """An actor gets what a replay would get: JSON values, made anew; what is none is an error."""
    values: list[Any] = [(1, 2), {"a": float("nan")}, object()]

    async def give(index: int, key: str) -> Any:
        return values[index]

    for index in range(3):
        kernel.spawn(f"a{index}", ask(kernel, Effect("x", index, give, latency_ns=1 + index)))
    anyio.run(Host(kernel).run, NS)
    data = [row.data for row in rows.seen()]
    assert data[:2] == [["ok", [1, 2]], ["ok", {"a": None}]]
    assert data[2][0] == "error"
    assert rows.results[0][3] == [1, 2]


@both_hosts
def test_real_timeout(make_kernel, backend):
    """The edge gives up after the real timeout; that is an outcome too."""
    kernel, rows = make_kernel()
    kernel.spawn("asker", ask(kernel, effect(takes(60), latency_ns=5, timeout=0.02)))
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert rows.seen() == [(5, 1, "asker", "outcome", ["timeout", None])]


def test_a_request_that_is_no_json_is_refused(kernel):
    """An effect whose request cannot be recorded is refused where it is performed."""
    with pytest.raises(ActorError, match="JSON-like"):
        run_actor(kernel, ask(kernel, Effect("x", object(), echo)))


def test_without_a_host_effects_are_refused(kernel):
    """A kernel that nobody carries effects out for says so to the actor."""
    kernel.spawn("a", ask(kernel, effect()))
    with pytest.raises(ActorError, match="no host"):
        kernel.run()


# -- measured effects


@both_hosts
def test_measured_effects_follow_real_time(make_kernel, backend):
    """While a measured effect is in flight simulated time follows real time; afterwards it jumps again."""
    kernel, rows = make_kernel()
    kernel.spawn("asker", ask(kernel, effect(takes(0.1))))
    kernel.spawn("ticker", ticker(kernel, 100, 10 * MS))
    started = time.monotonic()
    anyio.run(Host(kernel).run, 3600 * NS, backend=backend)
    assert time.monotonic() - started < 60  # an hour jumped over
    answered = next(row for row in rows.seen() if row.actor == "asker")
    assert 80 * MS < answered[0] < 400 * MS
    assert rows.results[0][5] == (answered[0], 0)
    assert sum(row.actor == "ticker" for row in rows.seen()) == 100
    assert [row.time_ns for row in rows.seen()] == sorted(row.time_ns for row in rows.seen())


def test_simulated_deadline(kernel, rows):
    """A measured effect that is not there by its simulated deadline is a timeout at exactly that time."""
    kernel.spawn("asker", ask(kernel, effect(takes(60), deadline_ns=30 * MS)))
    anyio.run(Host(kernel).run, NS)
    assert rows.seen() == [(30 * MS, 1, "asker", "outcome", ["timeout", None])]
    assert kernel.effects.counts["timeout"] == 1


@pytest.mark.timeout(20)
@both_hosts
def test_an_effect_in_doubt_is_held_however_late_real_time_is(make_kernel, backend):
    """A modelled effect that is put to a person blocks its instant until the call that holds it is applied: at once,
    although a measured effect lets real time run on beyond the end of the run.
    """
    kernel, rows = make_kernel()
    clock = FakeClock(step=400 * MS)
    host = Host(kernel, clock=clock)
    kernel.inputs["hold"] = lambda data: None
    kernel.placed["hold"] = lambda data: kernel.effects.hold(kernel.effects.in_flight["payer", 1])
    host.lost = lambda handle: handle.actor.name == "payer"
    host.hold = lambda handle: host.submit("hold", None)
    kernel.spawn("asker", ask(kernel, effect(takes(0.05))))
    kernel.spawn("payer", ask(kernel, effect(latency_ns=0)))
    anyio.run(host.run, 300 * MS, backend=backend)
    assert [(row.time_ns, row.kind) for row in rows.inputs] == [(0, "hold")]
    assert kernel.now == 300 * MS


def test_measured_effects_at_another_speed(kernel, rows):
    """At a wall pace a measured effect takes its real time times the speed."""
    kernel.spawn("asker", ask(kernel, effect(takes(0.03))))
    anyio.run(Host(kernel, speed=100).run, 8 * NS)
    assert 2.8 * NS < rows.seen()[0][0] < 8 * NS


def test_measured_and_cancelled_at_one_instant(kernel, rows):
    """A measured effect that is abandoned at the instant it began does not hold the run up."""
    actor = kernel.spawn("asker", ask(kernel, effect(takes(60))))

    async def canceller() -> None:
        await sleep_ns(0)
        kernel.cancel(actor)

    kernel.spawn("canceller", canceller())
    kernel.spawn("ticker", ticker(kernel, 3))
    with anyio.from_thread.start_blocking_portal() as portal:
        assert portal.start_task_soon(Host(kernel).run, NS).result(5) is Pause.LIMIT
    assert [row.ending for row in rows.endings] == ["abandoned"]
    assert rows.results == []
    assert len(rows.events) == 3


@both_hosts
@pytest.mark.parametrize("options", [{"latency_ns": 50 * MS}, {}])
def test_cancelled_effects_are_abandoned(make_kernel, backend, options):
    """Cancelling an actor stops its effect, which is recorded as abandoned; a late result is never seen."""
    kernel, rows = make_kernel()
    stopped: list[str] = []

    async def slow(request: Any, key: str) -> Any:
        try:
            await anyio.sleep(60)
        finally:
            stopped.append("stopped")

    actor = kernel.spawn("asker", ask(kernel, effect(slow, **options)))
    kernel.call_at(20 * MS, lambda: kernel.cancel(actor))
    anyio.run(Host(kernel).run, 100 * MS, backend=backend)
    assert rows.endings == [("asker", 1, "abandoned", 20 * MS, 1)]
    assert rows.results == []
    assert rows.events == []
    assert stopped in ([], ["stopped"])  # or it had not begun
    assert actor.exit is not None
    assert actor.exit.kind == "cancelled"


@pytest.mark.parametrize("options", [{"latency_ns": 500 * MS}, {}])
def test_in_flight_at_the_end(kernel, rows, options):
    """What is in flight when the run ends is recorded as abandoned, and the run ends on time."""
    kernel.spawn("asker", ask(kernel, effect(takes(60), **options)))
    assert anyio.run(Host(kernel).run, 20 * MS) is Pause.LIMIT
    assert [row.ending for row in rows.endings] == ["abandoned"]
    assert kernel.now == 20 * MS
    assert not kernel.effects.in_flight


@both_hosts
@pytest.mark.parametrize("pauses", [0, 1, 2])
@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_work_that_ends_while_the_host_closes(kernel, rows, backend, pauses, rounds):
    """What comes to its end after the host has begun to close is not recorded, and disturbs nothing."""

    async def work(request: Any, key: str) -> Any:
        for _ in range(pauses):
            with anyio.CancelScope(shield=True):  # it cannot be cancelled while it waits
                await anyio.lowlevel.checkpoint()
        return request

    async def stop_at_once() -> None:
        host = Host(kernel)
        async with host:
            assert await host.run(20 * MS) is Pause.LIMIT
            for _ in range(rounds):
                await anyio.lowlevel.checkpoint()
            before = list(rows.results)
        assert rows.results == before

    async def asker() -> None:
        await sleep_ns(20 * MS - 1)
        await perform(effect(work, latency_ns=50 * MS))

    kernel.spawn("asker", asker())
    anyio.run(stop_at_once, backend=backend)


@both_hosts
@pytest.mark.parametrize("suspend", [False, True])
def test_effects_live_from_run_to_run(make_kernel, backend, suspend):
    """Within `async with host` a run that is cut, also by `suspend`, gives the rows of an uncut run."""

    def scene() -> tuple[Kernel, Any]:
        kernel, rows = make_kernel()
        for number in range(3):
            kernel.spawn(f"a{number}", ask(kernel, effect(takes(0.001 * number), latency_ns=(70 + number) * MS), 5))
            kernel.spawn(f"t{number}", ticker(kernel, 8, 50 * MS))
        return kernel, rows

    async def cut() -> None:
        async with Host(kernel) as host:
            for end in (0, 70, 71, 100, 100, 211, 800):
                if suspend:
                    host.suspend()
                    assert await host.run(end * MS) is Pause.BUDGET
                assert await host.run(end * MS) is Pause.LIMIT
                assert kernel.now == end * MS

    kernel, whole = scene()
    anyio.run(Host(kernel).run, 800 * MS, backend=backend)
    kernel, rows = scene()
    anyio.run(cut, backend=backend)
    assert rows.intents == whole.intents
    assert sorted(rows.results) == sorted(whole.results)  # in the order of real answers
    assert rows.endings == whole.endings
    assert rows.events == whole.events
    assert len(rows.events) == 39


# -- inputs


@both_hosts
def test_inputs_from_another_thread(make_kernel, backend):
    """A call from another thread is stamped, recorded and applied, also while nothing else happens."""
    kernel, rows = make_kernel()
    host = Host(kernel)
    queue = Queue(kernel, 5)
    kernel.inputs |= {"put": queue.put_nowait, "halt": lambda _: kernel.halt()}

    begun = threading.Event()

    async def actor() -> None:
        begun.set()
        while True:
            kernel.emit("got", await queue.get())

    def caller() -> None:
        begun.wait(60)  # the time that a busy machine takes to begin is none of the run's
        for number in range(3):
            time.sleep(0.01)
            host.submit("put", number)
        host.submit("halt", None)

    async def main() -> None:
        kernel.spawn("asker", ask(kernel, effect(takes(60))))  # so that the run waits
        kernel.spawn("actor", actor())
        thread = threading.Thread(target=caller)
        thread.start()
        assert await host.run(FOREVER) is Pause.HALTED
        await anyio.to_thread.run_sync(thread.join)

    anyio.run(main, backend=backend)
    assert [row[2:] for row in rows.inputs] == [*(("put", n) for n in range(3)), ("halt", None)]
    assert [row.data for row in rows.seen()] == [0, 1, 2]
    for given, seen in zip(rows.inputs, rows.events, strict=False):
        assert (seen[0], seen[1]) == (given[0], given[1] + 2)  # applied, then seen
    assert rows.inputs[0][0] > 0  # stamped by real time, which simulated time follows here
    stamps = [row.time_ns for row in rows.inputs]
    assert stamps == sorted(stamps)


def test_inputs_at_a_wall_pace_are_stamped_by_real_time(kernel, rows):
    """After a quiet while an input has the simulated time of its call, not that of the latest step."""
    clock = FakeClock()
    host = Host(kernel, speed=1000, clock=clock)
    kernel.inputs |= {"x": lambda _: kernel.emit("applied", None), "late": lambda _: None}

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(host.run, 10 * NS)
            await anyio.sleep(0.005)
            clock.time = 3 * MS
            host.submit("x", None)
            await anyio.sleep(0.005)
            clock.time = 11 * MS
            host.submit("late", None)

    anyio.run(main)
    assert [row.time_ns for row in rows.inputs] == [3 * NS]
    assert rows.seen() == [(3 * NS, 1, "host", "applied", None)]
    assert kernel.now == 10 * NS


def test_inputs_before_and_between_runs(kernel, rows):
    """Inputs given while nothing runs wait for the next run and apply at the time that stands then."""
    host = Host(kernel)
    kernel.inputs |= dict.fromkeys(("early", "between"), lambda _: None)
    host.submit("early", None)
    anyio.run(host.run, 5)
    host.submit("between", None)
    anyio.run(host.run, 5)
    assert [row.kind for row in rows.inputs] == ["early"]
    anyio.run(host.run, 10)
    assert [(row.time_ns, row.kind) for row in rows.inputs] == [(0, "early"), (5, "between")]


# -- pace


def test_wall_and_virtual_pace_give_equal_rows(make_kernel):
    """Without measured effects and inputs the pace changes nothing in the record."""

    def run(**options: Any) -> list[object]:
        kernel, rows = make_kernel()
        for number in range(3):
            kernel.spawn(f"t{number}", ticker(kernel, 5, (100 + number) * MS))
            kernel.spawn(f"a{number}", ask(kernel, effect(latency_ns=130 * MS), 3))
        anyio.run(Host(kernel, **options).run, NS)
        found: list[object] = rows.all()
        return found

    assert run() == run(speed=20) == run(speed=1e8)


def test_wall_pace_takes_its_time(kernel, rows):
    """At a wall pace nothing runs before its real time, and how late it was is only a metric."""
    seen: list[tuple[int, float]] = []
    started = time.monotonic()

    async def actor() -> None:
        for _ in range(3):
            await sleep(1)
            seen.append((kernel.now, time.monotonic() - started))

    kernel.spawn("a", actor())
    host = Host(kernel, speed=50)
    anyio.run(host.run, 4 * NS)
    assert [simulated for simulated, _ in seen] == [NS, 2 * NS, 3 * NS]
    assert all(real >= simulated / NS / 50 for simulated, real in seen)
    assert time.monotonic() - started >= 0.08
    assert host.pacer.lag_ns >= 0


def test_a_late_host_catches_up_in_order(kernel, rows):
    """After a gap in real time what is overdue runs at its nominal times."""
    kernel.spawn("a", ticker(kernel, 5, NS))
    anyio.run(Host(kernel, speed=1, clock=FakeClock(step=100 * NS)).run, 6 * NS)
    assert [row.time_ns for row in rows.seen()] == [n * NS for n in range(1, 6)]


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf"), 1e9])
def test_speeds_that_make_no_sense_are_refused(kernel, speed):
    """A speed is above zero and finite."""
    with pytest.raises(UsageError, match="speed"):
        Host(kernel, speed=speed)


@pytest.mark.parametrize("cost", [0, 0.002])
@both_hosts
def test_the_host_program_gets_its_turns(make_kernel, backend, cost):
    """While the kernel is busy, with steps short or long, the event loop gets a turn every few
    milliseconds.
    """
    kernel, _ = make_kernel()
    turns: list[float] = []

    async def busy() -> None:
        while True:
            await sleep_ns(1)
            time.sleep(cost) if cost else None  # noqa: ASYNC251 - the step is meant to be slow

    async def main() -> None:
        for number in range(10):
            kernel.spawn(f"a{number}", busy())
        host = Host(kernel)
        async with anyio.create_task_group() as group:
            group.start_soon(host.run, FOREVER)
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                turns.append(time.monotonic())
                await anyio.lowlevel.checkpoint()
            host.suspend()

    anyio.run(main, backend=backend)
    assert len(turns) >= 5  # it ran for a fifth of a second: a host that keeps its turns to itself gives one


# -- the run as a whole


@both_hosts
def test_errors_leave_the_host_as_they_are(make_kernel, backend):
    """What stops a run comes out as itself, not wrapped in a group, and the kernel can go on."""
    kernel, rows = make_kernel()

    async def crash() -> None:
        await sleep_ns(150 * MS)
        raise ValueError("broken")

    kernel.spawn("crash", crash())
    kernel.spawn("t", ticker(kernel, 3))
    with pytest.raises(ValueError, match="broken"):
        anyio.run(Host(kernel).run, NS, backend=backend)
    assert anyio.run(Host(kernel).run, NS, backend=backend) is Pause.LIMIT
    assert len(rows.events) == 3


@both_hosts
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupts_stop_the_run(make_kernel, backend, error):
    """An interrupt that an actor meets stops the run as itself."""
    kernel, _ = make_kernel()

    async def fail() -> None:
        raise error

    kernel.spawn("a", fail())
    with pytest.raises(error):
        anyio.run(Host(kernel).run, NS, backend=backend)


@both_hosts
def test_a_cancelled_host_program(make_kernel, backend):
    """If the program around the host is cancelled, the run stops and its effects are recorded as
    abandoned.
    """
    kernel, rows = make_kernel()

    async def main() -> None:
        with anyio.move_on_after(0.02) as scope:
            await Host(kernel).run(FOREVER)
        assert scope.cancelled_caught

    kernel.spawn("asker", ask(kernel, effect(takes(60))))
    anyio.run(main, backend=backend)
    assert [row.ending for row in rows.endings] == ["abandoned"]


def test_run_to_the_same_time_twice(kernel, rows):
    """Running to a time that has come does nothing; what is due there waits for a later end."""
    kernel.spawn("t", ticker(kernel, 2))
    host = Host(kernel)
    for _ in range(2):
        assert anyio.run(host.run, 100 * MS) is Pause.LIMIT
        assert (rows.events, kernel.now) == ([], 100 * MS)
    anyio.run(host.run, 100 * MS + 1)
    assert len(rows.events) == 1


def test_idle_is_the_end(kernel):
    """If nothing can ever happen the run ends, and time has passed to the end that was asked for, if any."""
    kernel.spawn("t", ticker(kernel, 1))
    assert anyio.run(Host(kernel).run, 900 * MS) is Pause.LIMIT
    assert kernel.now == 900 * MS
    assert anyio.run(Host(kernel).run, FOREVER) is Pause.LIMIT


@both_hosts
def test_run_actor(make_kernel, backend):
    """Plain code can run one actor to its end and gets its value or its error."""

    async def value() -> int:
        await sleep(3)
        return 7

    async def crash() -> None:
        raise ValueError("broken")

    async def endless() -> None:
        await Queue(kernel, 1).get()

    kernel, _ = make_kernel()
    assert run_actor(kernel, value(), backend=backend) == 7
    kernel, _ = make_kernel()
    with pytest.raises(ValueError, match="broken"):
        run_actor(kernel, crash(), backend=backend)
    kernel, _ = make_kernel()
    with pytest.raises(UsageError, match="never happens"):
        run_actor(kernel, endless(), backend=backend)


def test_many_effects_at_once(kernel, rows):
    """Outcomes that are due together come in the order of their actors, in whatever order they really
    came.
    """
    for number in range(20):
        kernel.spawn(f"a{number:02}", ask(kernel, effect(takes(0.02 - number * 0.001), latency_ns=NS)))
    anyio.run(Host(kernel).run, 2 * NS)
    assert rows.names() == [f"a{number:02}" for number in range(20)]


def test_first_of_with_effects_around(kernel, rows):
    """A timeout of another actor fires while an outcome that is due later is missing, but none due after it
    does.
    """
    queue = Queue(kernel, 1)

    async def waiter(delay: int) -> None:
        await first_of_ns(queue, timeout_ns=delay)
        kernel.emit("timeout", None)

    kernel.spawn("asker", ask(kernel, effect(takes(0.03), latency_ns=50)))
    for delay in (40, 50, 60):
        kernel.spawn(f"w{delay}", waiter(delay))
    anyio.run(Host(kernel).run, NS)
    order = [(row.time_ns, row.actor) for row in rows.seen()]
    assert (order[0], order[3]) == ((40, "w40"), (60, "w60"))
    assert set(order[1:3]) == {(50, "asker"), (50, "w50")}


def test_the_watchdog_reports_a_stuck_step(kernel):
    """A step that does not yield is reported once, with its actor and where it is."""
    reports: list[Stuck] = []

    async def stuck_here() -> None:
        await sleep(1)
        end = time.monotonic() + 0.25
        while time.monotonic() < end and not reports:
            pass

    kernel.spawn("fine", ticker(kernel, 3))
    kernel.spawn("victim", stuck_here())
    with Watchdog(kernel, reports.append, threshold=0.05):
        kernel.run()
    assert [report.actor for report in reports] == ["victim"]
    assert "stuck_here" in reports[0].stack


# -- what the record must be able to rely on


class FullDisk(NullRecorder):
    """What is recorded becomes durable a number of times, and then no more."""

    def __init__(self, left: int) -> None:
        self.left = left

    def durable(self, done: Durable, /) -> None:
        self.left -= 1
        done(RunError("the disk is full") if self.left < 0 else None)


@both_hosts
@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"latency_ns": 5 * MS}])
def test_a_failed_commit_ends_the_run(backend, left, options):
    """Whatever waits for a commit that fails, an intent, a result or an arrival, the run ends with the failure."""
    kernel = Kernel(recorder=FullDisk(left))
    kernel.spawn("asker", ask(kernel, effect(**options), 10))

    async def main() -> None:
        with anyio.fail_after(20):
            await Host(kernel).run(NS)

    with pytest.raises(RunError, match="the disk is full"):
        anyio.run(main, backend=backend)


@both_hosts
@pytest.mark.parametrize("options", [{}, {"latency_ns": 5 * MS}])
def test_a_result_that_cannot_be_recorded_ends_the_run(backend, options):
    """When a recorder refuses a result the run ends with that one error, not with a group of them."""

    class Refuses(NullRecorder):
        def result(self, row: ResultRow, /) -> None:
            raise RunError("nothing can be written any more")

    kernel = Kernel(recorder=Refuses())
    kernel.spawn("asker", ask(kernel, effect(**options)))
    with pytest.raises(RunError, match="nothing can be written"):
        anyio.run(Host(kernel).run, NS, backend=backend)


@both_hosts
@pytest.mark.parametrize("options", [{}, {"latency_ns": 5 * MS}])
def test_what_is_asked_for_is_what_is_on_record(make_kernel, backend, options):
    """A request is taken as it is when the effect begins: neither its agent nor the work can change it later."""
    kernel, rows = make_kernel()
    history = ["a"]
    sent: list[list[str]] = []

    async def call(request: Any, key: str) -> None:
        await anyio.lowlevel.checkpoint()
        sent.append([*request])
        request.append("added by the work")

    async def asker() -> None:
        await perform(Effect("test", history, call, **options))

    async def other() -> None:
        history.append("added by another actor")

    kernel.spawn("asker", asker())
    kernel.spawn("other", other())
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert sent == [["a"]]
    assert history == ["a", "added by another actor"]
    assert [row.request_hash for row in rows.intents] == [hash_request("test", encode(["a"]))]


@pytest.mark.parametrize("options", [{}, {"latency_ns": 5 * MS}])
def test_keys_of_runs_that_are_not_kept_differ(make_kernel, options):
    """Two runs without a record do the same work, and no service may take the second one for a repetition."""
    keys: list[str] = []

    async def call(request: Any, key: str) -> None:
        keys.append(key)

    for _ in range(2):
        kernel, _ = make_kernel()
        kernel.spawn("asker", ask(kernel, effect(call, safety="idempotent", **options), 2))
        anyio.run(Host(kernel).run, NS)
    assert len(set(keys)) == 4


@both_hosts
def test_effects_end_with_a_run_that_nobody_entered(make_kernel, backend):
    """Outside `async with` a run that is suspended leaves nothing in flight that would be waited for later."""
    kernel, rows = make_kernel()
    host = Host(kernel)

    async def suspends() -> None:
        host.suspend()

    async def main() -> None:
        with anyio.fail_after(20):
            assert await host.run(NS) is Pause.BUDGET
            assert [row.ending for row in rows.endings] == ["abandoned"]
            assert await host.run(NS) is Pause.LIMIT

    kernel.spawn("asker", ask(kernel, effect(latency_ns=5 * MS)))
    kernel.spawn("suspends", suspends())
    anyio.run(main, backend=backend)
    assert not kernel.effects.in_flight


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"latency_ns": 0.5e9}, "the latency of 'test' must be a whole number of nanoseconds from 0, not 500000000.0"),
        ({"latency_ns": True}, "the latency of 'test' must be a whole number"),
        ({"latency_ns": -1}, "the latency of 'test' .* not -1"),
        ({"latency_ns": float("nan")}, "the latency of 'test' .* not nan"),
        ({"latency_ns": 2**63}, "the latency of 'test'"),
        ({"deadline_ns": 0}, "the deadline of 'test' must be a whole number of nanoseconds above 0, not 0"),
        ({"deadline_ns": -5}, "the deadline of 'test' .* not -5"),
        ({"deadline_ns": 1.5}, "the deadline of 'test' .* not 1.5"),
        ({"deadline_ns": 2**63}, "the deadline of 'test'"),
        ({"timeout": 0}, "the timeout of 'test' must be a finite number of seconds, not 0"),
        ({"timeout": float("inf")}, "the timeout of 'test' .* not inf"),
        ({"timeout": float("nan")}, "the timeout of 'test' .* not nan"),
        ({"safety": "puer"}, "the safety of 'test' must be one of pure, idempotent, unsafe, not 'puer'"),
    ],
)
def test_effects_are_checked_when_they_are_made(options, sentence):
    """A time that is none and a safety that does not exist are refused by name, before they can be recorded."""
    with pytest.raises(UsageError, match=sentence):
        effect(**options)


@both_hosts
def test_outcomes_of_one_moment_share_a_commit(make_kernel, backend):
    """Effects that end together ask the recorder once, and all get their outcomes."""
    asked = list[int]()

    class Counting(NullRecorder):
        def durable(self, done: Durable, /) -> None:
            asked.append(len(asked))
            done(None)

    kernel, ended, go = Kernel(recorder=Counting()), list[object](), anyio.Event()

    async def call(request: Any, key: str) -> int:
        if request == 9:
            go.set()
        await go.wait()
        return int(request)

    async def asker(number: int) -> None:
        ended.append((await perform(Effect("test", number, call, latency_ns=5 * MS))).value)

    for number in range(10):
        kernel.spawn(f"asker{number}", asker(number))
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert ended == list(range(10))
    assert len(asked) == 2  # for the intents, and for the outcomes


class CountingRecorder(NullRecorder):
    """A recorder that counts how often it is asked for what is on disk."""

    def __init__(self) -> None:
        self.asked = 0

    def durable(self, done: Durable, /) -> None:
        self.asked += 1
        done(None)


@both_hosts
@pytest.mark.parametrize("alike", [True, False], ids=["due together", "due one after another"])
def test_outcomes_wait_for_the_one_without_which_time_stands_still(monkeypatch, backend, alike):
    """While many effects are under way, outcomes that are due no earlier than a missing one wait for it, and share its
    commit. An outcome with which simulated time can go on does not wait for those that are due later.
    """
    monkeypatch.setattr(effect_tasks, "_TOGETHER", 0.01)
    monkeypatch.setattr(effect_tasks, "_WAITS", 10_000)
    recorder, ended, before = CountingRecorder(), list[object](), list[int]()
    kernel = Kernel(recorder=recorder)

    async def late(request: Any, key: str) -> Any:
        if alike:
            await anyio.sleep(0.06)
        else:
            with anyio.fail_after(60):  # real seconds: without what is tested, they would never come
                while len(ended) < 5:  # noqa: ASYNC110 - actors of the kernel cannot set events of trio
                    await anyio.sleep(0.001)
        before.append(len(ended))
        return request

    async def asker(number: int) -> None:
        call, latency = (echo if number < 5 else late), (5 if alike else 5 + number) * MS
        ended.append((await perform(Effect("test", number, call, latency_ns=latency))).value)

    for number in range(11):
        kernel.spawn(f"asker{number}", asker(number))
    anyio.run(Host(kernel).run, NS, backend=backend)
    assert ended == list(range(11))
    assert before[0] == (0 if alike else 5)
    assert recorder.asked == 2 if alike else recorder.asked > 2  # for the intents, and for the outcomes


@both_hosts
def test_effects_that_begin_while_others_are_under_way_share_a_commit(monkeypatch, backend):
    """Effects that actors begin at one instant are started in each slice until many are under way. Those that begin
    soon after wait for the end of the instant, and share a commit.
    """
    monkeypatch.setattr(effect_tasks, "_TOGETHER", 3600.0)
    recorder, ended = CountingRecorder(), list[object]()
    kernel, go = Kernel(recorder=recorder), anyio.Event()
    host = Host(kernel)
    host._slicer.take_steps(1)

    async def call(request: Any, key: str) -> int:
        if request == 39:
            go.set()
        await go.wait()
        return int(request)

    async def asker(number: int) -> None:
        ended.append((await perform(Effect("test", number, call, deadline_ns=FOREVER))).value)

    for number in range(40):
        kernel.spawn(f"asker{number}", asker(number))
    anyio.run(host.run, NS, backend=backend)
    assert len(ended) == len(set(ended)) == 40
    assert recorder.asked < 20


@both_hosts
def test_an_error_of_the_recorder_within_an_effect_ends_the_run(backend):
    """An error that comes up while an outcome is recorded, and is none of the work, is raised by the run as it is."""

    class Failing(NullRecorder):
        def result(self, row: ResultRow, /) -> None:
            raise LookupError("no place for it")

    kernel = Kernel(recorder=Failing())
    kernel.spawn("asker", perform(effect(latency_ns=MS)))
    with pytest.raises(LookupError, match="no place"):
        anyio.run(Host(kernel).run, NS, backend=backend)

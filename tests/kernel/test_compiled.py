"""What runs in C keeps to what the same functions say in Python. All of this holds without a compiler, too."""

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import Cancelled
from sim.kernel import COMPILED, Kernel, Queue, Signal, first_of_ns
from sim.kernel.waits import sleep_ns
from sim.resources import Resource

ROOT = Path(__file__).parents[2]
PROGRAMS = 60

BEGIN = """
import datetime, gc, importlib, math, sys, threading, time, weakref
if {plain}:
    sys.modules["sim.kernel.compiled._core"] = None
import sim.kernel
from sim.events import EventBus
from sim.kernel import Kernel, Queue, Signal, first_of_ns
from sim.kernel.waits import sleep_ns
from sim.resources import Limit, Rate, RateTracker
kernel = Kernel()
queue = Queue(kernel, 999)
"""

COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]


def test_the_slots_that_the_c_reads_are_those_of_the_classes():
    """A slot that was added to a class of the kernel, or removed, is in the list of the compiled part, too."""
    checked = subprocess.run([sys.executable, ".ci/layout.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason="there is no compiler here")
def test_what_can_be_compiled_is_compiled():
    """Where there is the compiler that Python was made with, the core is compiled, unless `SIM_PLAIN` hides it."""
    assert COMPILED is ("SIM_PLAIN" not in os.environ)


HARSH = {
    "waits within waits die together": """
spare = [queue.get() for _ in range(60)]
wait = queue.get()
for _ in range(40):
    outer = Queue(kernel, 9)
    outer.put_nowait(wait)
    wait = outer.get()
del outer, spare, wait
print(len({id(wait) for wait in [queue.get() for _ in range(300)]}) > 1)
""",
    "a wait is made while the collector clears others": """
made, code = [], compile("0", "", "eval")  # the collector does not know code, so it ends amid what is cleared
guard = weakref.ref(code, lambda _: made.append(queue.get()))
queue.put_nowait("item")
parts = [code]
parts.append(sleep_ns(parts))
gc.disable()
del parts, code
gc.collect()
try:
    made[0].send(None)
except StopIteration as stop:
    print(stop.value)
""",
    "who waits for a queue changes while an item is put": """
class Last:
    def __del__(self):
        for actor in many:
            queue.arm(kernel, actor)

async def brief():
    await first_of_ns(queue, timeout_ns=1)
    return Last()

async def putter():
    for _ in range(600):  # until nothing but the queue knows who waited briefly
        await sleep_ns(2)
    print(queue.put_nowait("item"))

many = [kernel.spawn(f"a{number}", sleep_ns(10**6)) for number in range(40)]
kernel.spawn("brief", brief(), on_exit=lambda *_: None)
kernel.spawn("putter", putter())
print(kernel.run(10**5).name)
""",
    "making a registration runs the collector": """
class Last:
    def __init__(self):
        self.me = self

    def __del__(self):
        gc.disable()
        for actor in many:
            queue.arm(kernel, actor)

async def getter():
    gc.disable()
    queue.arm(kernel, many[0])
    wait = queue.get()
    Last()
    kept = [(number, number) for number in range(5000)]  # so that no tuple is left over
    gc.set_threshold(1)
    gc.enable()
    await wait

many = [kernel.spawn(f"a{number}", sleep_ns(10**6)) for number in range(40)]
kernel.spawn("getter", getter())
print(kernel.run(10**5).name)
""",
    "what a limit costs is looked up by something odd": """
class Key(str):
    def __hash__(self):
        return hash("calls")

    def __eq__(self, other):
        tracker.forget("a")  # the windows that are being looked at go
        tracker._tallies.clear()
        return False

tracker = RateTracker(kernel)
for name in ("calls", "tokens", "bytes"):
    tracker.set_limit(name, Limit(agent=Rate(5, 1000)))
print(tracker.blocked("a"), tracker.blocked_by("a", {Key("z"): 1}), tracker.consume("a", Key("calls")))
""",
    "what is told changes the kernel while it is encoded": """
class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        global kernel
        bus.kernel, kernel = other, None
        gc.collect()
        return datetime.timedelta(0)

other, bus = Kernel(), EventBus(kernel)
bus.publish("a")
try:
    bus.tell("a", datetime.datetime(2020, 1, 1, tzinfo=Zone()))
except Exception as error:
    print(error)
print(bus.counts)
""",
    "whose event it is says something odd": """
class Name:
    def __bool__(self):
        kernel._entry = None
        return True

print(kernel.emit("topic", None, Name()))
""",
    "kernels run in several threads": """
class Slow:
    def __init__(self, place):
        self.place = place

    def __del__(self):
        time.sleep(0)  # lets another thread run, as closing a file does

def work(name):
    kernel = Kernel()
    queue = Queue(kernel, 9)

    async def life():
        for number in range(500):
            queue.put_nowait(Slow((name, number)))
            item = await queue.get()
            assert item.place == (name, number)
            del item
            waits = [sleep_ns(Slow(None)) for _ in range(70)] if number % 50 == 0 else None
            del waits
            await sleep_ns(number % 2)

    kernel.spawn("life", life())
    done.append(kernel.run().name)

done = []
threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(done)
""",
    "the package is loaded anew": """
importlib.reload(sim.kernel)
actor = kernel.spawn("a", queue.get())
kernel.call_at(1, lambda: queue.put_nowait("item"))
print(kernel.run().name, actor.exit.value)
""",
    "there is no last item": """
queue = Queue(kernel, math.inf)
print([queue.put_nowait(number) for number in range(3)])
""",
    "somebody acts who is no source": """
class Stranger:
    name, ordinal, rank, counter = "stranger", 7, 7, 0

actor = kernel.spawn("a", queue.get())
kernel.call_at(1, lambda: queue.put_nowait("item"), Stranger())
print(kernel.run().name, actor.exit.value)
""",
    "what was never made whole is used": """
def told(action):
    try:
        return action()
    except AttributeError as error:
        return "AttributeError"

async def half(wait, *parts):
    for owner, part in parts:
        delattr(owner, part)
    return told(lambda: wait.send(None))

signal = Signal(kernel)
print([told(action) for action in (
    lambda: Queue.__new__(Queue).put_nowait(1), lambda: Queue.__new__(Queue).get().send(None),
    lambda: Signal.__new__(Signal).wait().send(None),
)])
actors = [
    kernel.spawn("a", half(signal.wait(), (signal, "_crowd"))), kernel.spawn("b", half(queue.get(), (queue, "items"))),
]
print(kernel.run().name, [actor.exit.value for actor in actors])
""",
}


def run(code: list[str]) -> str:
    """Run Python in a child and return what it printed."""
    child = [sys.executable, "-W", "ignore", "-X", "faulthandler", *code]
    ended = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing was compiled")
def test_same_programs_take_the_same_course():
    """Random programs, with all that can go wrong in them, run in C as in Python: order, counters, errors, pauses."""
    compiled, plain = (
        run(["-m", "tests.kernel.programs", how, "0", str(PROGRAMS)]).splitlines() for how in ("compiled", "plain")
    )
    assert len(plain) == PROGRAMS
    assert compiled == plain  # `programs.py --show` tells more


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing was compiled")
@pytest.mark.parametrize("name", HARSH)
def test_harsh_use_ends_as_in_python(name):
    """Whatever code runs in the middle of a call, and whatever is wrong with its objects, the process goes on."""
    compiled, plain = (run(["-c", BEGIN.format(plain=plain) + HARSH[name]]) for plain in (False, True))
    assert compiled == plain
    assert compiled


SIGNATURES = """
import inspect
from sim.resources import Resource
for function in (
    Kernel.emit, Kernel.wake, Queue.get, Queue.put_nowait, Signal.wait, Resource.acquire, Resource.release,
    EventBus.report, RateTracker.blocked, RateTracker.blocked_by, RateTracker.consume,
):
    parameters = [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
    print(function.__name__, parameters, inspect.getdoc(function))
"""


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing was compiled")
def test_functions_in_c_are_documented_as_in_python():
    """Names and defaults of parameters, and docstrings, are those of the functions in Python."""
    compiled, plain = (run(["-c", BEGIN.format(plain=plain) + SIGNATURES]) for plain in (False, True))
    assert compiled == plain
    assert "Add an item" in compiled


@pytest.mark.parametrize("kind", ["get", "armed", "wait", "sleep", "put", "first_of_ns"])
def test_dropped_kernel_is_collected(kind):
    """Nothing keeps a kernel that nobody knows any more, whatever its actors wait for."""

    def drop() -> Callable[[], object]:
        kernel = Kernel()
        queue, full, signal = Queue(kernel, 1), Queue(kernel, 1), Signal(kernel)
        full.put_nowait(kernel)

        async def life() -> None:
            waits: dict[str, Callable[[], Any]] = {
                "get": queue.get, "armed": queue.get, "wait": signal.wait, "sleep": lambda: sleep_ns(5),
                "put": lambda: full.put(kernel), "first_of_ns": lambda: first_of_ns(queue, signal),
            }  # fmt: skip
            await waits[kind]()

        for name in "abc":  # the first makes the line that the others join
            kernel.spawn(name, life())
        kernel.run(3)
        return weakref.ref(kernel)

    dropped = drop()
    gc.collect()
    assert dropped() is None


@pytest.mark.parametrize("how", ["by hand", "begin_now", "while it is cancelled"])
def test_nothing_keeps_what_a_wait_returned(how):
    """What a wait has returned is kept by nobody but who asked for it, and so is the frame of who asked."""

    def drop() -> Callable[[], object]:
        kernel = Kernel()
        queue, signal = Queue(kernel, 1), Signal(kernel)

        async def take() -> None:
            queue.put_nowait(kernel)
            await queue.get()

        async def take_last() -> None:
            try:
                await signal.wait()
            finally:
                await take()

        if how == "by hand":
            queue.put_nowait(kernel)
            assert driven(queue.get()) is kernel
        elif how == "begin_now":
            kernel.begin_now(kernel.adopt("a"), take())
        else:
            actor = kernel.spawn("a", take_last())
            kernel.call_at(1, lambda: kernel.cancel(actor))
            kernel.run()
        return weakref.ref(kernel)

    dropped = drop()
    gc.collect()
    assert dropped() is None


def driven(wait: Any) -> object:
    """Drive a wait by hand and return what it returns at once."""
    try:
        wait.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it did not return")


def test_end_of_an_item_changes_no_other_wait():
    """What a wait returns is not changed by what the end of an item that was returned before does."""

    class Last:
        def __del__(self) -> None:
            other.put_nowait("wrong")
            assert driven(other.get()) == "wrong"

    kernel = Kernel()
    queue, other = Queue(kernel, 2), Queue(kernel, 2)
    got: list[object] = []

    async def life() -> None:
        for item in (Last(), "right"):
            queue.put_nowait(item)
        del item
        await queue.get()
        got.append(await queue.get())

    kernel.spawn("a", life())
    kernel.run()
    kernel.current = kernel.scenario
    for item in (Last(), "right"):
        queue.put_nowait(item)
    driven(queue.get())
    got.append(driven(queue.get()))
    assert got == ["right", "right"]


def test_end_of_a_wait_is_an_error_of_its_own():
    """What is written on the StopIteration of one wait is not found on that of another."""
    queue = Queue(Kernel(), 2)
    seen = list[StopIteration]()
    for number in range(2):
        queue.put_nowait(number)
        with pytest.raises(StopIteration) as caught:
            queue.get().send(None)
        caught.value.add_note(f"note {number}")
        seen.append(caught.value)
    assert [stop.value for stop in seen] == [0, 1]
    assert [stop.__notes__ for stop in seen] == [["note 0"], ["note 1"]]


@pytest.mark.parametrize("kind", ["get", "wait", "sleep", "acquire"])
def test_wait_by_hand(kind):
    """A wait can be driven by hand like a coroutine: it yields once, raises what is thrown in, and stays over."""
    kernel = Kernel()
    queue, signal, slots = Queue(kernel, 1), Signal(kernel), Resource(kernel, 1)
    slots.acquire_nowait()
    makes: dict[str, Callable[[], Any]] = {
        "get": queue.get, "wait": signal.wait, "sleep": lambda: sleep_ns(7), "acquire": slots.acquire,
    }  # fmt: skip
    make = makes[kind]
    wait = make()
    wait.send(None)
    with pytest.raises(StopIteration):
        wait.send(None)
    for use in (lambda: wait.send(None), lambda: wait.throw(KeyError())):
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            use()
    for yielded in (0, 1):
        wait = make()
        for _ in range(yielded):
            wait.send(None)
        with pytest.raises(Cancelled, match="enough"):
            wait.throw(Cancelled("enough"))
        wait = make()
        for _ in range(yielded):
            wait.send(None)
        wait.close()
        with pytest.raises(RuntimeError, match="cannot reuse"):
            wait.send(None)
    wait = make()
    with pytest.raises(TypeError):
        wait.throw(5)
    wait.close()


def test_wait_is_the_life_of_an_actor():
    """An actor may have nothing but a wait for its life; it ends with what the wait returns, or is cancelled."""
    kernel = Kernel()
    queue, signal = Queue(kernel, 1), Signal(kernel)
    makes: list[Callable[[], Any]] = [queue.get, signal.wait, lambda: sleep_ns(9)]
    kept = [kernel.spawn(f"kept {place}", make()) for place, make in enumerate(makes)]
    lost = [kernel.spawn(f"lost {place}", make()) for place, make in enumerate(makes)]
    for actor in lost:
        kernel.call_at(1, lambda actor=actor: kernel.cancel(actor))  # type: ignore[misc]
    kernel.call_at(2, lambda: queue.put_nowait("item"))
    kernel.call_at(2, lambda: signal.fire("value"))
    kernel.run()
    assert [actor.exit and (actor.exit.kind, actor.exit.value) for actor in (*kept, *lost)] == [
        ("returned", "item"), ("returned", "value"), ("returned", None), *[("cancelled", None)] * 3,
    ]  # fmt: skip


def test_wait_is_awaited_once():
    """A wait that is over cannot be awaited again, as with every coroutine: a queue has a new wait for each item."""
    kernel = Kernel()
    queue = Queue(kernel, 1)
    queue.put_nowait("item")

    async def life() -> object:
        wait = queue.get()
        item = await wait
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await wait
        return item

    actor = kernel.spawn("a", life())
    kernel.run()
    assert actor.exit is not None
    assert actor.exit.value == "item"

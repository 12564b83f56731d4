"""Agents with one mistake each, as a researcher makes it: something that is not the same when a run is made again.

Each does nothing harmful until 2 s, and its mistake then. `SHOWS` says where the difference shows: in an event, in what
an effect asks for, or only in the state at the end.

As a program it records a run of each (`record FOLDER`), or replays them (`replay FOLDER`) under whatever environment
it was started with, and writes what came of it as JSON.
"""

import gc
import json
import os
import random
import sys
import threading
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import anyio.lowlevel

from sim.actors import Agent
from sim.kernel import NS, Effect, perform
from sim.record.verifying_recorder import PARTS, Part
from sim.runner import replay, run
from sim.world import NOOP, Action

NAMES = {"anna", "ben", "carla", "dario", "emma", "felix", "greta", "hugo"}

SCENARIO = """\
name: planted
until: 6s
execution: {agent_loop: {min_loop_delay: 1s}}
agents: [{name: a, count: 3, kind: planted}]
"""


async def answer(request: Any, key: str) -> Any:
    """What the services of these agents answer."""
    await anyio.lowlevel.checkpoint()
    return "yes"


class Planted(Agent):
    """Does something wrong in its third turn, at 2 s."""

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        return await self.plant() if turn == 3 else NOOP

    async def plant(self) -> Action:
        """Do something wrong."""
        raise NotImplementedError

    async def ask(self, request: Any) -> Action:
        """Ask a service, and do nothing with its answer."""
        await perform(Effect("ask", request, answer, latency_ns=NS // 10, safety="pure"))
        return NOOP

    def tell(self, data: Any) -> Action:
        """Tell the world."""
        return Action("publish", {"topic": "planted.here", "data": data})

    def keep(self, value: Any) -> Action:
        """Remember it."""
        self.state["kept"] = value
        return NOOP


class WallClock(Planted):
    """Stamps its news with the clock on the wall, instead of `world.now`."""

    async def plant(self) -> Action:
        return self.tell({"written_at": time.time()})


class GlobalRandom(Planted):
    """Draws from the module `random`, which nobody seeds, instead of `self.rng`."""

    async def plant(self) -> Action:
        return self.tell({"mood": random.random()})


class RandomId(Planted):
    """Gives its request an id of its own."""

    async def plant(self) -> Action:
        return await self.ask({"id": uuid.uuid4().hex, "prompt": "hello"})


class SetOrder(Planted):
    """Puts a set into its prompt."""

    async def plant(self) -> Action:
        return await self.ask({"prompt": "Your friends are " + ", ".join({*NAMES})})


class Address(Planted):
    """Tells things apart by where they lie in memory."""

    async def plant(self) -> Action:
        return self.keep(id(self))


class HashOfText(Planted):
    """Puts itself into one of many groups by `hash`."""

    async def plant(self) -> Action:
        return self.keep(hash(self.agent_id) % 1_000_003)


class CompletionOrder(Planted):
    """Has the work of an effect write down who was ready first, instead of what the effects return."""

    ready: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.ready.clear()

    async def plant(self) -> Action:
        await perform(Effect("work", None, self._work, latency_ns=NS // 10, safety="pure"))
        return self.keep([*self.ready])

    async def _work(self, request: Any, key: str) -> None:
        for _ in range(10 * (9 - int(self.agent_id[-1]))):
            await anyio.lowlevel.checkpoint()
        self.ready.append(self.agent_id)


class ThreadOrder(Planted):
    """Computes in threads, and takes the results as they come. Which comes first is up to the machine; here that is a
    setting, for nobody can wait until a machine changes its mind.
    """

    async def plant(self) -> Action:
        results: list[int] = []
        turns = {number: threading.Event() for number in range(4)}
        order = [*turns] if os.environ.get("PLANTED_PACE") != "reversed" else [*turns][::-1]
        following = dict(pairwise(order))

        def compute(number: int) -> None:
            turns[number].wait(10)
            results.append(number * number)
            if number in following:
                turns[following[number]].set()

        threads = [threading.Thread(target=compute, args=(number,)) for number in turns]
        for thread in threads:
            thread.start()
        turns[order[0]].set()
        for thread in threads:
            thread.join()
        return self.tell({"first": results[0]})


class Environment(Planted):
    """Reads a setting from the environment."""

    async def plant(self) -> Action:
        return await self.ask({"model": os.environ.get("PLANTED_MODEL", "small")})


class Finaliser(Planted):
    """Counts what has been thrown away, in a `__del__` that the garbage collector calls when it likes."""

    async def plant(self) -> Action:
        self.state["gone"] = 0

        class Draft:
            def __init__(self, agent: Agent) -> None:
                self.agent, self.me = agent, self  # a cycle: only the collector can free it

            def __del__(self) -> None:
                self.agent.state["gone"] += 1

        for _ in range(10):
            Draft(self)
        self.pages = [[number] for number in range(300_000)]  # the collector looks after so many new objects
        return NOOP


class DirectoryOrder(Planted):
    """Takes files in the order in which the file system lists them."""

    async def plant(self) -> Action:
        found = os.listdir(Path(os.environ["PLANTED_FILES"]))  # noqa: PTH208 - what a researcher writes
        return self.tell({"files": found})


class FloatOrder(Planted):
    """Adds floats in the order of a set."""

    async def plant(self) -> Action:
        total = 0.0
        for name in {*NAMES}:
            total += 10.0 ** (2 * sum(map(ord, name)) % 17) / 3
        return self.keep(total)


class FloatSum(Planted):
    """Adds floats with `sum`, which rounds in another way from Python 3.12 on, instead of `math.fsum`."""

    async def plant(self) -> Action:
        return self.tell({"total": sum([0.1] * 10)})


class Careful(Planted):
    """Does all of that as it should be done."""

    async def plant(self) -> Action:
        await self.ask({"id": f"{self.agent_id}-{self.world.now}", "friends": sorted(NAMES), "draw": self.rng.random()})
        return self.tell({"at": self.world.now, "mood": self.rng.random()})


SHOWS: dict[type[Planted], Part] = {
    WallClock: "events",
    GlobalRandom: "events",
    RandomId: "requests",
    SetOrder: "requests",
    Address: "digest",
    HashOfText: "digest",
    CompletionOrder: "digest",
    ThreadOrder: "events",
    Environment: "requests",
    Finaliser: "digest",
    DirectoryOrder: "events",
    FloatOrder: "digest",
    FloatSum: "events",
}
"""Which part of a replay detects the mistake; it is the only one that does."""

ALL: tuple[type[Planted], ...] = (*SHOWS, Careful)


def record(folder: Path) -> dict[str, Any]:
    """Record a run of each; return the folder of each."""
    scenario = folder / "planted.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    return {kind.__name__: run(scenario, out=folder / kind.__name__, kinds={"planted": kind}).run for kind in ALL}


def play(folder: Path) -> dict[str, Any]:
    """Replay each run with all detectors, without the one that finds it, and with that one alone."""
    results: dict[str, Any] = {}
    for kind in ALL:
        (recorded,) = (folder / kind.__name__).iterdir()
        part = SHOWS.get(kind, "events")
        choices = {"all": PARTS, "without": PARTS - {part}, "alone": frozenset((part,))}
        results[kind.__name__] = {
            name: replay(recorded, parts=parts, kinds={"planted": kind}).to_json() for name, parts in choices.items()
        }
    return results


def main(what: str, folder: str) -> None:
    """Record or replay."""
    if os.environ.get("PLANTED_GC") == "off":  # a program that knows better
        gc.disable()
    if os.environ.get("PLANTED_LISTING") == "reversed":  # another file system
        listed = os.listdir
        os.listdir = lambda path=".": sorted(listed(path), reverse=True)  # type: ignore[assignment]
    results = record(Path(folder)) if what == "record" else play(Path(folder))
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])

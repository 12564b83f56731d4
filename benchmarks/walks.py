"""How far five things travel through `sim`: calls, files, and hand-overs (calls from one file to another).

    uv run python -m benchmarks.walks --json walks.json

A count says what times cannot: how many places a reader meets on the way. Everything runs in Python alone, since a call
into C hands over what the count cannot see. It needs nothing but the public names of `sim`, so the same file can be
run in an older checkout.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

for name in ("sim.kernel.compiled._core", "sim._speedups._core"):  # the second one in older checkouts
    sys.modules[name] = None  # type: ignore[assignment]  # so the import fails, as if it were not there

import sim  # noqa: E402 - only now

SIM = str(Path(sim.__file__).parent)
SCENARIO = "name: walk\nuntil: 5s\nagents: {agents}\n{rest}"
AIMS = {"key": (45, 18), "publish": (13, 8), "wake": (14, 7), "ask": (70, 22), "trial": (800, 60)}
"""Of each walk: the most hand-overs, and the most files, that a rewrite of the way should leave."""


class Walk:
    """Counts what happens in `sim` between two moments."""

    def __init__(self, ends: Callable[[FrameType], bool] = lambda _: False) -> None:
        self.calls, self.between, self.files = 0, 0, set[str]()
        self.on, self.done, self._ends = False, False, ends

    def start(self) -> None:
        """Count from here on, once."""
        self.on = not self.done

    def stop(self) -> None:
        """Count no more."""
        self.done, self.on = self.done or self.on, False

    def seen(self, frame: FrameType, event: str, _: object) -> None:
        """Take in a call, as `sys.setprofile` reports it."""
        if event != "call":
            return
        if self.on and self._ends(frame):
            self.stop()
        file = frame.f_code.co_filename
        if self.on and file.startswith(SIM):
            self.calls += 1
            self.files.add(file)
            caller = frame.f_back
            self.between += caller is None or caller.f_code.co_filename != file

    def of(self, program: Callable[[], object]) -> "Walk":
        """Run a program and return the count."""
        sys.setprofile(self.seen)
        try:
            program()
        finally:
            sys.setprofile(None)
        return self

    def figures(self, less: "Walk | None" = None) -> dict[str, int]:
        """Return the figures, without those of a walk that did all but one thing."""
        base = less or Walk()
        files = len(self.files) if less is None else len(self.files - base.files)
        return {"calls": self.calls - base.calls, "hand-overs": self.between - base.between, "files": files}


def _recorded(topic: str) -> Callable[[FrameType], bool]:
    """Return whether a call hands an event of a topic to the recorder."""

    def ends(frame: FrameType) -> bool:
        return frame.f_code.co_name == "event" and topic in frame.f_locals.get("row", ())

    return ends


def _run(path: Path, kinds: dict[str, type[sim.Agent]]) -> None:
    """Run a scenario.

    Raises:
        RuntimeError: if an action failed in it, as the way of an error is not the one to count.
    """
    result = sim.run(path, kinds=kinds, out=path.parent / "runs")
    if result.errors:
        raise RuntimeError(f"{result.errors} actions or iterations failed in {path}")


class Doer(sim.Agent):
    """Does one thing twice, 1 s apart, and then sleeps. The second time counts; the first prepares what is kept."""

    what: sim.Action
    walk: Walk
    starts_here = True

    async def decide_action(self) -> sim.Action:
        """Return the action, from which the walk is counted."""
        self.turn = getattr(self, "turn", 0) + 1
        if self.turn in (1, 3):
            if self.starts_here and self.turn == 3:
                self.walk.start()
            return self.what
        return sim.Action("sleep", {"condition": {"for": "1s" if self.turn == 2 else "60s"}})


class Sleeper(sim.Agent):
    """Sleeps until the event, twice. The second time it wakes, the walk ends."""

    walk: Walk

    async def decide_action(self) -> sim.Action:
        """End the walk, if it has begun."""
        self.walk.stop()
        return sim.Action("sleep", {"condition": {"event": "walk.said"}})


def _scenario(folder: Path, agents: str, rest: str = "") -> Path:
    path = folder / "walk.yaml"
    path.write_text(SCENARIO.format(agents=agents, rest=rest))
    return path


def _doing(folder: Path, walk: Walk, what: sim.Action, rest: str = "") -> dict[str, int]:
    Doer.what, Doer.walk, Doer.starts_here = what, walk, True
    path = _scenario(folder, "[{name: a, kind: doer}]", rest)
    return walk.of(lambda: _run(path, {"doer": Doer})).figures()


def key(folder: Path) -> dict[str, int]:
    """From the key `min_loop_delay` of a file to the agent that has it: what a file with it needs more than without."""
    from sim.scenario import loads

    found = []
    for loop in ("", ", loop: {min_loop_delay: 2s}"):
        text = _scenario(folder, f"[{{name: a, rules: [{{do: noop}}]{loop}}}]").read_text()
        walk = Walk()
        walk.start()
        loads(text)  # whatever is made at the first use
        found.append(walk.of(lambda text=text: loads(text)))  # type: ignore[misc]  # called at once
    return {**found[1].figures(found[0]), "files": len(found[1].files)}


def publish(folder: Path) -> dict[str, int]:
    """From the decision to publish to the recorder."""
    return _doing(folder, Walk(_recorded("walk.said")), sim.Action("publish", {"topic": "walk.said", "data": 1}))


def wake(folder: Path) -> dict[str, int]:
    """From the recorded event to the agent that slept until it."""
    walk = Walk()
    recorded, events = _recorded("walk.said"), 0

    def begins(frame: FrameType, event: str, argument: object) -> None:
        nonlocal events
        if event == "call" and recorded(frame):
            events += 1
            if events == 2:
                walk.start()
        walk.seen(frame, event, argument)

    Doer.what, Doer.walk, Doer.starts_here = sim.Action("publish", {"topic": "walk.said", "data": 1}), walk, False
    Sleeper.walk = walk
    path = _scenario(folder, "[{name: b, kind: sleeper}, {name: a, kind: doer, start: 1}]")
    sys.setprofile(begins)
    try:
        _run(path, {"doer": Doer, "sleeper": Sleeper})
    finally:
        sys.setprofile(None)
    return walk.figures()


def ask(folder: Path) -> dict[str, int]:
    """From the decision to ask a scripted model to the record of its answer."""
    rest = "models: {provider: scripted, rules: [{say: hello}]}"
    return _doing(folder, Walk(_recorded("action.ask")), sim.Action("ask", {"prompt": "Who?"}), rest)


def trial(folder: Path) -> dict[str, int]:
    """One trial of a sweep: what three seeds need more than two."""
    path = _scenario(folder, "[{name: a, rules: [{do: noop}], loop: {min_loop_delay: 1s}}]")
    found = []
    for number, seeds in enumerate((2, 2, 3)):
        walk = Walk()
        walk.start()
        to = folder / f"study-{number}"
        found.append(walk.of(lambda to=to, seeds=seeds: sim.sweep(path, seeds=seeds, jobs=1, out=to)))  # type: ignore[misc]  # called at once
    return {**found[2].figures(found[1]), "files": len(found[2].files)}


WALKS: dict[str, Callable[[Path], dict[str, int]]] = {
    "key": key, "publish": publish, "wake": wake, "ask": ask, "trial": trial,
}  # fmt: skip


def measured() -> dict[str, dict[str, Any]]:
    """Return calls, hand-overs and files of each walk, and its aims."""
    found: dict[str, dict[str, Any]] = {}
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            most, files = AIMS[name]
            found[name] = {**walk(Path(folder)), "aim": {"hand-overs": most, "files": files}}
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    found = measured()
    print(f"{'walk':8} {'calls':>6} {'hand-overs':>10} {'aim':>5} {'files':>6} {'aim':>5}")
    for name, one in found.items():
        most, files = one["aim"].values()
        print(f"{name:8} {one['calls']:6,} {one['hand-overs']:10,} {most:5,} {one['files']:6} {files:5}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

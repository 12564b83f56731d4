"""Runs small companies of employees, and says what they did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

import sim
from sim.kinds.sop import Channels, Sops
from sim.memory.service import Memories
from sim.record import open_run
from sim.runner import RunController
from sim.world import World

PEOPLE = """
agents:
  - name: clerk
    kind: employee
    settings: {title: Clerk Agent, channel: "#desk", interval: 5m}
  - {name: worker, kind: step_worker}
"""
JOBS = "  - {name: jobs, kind: recurring_jobs, settings: {summarise: null}}\n"


@attrs.frozen
class Company:
    """A run that has ended."""

    world: World
    result: sim.RunResult
    folder: Path

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a query; of single values if it has one column."""
        with open_run(self.folder, verify=False) as stored:
            found = stored.query(sql)
        return [row[0] if len(row) == 1 else tuple(row) for row in found]

    def posts(self, channel: str) -> list[tuple[float, str]]:
        """Return the time and the text of all posts of a channel."""
        return self.rows(f"SELECT time, text FROM channel_posts WHERE channel = '{channel}' ORDER BY id")  # noqa: S608

    def cycles(self, agent: str = "clerk") -> list[tuple[float, int, int, int]]:
        """Return time, new tasks of watchers, created and advanced tasks of each cycle."""
        columns = "time, new_triggers, created, advanced"
        return self.rows(f"SELECT {columns} FROM cycles WHERE agent = '{agent}' ORDER BY id")  # noqa: S608 - in a test

    @property
    def sops(self) -> Sops:
        """The employees."""
        return Sops.of(self.world)

    @property
    def channels(self) -> Channels:
        """The channels."""
        return Channels.of(self.world)

    @property
    def memories(self) -> Memories:
        """The memories."""
        return Memories.of(self.world)

    @property
    def statuses(self) -> list[str]:
        """The status of each task, in the words of the seed."""
        return [task.word or task.status for task in self.world.tasks.all()]


def inside(folder: Path, text: str, look: Callable[[World], None], at: str = "1s") -> Company:
    """Run a scenario, and call a function with its world within the run, by default after one second."""

    class Probe(sim.Agent):
        async def decide_action(self) -> sim.Action:
            look(self.world)
            return sim.Action("stop")

    return company(folder, f"{text}  - {{name: probe, kind: probe, start: {at}}}\n", kinds={"probe": Probe})


def company(folder: Path, text: str, **options: Any) -> Company:
    """Run a scenario to its end."""
    path, kept = folder / "company.yaml", list[RunController]()
    path.write_text(f"name: company\n{text}", encoding="utf-8")
    result = sim.run(path, out=folder / "runs", begun=kept.append, **options)
    return Company(kept[0].simulation.world, result, Path(result.run or ""))

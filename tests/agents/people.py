"""People who do what a list says, for scenarios of tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sim
from sim.record import open_run

Step = tuple[float, str, Mapping[str, Any]]
"""When a person acts, in seconds; the kind of action; its arguments."""


class Person(sim.Agent):
    """A person who does what a list says. How far it is, is in its state."""

    steps: Mapping[str, Sequence[Step]] = {}

    async def decide_action(self) -> sim.Action:
        """Do the next step if its time has come; else sleep until then."""
        done, steps = self.state.setdefault("done", 0), self.steps[self.agent_id]
        if done == len(steps):
            return sim.Action("sleep", {"condition": {"event": "nothing.happens"}})
        at, kind, arguments = steps[done]
        if self.world.now < at:
            return sim.Action("sleep", {"condition": {"until": at}})
        self.state["done"] = done + 1
        return sim.Action(kind, arguments)


def people(steps: Mapping[str, Sequence[Step]]) -> type[Person]:
    """Return the class of people who do this, by name."""
    return type("Person", (Person,), {"steps": steps})


def rows_of(folder: Path, sql: str) -> list[Any]:
    """Return the rows of a query on a run; of single values if it has one column."""
    with open_run(folder, verify=False) as stored:
        found = stored.query(sql)
    return [row[0] if len(row) == 1 else tuple(row) for row in found]

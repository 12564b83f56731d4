"""Runs small houses: a person with goals, and assistants that work for the person. It says what they did."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import sim
from sim.kinds.goals import Goals
from sim.runner import RunController
from sim.world import World
from tests.agents.people import Step, people, rows_of

GOAL = "goal-ana-1"
ASSISTANT = "helper-ana-1"
TASK = "task-goal-ana-1-1"

MONITOR = {"name": "monitor", "kind": "health_monitor"}
HELPER = {"name": "helper", "kind": "user_agent", "template": True}

MAKE: Step = (0, "create_goal", {"title": "Trip to Tokyo", "description": "In spring"})


def write(at: float, text: str, to: str = GOAL) -> Step:
    """Return the step of a person who writes to an agent."""
    return at, "write_to_agent", {"to": to, "text": text}


@attrs.frozen
class House:
    """A run that has ended."""

    world: World
    result: sim.RunResult
    folder: Path

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a query; of single values if it has one column."""
        return rows_of(self.folder, sql)

    def thread(self, agent: str = GOAL) -> list[tuple[str, str, str]]:
        """Return source, type and content of the messages of a thread."""
        columns = "source, message_type, content"
        return self.rows(f"SELECT {columns} FROM thread_messages WHERE agent = '{agent}' ORDER BY id")  # noqa: S608

    def history(self, agent: str = GOAL) -> list[tuple[str, str, str]]:
        """Return role, type and content of the entries of the history of a model."""
        return self.rows(f"SELECT role, type, content FROM model_history WHERE agent = '{agent}' ORDER BY id")  # noqa: S608

    def runs(self, agent: str = GOAL) -> list[tuple[str, str]]:
        """Return why each run began and how it ended."""
        return self.rows(f"SELECT reason, \"ending\" FROM goal_runs WHERE agent = '{agent}' ORDER BY id")  # noqa: S608

    def statuses(self, agent: str = GOAL) -> list[tuple[float, str]]:
        """Return when the status of an agent changed, and to what."""
        where = f"topic = 'goals.status' AND data ->> '$.agent' = '{agent}'"
        return self.rows(f"SELECT time, data ->> '$.status' FROM events WHERE {where} ORDER BY id")  # noqa: S608

    def found(self) -> list[tuple[float, str, str]]:
        """Return when the health monitor found what about which agent."""
        columns = "time, data ->> '$.agent', data ->> '$.found'"
        return self.rows(f"SELECT {columns} FROM events WHERE topic = 'goals.health' ORDER BY id")  # noqa: S608

    @property
    def goals(self) -> Goals:
        """The service."""
        return Goals.of(self.world)


def scenario(
    rules: Sequence[Any],
    *,
    until: str = "1h",
    goals: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    agents: Sequence[Mapping[str, Any]] = (),
    goal: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] | None = None,
    monitor: bool = True,
    **others: Any,
) -> dict[str, Any]:
    """Return a scenario with a person, a goal, tasks and a health monitor.

    Args:
        rules: the scripted answers of the model.
        until: the end of the run.
        goals: the section `goals`.
        models: further keys of `models`.
        agents: further agents.
        goal, task: the settings of the templates.
        monitor: whether there is a health monitor.
        others: further sections.
    """
    templates = [
        {"name": "goal", "kind": "goal", "template": True, "settings": dict(goal or {})},
        {"name": "task", "kind": "agent_task", "template": True, "settings": dict(task or {})},
        *([MONITOR] if monitor else []),
    ]
    return {
        "name": "house", "until": until, "conversations": {"level": "user"}, "memory": {}, "goals": dict(goals or {}),
        "models": {"rules": list(rules), **(models or {})}, **others,
        "agents": [*templates, *agents, {"name": "ana", "kind": "person", "loop": {"min_loop_delay": "1ms"}}],
    }  # fmt: skip


def house(
    folder: Path,
    rules: Sequence[Any],
    steps: Sequence[Step],
    *,
    kinds: Mapping[str, type[sim.Agent]] | None = None,
    run: Mapping[str, Any] | None = None,
    **options: Any,
) -> House:
    """Run a scenario; see `scenario` for the arguments.

    Args:
        folder: where its record goes.
        rules: the scripted answers.
        steps: what the person does.
        kinds: classes of further agents.
        run: further arguments of `sim.run`.
        options: further arguments of `scenario`.
    """
    folder.mkdir(exist_ok=True)
    path, kept = folder / "house.yaml", list[RunController]()
    path.write_text(json.dumps(scenario(rules, **options), indent=1), encoding="utf-8")  # JSON is YAML, too
    person = people({"ana": tuple(steps)})
    classes = {"person": person, **(kinds or {})}
    result = sim.run(path, out=folder / "runs", begun=kept.append, kinds=classes, **(run or {}))
    return House(kept[0].simulation.world, result, Path(result.run or ""))

"""Runs small teams: executors with scripted plans, and what they do with their tasks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import sim
from sim.kinds.executor import Executors, TaskState
from sim.runner import RunController
from sim.world import World
from tests.agents.people import Step, people, rows_of

Plan = Mapping[str, Any]
"""A plan: the name of a tool and its arguments; or `say`: a text without a call; or `fail`: a class of errors."""

WRITE = ("workspace.write_file", "workspace.edit_file", "workspace.read_file")
DONE: Plan = {"executor.finish": {"summary": "done"}}
FILE = {"text": "out.txt exists", "file": "out.txt"}
ASKED = {"person": "simulated", "simulated": {"name": "lead", "latency": "2m"}}


def write(path: str = "out.txt", text: str = "x") -> Plan:
    """Return the plan that writes a file."""
    return {"workspace.write_file": {"path": path, "text": text}}


def read(path: str) -> Plan:
    """Return the plan that reads a file; it fails if there is none."""
    return {"workspace.read_file": {"path": path}}


@attrs.frozen
class Team:
    """A run that has ended."""

    world: World
    result: sim.RunResult
    folder: Path
    file: Path

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a query; of single values if it has one column."""
        return rows_of(self.folder, sql)

    @property
    def executors(self) -> Executors:
        """The service."""
        return Executors.of(self.world)

    def state(self, name: str = "job") -> TaskState:
        """Return the state of a task."""
        return self.executors.states[self.executors.number_of(name)]

    def ended(self, name: str = "job") -> tuple[str | None, str | None]:
        """Return how and why a task ended."""
        return self.state(name).final_status, self.state(name).ending

    def count(self, name: str) -> int:
        """Return how often something happened."""
        return self.executors.counts[name]


def rules_of(plans: Mapping[str, Sequence[Plan | Sequence[Plan]]]) -> list[dict[str, Any]]:
    """Return the rules of a model that plans as a table says.

    Args:
        plans: for each task the plans of its steps; a list of plans is for the attempts of one step. The last step is
            repeated.
    """
    rules = []
    for name, steps in plans.items():
        for number, step in enumerate(steps, 1):
            attempts = [step] if isinstance(step, Mapping) else list(step)
            for attempt, plan in enumerate(attempts):
                here = [f"'<task>\\n{name}:' in conversation[1].text", "use == 'agent'"]
                here += [f"'step {number} of' in conversation[1].text"] if number < len(steps) else []
                here += [f"messages == {2 + 3 * attempt}"] if attempt < len(attempts) - 1 else []
                what: dict[str, Any] = {"say": f"{name} {number}.{attempt + 1}", "call": dict(plan)}
                if {"say", "fail"} & plan.keys():
                    what = dict(plan)
                rules.append({"when": " and ".join(here), **what})
    return rules


def scenario(
    plans: Mapping[str, Sequence[Plan | Sequence[Plan]]],
    *,
    tasks: Mapping[str, Any] | None = None,
    rules: Sequence[Any] = (),
    offered: Sequence[str] = WRITE,
    executor: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    agents: Sequence[Mapping[str, Any]] = (),
    files: Mapping[str, str] | None = None,
    persons: Sequence[str] = (),
    until: str = "6h",
    confidence: str = "0.9 fine",
    judge: str = "1.0 met",
    **others: Any,
) -> dict[str, Any]:
    """Return a scenario with an executor `coder`, whose task is `job` unless others are given.

    Args:
        plans: see `rules_of`.
        tasks: the tasks.
        rules: further answers of the model, before the others.
        offered: the tools of the coder.
        executor: the section `executor`.
        models: further keys of `models`.
        agents: further agents.
        files: the files of the project `project`.
        persons: names of people; see `team`.
        until: the end of the run.
        confidence, judge: what the model says of the confidence and of criteria.
        others: further sections.
    """
    known = tasks or {"job": {"goal": "Do it", "type": "coder", "criteria": [FILE]}}
    last = [{"use": "confidence", "say": confidence}, {"use": "judge", "say": judge}]
    return {
        "name": "team", "until": until,
        "executor": {"tasks": dict(known), "projects": {"project": {"files": dict(files or {})}}, **(executor or {})},
        "models": {"rules": [*rules, *rules_of(plans), *last], **(models or {})}, **others,
        "agents": [
            {"name": "coder", "kind": "executor", "settings": {"type": "coder", "tools": list(offered)}}, *agents,
            *({"name": one, "kind": "person", "loop": {"min_loop_delay": "1ms"}} for one in persons),
        ],
    }  # fmt: skip


def team(
    folder: Path,
    plans: Mapping[str, Sequence[Plan | Sequence[Plan]]],
    *,
    steps: Mapping[str, Sequence[Step]] | None = None,
    run: Mapping[str, Any] | None = None,
    **options: Any,
) -> Team:
    """Run a scenario; see `scenario` for the other arguments.

    Args:
        folder: where its record goes.
        plans: see `rules_of`.
        steps: what people do, by name.
        run: further arguments of `sim.run`.
        options: further arguments of `scenario`.
    """
    folder.mkdir(exist_ok=True)
    path, kept = folder / "team.yaml", list[RunController]()
    persons = tuple(steps or ())
    path.write_text(json.dumps(scenario(plans, persons=persons, **options), indent=1), encoding="utf-8")
    given: dict[str, Any] = {"kinds": {"person": people(steps)} if steps else {}, **(run or {})}
    result = sim.run(path, out=folder / "runs", begun=kept.append, **given)
    return Team(kept[0].simulation.world, result, Path(result.run or ""), path)

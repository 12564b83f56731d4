"""Executors with parts of their own: planner, validator, loop detector, and steps, in a user's file."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.kinds.executor import BaseAgent, LoopDetector
from tests.agents.executor.team import scenario, write
from tests.agents.people import rows_of
from tests.registries import kept_registries

PAGE = (Path(__file__).parents[3] / "docs" / "executor.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
HISTORY = "SELECT task_id, final_status, total_steps, reason FROM agent_execution_history"


@pytest.fixture(autouse=True)
def _own_registries() -> Iterator[None]:
    """Leave no kind of agent to other tests."""
    with kept_registries():
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module and the scenario of the page."""
    module = next(text for language, text in BLOCKS if language == "py")
    (tmp_path / "prose.py").write_text(module, encoding="utf-8")
    found = next(text for language, text in BLOCKS if language == "yaml" and "name: prose" in text)
    (tmp_path / "prose.yaml").write_text(found, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(importlib.sys.modules, "prose", raising=False)  # type: ignore[attr-defined]
    return tmp_path


def test_the_parts_of_the_page_replace_those_of_executors(folder: Path) -> None:
    """The file of the page has another planner, validator and loop detector, and each of them does what it says."""
    result = sim.run(folder / "prose.yaml", allow=("prose",), out=folder / "runs")
    run = Path(result.run or "")
    assert rows_of(run, HISTORY) == [
        ("story", "success", 3, "all criteria are met"), ("poem", "escalated", 3, "Loop detected: by Impatient"),
    ]  # fmt: skip
    uses = [len(json.loads(calls)) for calls in rows_of(run, "SELECT llm_calls FROM agent_execution_steps")]
    assert uses == [0, 1, 1, 0, 1, 1]
    details = "SELECT validation ->> '$.criteria[0].detail' FROM agent_execution_steps WHERE task_id = 'story'"
    assert rows_of(run, details) == ["0 words so far", "8 words so far", "16 words so far"]
    assert sim.replay(str(run), allow=("prose",)).same


def test_a_kind_of_ones_own_has_the_settings_of_executors(folder: Path) -> None:
    """What a scenario gives to such a kind is checked as for executors, and without permission nothing is imported."""
    text = (folder / "prose.yaml").read_text(encoding="utf-8")
    file = folder / "other.yaml"
    file.write_text(text.replace("tools: [", "tols: ["), encoding="utf-8")
    with pytest.raises(sim.UsageError, match=r"unknown key 'tols'"):
        sim.run(file, allow=("prose",), out=None)
    file.write_text(text.replace("settings: {type: writer", "settings: {type: painter"), encoding="utf-8")
    with pytest.raises(sim.UsageError, match=r"no executor has the type 'writer'"):
        sim.run(file, allow=("prose",), out=None)
    with pytest.raises(sim.UsageError, match="names a module, which is not allowed"):
        sim.run(folder / "prose.yaml", out=None)


CALLED: list[str] = []


class Watched(BaseAgent):
    """An executor whose parts of a step say that they were called. Its loop detector is made in its own way."""

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **options)
        self.loop_detector = Never(self.loop_detector.monitoring)

    async def plan_next_step(self, planner: Any) -> Any:
        CALLED.append("plan_next_step")
        return await super().plan_next_step(planner)

    async def execute_step_with_retry(self, execution: Any, draft: Any, plan: Any) -> None:
        CALLED.append("execute_step_with_retry")
        await super().execute_step_with_retry(execution, draft, plan)

    async def execute_via_orchestrator(self, execution: Any, action: Any) -> Any:
        CALLED.append("execute_via_orchestrator")
        return await super().execute_via_orchestrator(execution, action)

    async def validate_step(self, execution: Any, action: Any, result: Any) -> Any:
        CALLED.append("validate_step")
        return await super().validate_step(execution, action, result)

    def update_state(self, execution: Any, draft: Any, validation: Any) -> Any:
        CALLED.append("update_state")
        return super().update_state(execution, draft, validation)

    async def request_confidence_evaluation(self, execution: Any) -> float | None:
        CALLED.append("request_confidence_evaluation")
        return 0.7

    def should_terminate(self, execution: Any, validation: Any) -> Any:
        CALLED.append("should_terminate")
        return super().should_terminate(execution, validation)


class Never(LoopDetector):
    """Sees no loop at all."""

    def loop_in(self, state: Any) -> None:
        CALLED.append("loop_in")


def test_each_part_of_a_step_can_be_overridden(tmp_path: Path) -> None:
    """The parts of the seed are called in its order; a loop detector can be made in `__init__` as well."""
    CALLED.clear()
    given = scenario({"job": [write("same"), write()]}, executor={"check_every": 1})
    given["agents"][0]["kind"] = f"{__name__}:Watched"
    file = tmp_path / "team.yaml"
    file.write_text(json.dumps(given), encoding="utf-8")
    result = sim.run(file, out=tmp_path, allow=(__name__,))
    assert result.services["executor"]["success"] == 1
    step = ["plan_next_step", "execute_step_with_retry", "execute_via_orchestrator", "validate_step", "update_state"]
    assert [*step, "loop_in", "request_confidence_evaluation", "should_terminate", *step, "should_terminate"] == CALLED

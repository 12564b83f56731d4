"""An executor that is stopped, cancelled or paused in any phase of a step: its task goes on, and a replay agrees."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.world import World
from tests.agents.executor.team import DONE, WRITE, read, team, write
from tests.agents.executor.test_denials import OFFERED, PUBLISH, REVIEWER, TOOLS, only
from tests.agents.executor.test_gates import UNSURE
from tests.agents.executor.test_tasks import of, outside

LATE = {"simulated": {"name": "lead", "latency": "10m"}}
JUDGED = {"job": {"goal": "Write", "type": "coder", "criteria": [{"text": "It is a poem."}]}}
PHASES: Mapping[str, tuple[float, Any, Mapping[str, Any]]] = {
    "plan": (5, [write("a"), write()], {}),
    "backoff": (11, [[read("a"), read("b"), write()]], {}),
    "gate": (100, [UNSURE, write()], {"confidence": "0.1", "approvals": LATE}),
    "help": (25, [PUBLISH, write()], {"offered": OFFERED, "tools": TOOLS, "access": only("reviewer")}),
    "judge": (15, [DONE], {"tasks": JUDGED}),
    "approval": (100, [write()], {"approvals": {**LATE, "rules": [{"tool": "workspace.write_file"}]}}),
    "retry": (12, [write()], {"rules": [{"use": "agent", "when": "now < 11", "fail": "network"}]}),
}
"""What happens at which second: the plans, and the options of the team. A call of a model takes 10 seconds."""

DEEDS: Mapping[str, Callable[[World], object]] = {
    "stop": lambda world: of("coder")(world).request_stop("stop"),
    "cancel": lambda world: of("coder")(world).cancel(),
    "pause": lambda world: of("coder")(world).pause(),
}
QUICK = (("gate", "stop"), ("help", "cancel"), ("judge", "pause"))


@pytest.mark.parametrize("mode", ["autonomous", pytest.param("tick", marks=pytest.mark.proof)])
@pytest.mark.parametrize(
    ("phase", "deed"),
    [
        pytest.param(phase, deed, marks=() if (phase, deed) in QUICK else pytest.mark.proof)
        for phase in PHASES
        for deed in DEEDS
    ],
)
def test_a_task_goes_on(tmp_path: Path, mode: str, phase: str, deed: str) -> None:
    """With the same executor after a pause, else with another one; no step is lost or done twice."""
    second, plans, options = PHASES[phase]
    given = outside((second, DEEDS[deed]), (4000, lambda world: of("coder")(world).resume()))
    tools = list(options.get("offered", WRITE))
    more = (
        [] if deed == "pause" else [{"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": tools}}]
    )
    given["agents"] += [*more, *([REVIEWER] if phase == "help" else [])]
    given["run"]["mode"] = mode
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    ran = team(tmp_path, {"job": plans, "help-job": [PUBLISH]}, models=slow, **options, **given)
    assert (ran.ended(), ran.result.errors) == (("success", "criteria_met"), 0)
    numbers = ran.rows("SELECT step_number FROM agent_execution_steps WHERE task_id = 'job'")
    assert numbers == list(range(1, len(plans) + 1))
    assert sim.replay(str(ran.folder), kinds=given["run"]["kinds"]).same

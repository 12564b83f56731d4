"""Confidence, loops seen from inside and outside, and the people who decide whether a task goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.kinds.executor.execution import number_of
from sim.kinds.executor.loop_detection import LoopDetector, overlap
from sim.kinds.executor.records import PlannedAction, Result, Step, TaskState, ValidationResult
from sim.kinds.executor.settings import Criterion
from tests.agents.executor.team import ASKED, DONE, WRITE, Team, read, team, write
from tests.agents.executor.test_tasks import outside, stop_coder

UNSURE = {"executor.report_uncertainty": {"reason": "Which file?"}}
CHECK: dict[str, Any] = {"executor.request_confidence_check": {}}
DENIED = {"person": "simulated", "simulated": {"name": "lead", "policy": "deny", "latency": "2m"}}
BROKEN: dict[str, Any] = {
    "functions": {"data.fetch": {"description": "Fetch.", "parameters": {"n": {"type": "integer"}}, "returns": "1 / 0"}}
}


def notes(count: int) -> list[Any]:
    """Return plans that write different files."""
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "my", "ny", "xi"]
    return [write(f"{words[n]}.txt", f"{words[n]} {words[-n]}") for n in range(count)]


def checks(ran: Team) -> list[Any]:
    """Return after which step the confidence was checked."""
    return ran.rows("SELECT data ->> '$.step' FROM events WHERE topic = 'execution.confidence' ORDER BY id")


def reasons(ran: Team) -> list[Any]:
    """Return why the confidence was checked."""
    found = ran.rows("SELECT data -> '$.why' FROM events WHERE topic = 'execution.confidence' ORDER BY id")
    return [one for reasons in found for one in json.loads(reasons)]


# -- when the confidence is checked


def test_every_five_steps(tmp_path: Path) -> None:
    """Without another reason the confidence is checked after every fifth step."""
    monitoring = {"monitoring": {"stalled_steps": 50}}
    ran = team(tmp_path, {"job": [*notes(12), write()]}, executor=monitoring)
    assert checks(ran) == [5, 10]
    assert ran.state().last_confidence_score == 0.9
    assert ran.state().last_confidence_check_step == 10


def test_on_uncertainty_and_on_request(tmp_path: Path) -> None:
    """An executor that is not sure, or asks for it, is checked after this step; then the interval begins anew."""
    ran = team(tmp_path, {"job": [UNSURE, CHECK, *notes(5), write()]}, executor={"monitoring": {"stalled_steps": 50}})
    assert checks(ran) == [1, 2, 7]
    assert reasons(ran) == ["uncertain", "requested", "interval"]


def test_a_person_can_ask_for_it(tmp_path: Path) -> None:
    """The action `check_confidence` of a person has the confidence checked after the next step."""
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    steps = {"ana": [(5, "check_confidence", {"task": "job"})]}
    ran = team(tmp_path, {"job": [*notes(1), write()]}, models=slow, steps=steps)
    assert checks(ran) == [1]


def test_a_task_that_has_reached_its_goal_is_not_checked(tmp_path: Path) -> None:
    """After the step that meets all criteria nothing else is asked."""
    assert checks(team(tmp_path, {"job": [*notes(4), write()]})) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.7", 0.7), ("0.45 because", 0.45), ("I say 80%.", 0.8), ("80 per cent", 0.8), (".5", 0.5), ("1", 1.0),
     ("Confidence: 0.2", 0.2), ("**0.9**", 0.9), ("<score>0.9</score>", 0.9), ("- 0.3: lost", 0.3), ("+0.8", 0.8),
     ("0,7", 0.7), ("7/10", 0.7), ("1 of 10 criteria", 0.1), ("1 out of 4", 0.25), ("1e-5", 1e-5), ("1. It is.", 1.0),
     ("2.5", None), ("none", None), ("", None), ("v1.0", None), ("NaN", None), ("1e400", None), ("-0.5", None),
     ("−0.5", None), ("1,000", None), ("1 criterion is missing", None), ("9" * 5000, None), ("1/0", None),
     ("0.9.1", None), ("1_0", None), ("0x1", None), ("٠.٩", None), ("0.5-0.7", None), ("11/10", None)],
)  # fmt: skip
def test_what_a_model_says_of_its_confidence(text: str, number: float | None) -> None:
    """The first number counts if it can only be read as a share; nothing is guessed, because a person decides then."""
    assert number_of(text) == pytest.approx(number) if number is not None else number_of(text) is None


def test_an_answer_without_a_number_counts_as_no_confidence(tmp_path: Path) -> None:
    """What cannot be read is a reason to ask a person, not to go on."""
    ran = team(tmp_path, {"job": [UNSURE]}, confidence="all is well", approvals=DENIED)
    assert ran.ended() == ("escalated", "escalation")
    assert ran.rows("SELECT data ->> '$.readable' FROM events WHERE topic = 'execution.confidence'") == [0]


def test_without_an_answer_the_confidence_is_evaluated_later(tmp_path: Path) -> None:
    """An outage is no low confidence: nobody is asked, and the next step is followed by another evaluation."""
    rules = [{"use": "confidence", "when": "now < 50", "fail": "auth"}]
    slow = {"provider": "simulated", "simulated": {"first_token": 20, "per_token": 0}}
    ran = team(tmp_path, {"job": [UNSURE, *notes(1), write()]}, rules=rules, models=slow, approvals=DENIED)
    assert ran.ended() == ("success", "criteria_met")
    assert checks(ran) == [2]


def test_the_cost_limit_is_no_low_confidence(tmp_path: Path) -> None:
    """If the call that evaluates could exceed the cost limit, the task ends for this reason, and nobody is asked."""
    money = {"provider": "simulated", "prices": {"simulated": {"input": 0, "output": 100}}, "max_tokens": 100}
    ran = team(tmp_path, {"job": [UNSURE, write()]}, models=money, approvals=DENIED, executor={"cost_limit": 0.003})
    assert ran.ended() == ("failed", "cost_limit")
    assert ran.state().current_step == 1
    assert ran.count("gates") == 0


# -- gates


def test_low_confidence_pauses_the_task_until_a_person_approves(tmp_path: Path) -> None:
    """Approved: the same state goes on with a fresh interval, and without a note of an escalation."""
    ran = team(tmp_path, {"job": [UNSURE, write()]}, confidence="0.3 lost", approvals=ASKED)
    state = ran.state()
    assert ran.ended() == ("success", "criteria_met")
    assert (state.escalation_triggered, state.last_confidence_check_step) == (False, 1)
    assert len(state.steps_history) == 2
    assert ran.rows("SELECT status, tool, decided - time FROM gates") == [("used", "executor.continue", 120.0)]
    asked, went_on = (
        ran.rows(f"SELECT time FROM events WHERE topic = 'execution.{what}'")[0]  # noqa: S608 - constants
        for what in ("escalated", "approved")
    )
    board = ran.rows("SELECT status FROM task_history WHERE task = 1 AND status IS NOT NULL ORDER BY id")
    assert board == ["pending", "active", "paused", "active", "done"]
    told = f"topic = 'agent.state' AND actor = 'coder' AND time BETWEEN {asked} AND {went_on}"
    states = ran.rows(f"SELECT data ->> '$.to', data ->> '$.reason' FROM events WHERE {told} ORDER BY id")  # noqa: S608
    assert ("paused", "approval:gate-1") in states


def test_denied_means_escalated(tmp_path: Path) -> None:
    """A person who does not agree ends the task, and the reason names the person."""
    ran = team(tmp_path, {"job": [UNSURE, write()]}, confidence="0.49", approvals=DENIED)
    assert ran.ended() == ("escalated", "escalation")
    assert ran.state().escalation_reason == "Low confidence: 0.49; executor.continue was denied by lead"


def test_nobody_in_time_means_escalated(tmp_path: Path) -> None:
    """A gate that expires ends the task as well."""
    late = {"person": "simulated", "expires": "10m", "simulated": {"latency": "3h"}}
    ran = team(tmp_path, {"job": [UNSURE, write()]}, confidence="0.0", approvals=late)
    assert ran.ended() == ("escalated", "escalation")
    assert "was not approved within 10m" in (ran.state().escalation_reason or "")


def test_at_the_threshold_nobody_is_asked(tmp_path: Path) -> None:
    """Only a confidence below 0.5 needs a person."""
    ran = team(tmp_path, {"job": [UNSURE, write()]}, confidence="0.5", approvals=DENIED)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.count("gates") == 0


def test_the_gates_of_a_task_are_limited(tmp_path: Path) -> None:
    """A person can let a task go on three times by default; then it is escalated without a question."""
    ran = team(tmp_path, {"job": [UNSURE]}, confidence="0.1", approvals=ASKED, executor={"gates": 2})
    assert ran.ended() == ("escalated", "escalation")
    assert ran.count("gates") == ran.count("gates_approved") == 2


def test_waiting_for_a_person_takes_no_time_of_the_task(tmp_path: Path) -> None:
    """A gate that takes longer than the timeout does not end the task."""
    slow = {"person": "simulated", "simulated": {"latency": "5h"}}
    ran = team(tmp_path, {"job": [UNSURE, write()]}, confidence="0.1", approvals=slow, executor={"timeout": "1m"})
    assert ran.ended() == ("success", "criteria_met")


def test_waiting_for_the_approval_of_a_call_takes_no_time_of_the_task(tmp_path: Path) -> None:
    """A gate of a tool, approved, denied or expired, does not count either; the time after it does."""
    boss = {"name": "boss", "latency": "5h"}
    given: dict[str, Any] = {"rules": [{"tool": "workspace.write_file", "when": "args.path == 'a.txt'"}]}
    plans: Any = {"job": [write("a.txt"), write()]}
    ran = team(tmp_path / "yes", plans, approvals={**given, "simulated": boss})
    assert ran.ended() == ("success", "criteria_met")
    for name, more in (("denied", {"simulated": {**boss, "policy": "deny"}}), ("expired", {"expires": "4h"})):
        asked = {"simulated": boss, **given, **more}
        ran = team(
            tmp_path / name, plans, approvals=asked,
            executor={"alternatives": {WRITE[0]: [WRITE[1]]}, "max_steps": 1},
        )  # fmt: skip
        assert ran.state().tool_executions[0].status == "denied"
        assert ran.state().metadata["paused_ns"] == (5 if name == "denied" else 4) * 3600 * 10**9
        assert ran.ended() == ("failed", "max_steps")
    slow = {"provider": "simulated", "simulated": {"first_token": 60, "per_token": 0}}
    asked = {**given, "simulated": {"name": "boss", "latency": "50m"}}
    ran = team(tmp_path / "after", plans, approvals=asked, models=slow, executor={"timeout": "90s"})
    assert ran.ended() == ("failed", "timeout")
    assert (ran.state().completed_ns or 0) / 60e9 == pytest.approx(
        51.5, abs=0.1
    )  # 1 of the plan, the gate, half of one


def test_an_executor_that_stops_at_a_gate_leaves_no_trace_of_it(tmp_path: Path) -> None:
    """Another one goes on; if it needs a person for another reason, the ending has this reason."""
    fetch = {"data.fetch": {"n": 1}}
    tools = ["data.fetch", "workspace.write_file"]
    slow = {"provider": "simulated", "simulated": {"first_token": 10, "per_token": 0}}
    late = {"simulated": {"name": "lead", "policy": "deny", "latency": "1h"}}
    given = outside((600, stop_coder))
    given["agents"].insert(0, {"name": "more", "kind": "executor", "settings": {"type": "coder", "tools": tools}})
    ran = team(
        tmp_path, {"job": [fetch, fetch, fetch, UNSURE]}, confidence="0.1", approvals=late, offered=tools, tools=BROKEN,
        executor={"attempts": 1, "timeout": "1d"}, models=slow, **given,
    )  # fmt: skip
    assert ran.rows("SELECT reason, status FROM gates ORDER BY id")[0][1] == "cancelled"
    assert ran.ended() == ("escalated", "escalation")
    assert (ran.state().escalation_reason or "").startswith("Low confidence: 0.10")


# -- loops


def state_with(errors: list[str]) -> TaskState:
    """Return the state of a task with these errors in a row."""
    made = TaskState(1, "job", "p", "coder", "g", (Criterion("c"),), {}, 20, 1, 1, "me")
    made.last_errors = errors
    return made


@pytest.mark.parametrize(
    ("errors", "looping"),
    [(["a"], False), (["a", "a"], False), (["a", "a", "a"], True), (["a", "a", "b"], False),
     (["b", "a", "a", "a"], True), (["a", "b", "a", "a"], False), ([], False)],
)  # fmt: skip
def test_three_identical_errors_in_a_row_are_a_loop(errors: list[str], looping: bool) -> None:
    """They are compared exactly, and only the last three count."""
    assert LoopDetector().is_looping(state_with(errors)) is looping


def test_a_step_that_succeeds_ends_a_series(tmp_path: Path) -> None:
    """Errors count only in a row."""
    fetch = {"data.fetch": {"n": 1}}
    options = {"attempts": 1, "monitoring": {"stalled_steps": 50}}
    plans = [fetch, fetch, write("a", "1"), fetch, fetch, write()]
    ran = team(tmp_path, {"job": plans}, offered=["data.fetch", "workspace.write_file"], tools=BROKEN, executor=options)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.state().failure_count == 4


def test_a_loop_leads_to_a_gate(tmp_path: Path) -> None:
    """A person sees the error; approved, the task goes on with a clean slate."""
    fetch = {"data.fetch": {"n": 1}}
    plans = [fetch, fetch, fetch, write()]
    given: dict[str, Any] = {
        "offered": ["data.fetch", "workspace.write_file"], "tools": BROKEN, "executor": {"attempts": 1},
    }  # fmt: skip
    ran = team(tmp_path / "approved", {"job": plans}, approvals=ASKED, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert ran.rows("SELECT reason FROM gates")[0].startswith("Loop detected: 3 identical errors in a row: Failed")
    ran = team(tmp_path / "denied", {"job": plans}, approvals=DENIED, **given)
    assert ran.ended() == ("escalated", "loop_detected")
    assert ran.state().current_step == 3


def after(*steps: tuple[str, float], new: int = 0) -> TaskState:
    """Return the state after steps with an action in words and the progress after it; the `new`th had a new result."""
    state = state_with([])
    for number, (words, progress) in enumerate(steps, 1):
        action = PlannedAction("t.x", "x", {"text": words})
        checked = ValidationResult("artifacts", (), progress)
        made = Step(number, 0, "", action, Result(True, "ok"), 1, (), checked, progress, True, new_result=number == new)
        state.steps_history.append(made)
    return state


def test_actions_that_are_alike_are_seen_from_outside() -> None:
    """Four actions with nine tenths of their words in common are a loop, without progress and without a new result."""
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    alike = [f"{words} {end}" for end in ("a", "a", "b", "b")]
    loop_in = LoopDetector().loop_in
    assert loop_in(after(*((text, 0.0) for text in alike))) == "the last 4 actions are alike"
    assert loop_in(after(*((text, 0.0) for text in alike[:3]))) is None
    assert loop_in(after(*((text, 0.1 * n) for n, text in enumerate(alike, 1)))) is None
    assert loop_in(after(*((f"{text} {n} x{n} y{n}", 0.0) for n, text in enumerate(alike)))) is None
    assert loop_in(after(*((text, 0.0) for text in alike), new=2)) is None


def test_five_steps_without_progress_are_a_stall_and_no_loop() -> None:
    """The progress must grow within five steps, or a result be new; falling back and coming back is no progress."""
    words = ["one two", "three four", "five six", "seven eight", "nine ten"]
    detector, none = LoopDetector(), [(text, 0.0) for text in words]
    falls = [(text, at) for text, at in zip(words, (0.2, 0.5, 0.2, 0.5, 0.5), strict=True)]
    assert detector.is_stalled(after(*none))
    assert detector.loop_in(after(*none)) is None
    assert detector.is_stalled(after(("z", 0.5), *falls))
    assert not detector.is_stalled(after(*none[:4], ("nine ten", 0.1)))
    assert not detector.is_stalled(after(*none[:4]))
    assert not detector.is_stalled(after(*none, new=3))


def test_a_stall_asks_for_a_check_and_a_person_only_if_it_is_low(tmp_path: Path) -> None:
    """Five steps without progress and new results have the confidence checked; the task goes on if that is not low."""
    given: dict[str, Any] = {
        "approvals": DENIED, "executor": {"attempts": 1, "check_every": 50, "monitoring": {"same_errors": 50}},
    }  # fmt: skip
    plans: Any = {"job": [{"executor.finish": {"summary": str(n)}} for n in range(7)] + [write()]}
    ran = team(tmp_path / "high", plans, **given)
    assert ran.ended() == ("success", "criteria_met")
    assert (checks(ran), reasons(ran), ran.count("gates"), ran.count("stalls")) == ([5], ["stalled"], 0, 1)
    ran = team(tmp_path / "low", plans, confidence="0.2 lost", **given)
    assert ran.ended() == ("escalated", "escalation")
    reason = ran.state().escalation_reason or ""
    assert reason.startswith("Low confidence: 0.20 (no progress and no new result in 5 steps); ")


@pytest.mark.parametrize("folder", ["", "reports/of/the/year/2025/by/region/and/by/month/and/by/product/"])
def test_reading_is_no_loop(tmp_path: Path, folder: str) -> None:
    """Eight files that are read for a report are eight new results, also if their names have most words in common."""
    files = {f"{folder}in{n}.txt": f"{n}" for n in range(8)}
    tasks = {"job": {"goal": "Compare", "type": "coder", "criteria": [{"text": "All are compared."}]}}
    ran = team(tmp_path, {"job": [*(read(name) for name in files), DONE]}, tasks=tasks, files=files, approvals=DENIED)
    assert ran.ended() == ("success", "criteria_met")
    assert (ran.state().current_step, checks(ran), ran.count("gates")) == (9, [5], 0)
    assert ran.rows("SELECT sum(new_result) FROM agent_execution_steps") == [8]


def test_writing_the_same_again_is_a_loop(tmp_path: Path) -> None:
    """A file with the text that it had is no new result, although it is a new version; so is a text seen before."""
    ran = team(tmp_path, {"job": [write("same", "x")]}, approvals=DENIED)
    assert ran.ended() == ("escalated", "loop_detected")
    assert (ran.state().escalation_reason or "").startswith("Loop detected: the last 4 actions are alike")
    assert [step.new_result for step in ran.state().steps_history] == [True, False, False, False, False]
    words = "one two three four five six seven eight nine ten eleven twelve"
    plans = [write("same", f"{words} {end}") for end in "ababababab"]
    ran = team(tmp_path / "turns", {"job": plans}, approvals=DENIED)
    assert ran.ended() == ("escalated", "loop_detected")


def test_an_approved_loop_is_not_seen_again_at_once(tmp_path: Path) -> None:
    """What a person has seen does not count for the next look."""
    plans = [write("same", "x")] * 8
    ran = team(tmp_path, {"job": [*plans, write()]}, approvals=ASKED, executor={"check_every": 100})
    assert ran.ended() == ("success", "criteria_met")
    assert ran.count("loops") == 1


@pytest.mark.parametrize(
    ("one", "other", "share"), [("a b", "a b", 1), ("a b", "c", 0), ("a b", "b c", 1 / 3), ("", "", 1)]
)
def test_the_overlap_of_words(one: str, other: str, share: float) -> None:
    """It is the share of all words that both have."""
    assert overlap(frozenset(one.split()), frozenset(other.split())) == pytest.approx(share)

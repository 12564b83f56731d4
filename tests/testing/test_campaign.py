"""`sim test`: planted faults are found, repeat from the printed command, and are told in every format."""

import json
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import sim as package
from sim.base.errors import UsageError
from sim.cli import main
from sim.experiments.testing.campaign import ORDERS, SEEDS, plan
from sim.experiments.testing.cases import Case, cases_of
from sim.experiments.testing.results import ResultFile
from sim.experiments.testing.trial import CaseJob, ScenarioUnderTest, read_subject, run_case
from tests.testing.scenarios import FAULT, OFFICE, ORDER


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """The command in a folder with the scenarios; it returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("order", ORDER), ("fault", FAULT)):
        (tmp_path / f"{name}.yaml").write_text(text)

    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_what_only_an_order_shows_is_found_and_repeats(command):
    """A fault that no seed shows in the declared order is found in a shuffled one, and the command repeats it."""
    assert command("test", "order.yaml", "--seeds", 3, "--orders", 0, "--jobs", 1)[0] == 0

    code, out, _ = command("test", "order.yaml", "--seeds", 3, "--orders", 8, "--jobs", 1, "--json")

    report = json.loads(out)["scenarios"][0]
    first = report["violations"][0]
    assert (code, report["runs"], first["property"], first["kind"]) == (1, 11, "door-opened-with-key", "true")
    assert first["order"] > 0
    assert first["time"] == 10
    assert any("door.forced" in line for line in first["story"])
    words = shlex.split(first["command"])[1:]
    code, out, _ = command(*words, "--json")
    again = json.loads(out)["scenarios"][0]["violations"]
    assert code == 1
    assert [{**one, "runs": first["runs"]} for one in again] == [first]


@pytest.mark.slow
def test_what_only_a_failing_model_shows_is_found_and_repeats(command):
    """A fault that shows only if a model fails, or is late, is found with --faults, and the command repeats it."""
    assert command("test", "fault.yaml", "--seeds", 2, "--orders", 2, "--jobs", 1)[0] == 0

    code, out, _ = command("test", "fault.yaml", "--seeds", 4, "--orders", 0, "--faults", "--jobs", 1, "--json")

    report = json.loads(out)["scenarios"][0]
    first = report["violations"][0]
    assert (code, report["runs"], first["property"], first["kind"]) == (1, 8, "goods-soon", "late")
    assert (first["order"], first["agent"]) == (0, "buyer")
    assert first["fault"] > 0
    code, out, _ = command(*shlex.split(first["command"])[1:], "--json")
    assert code == 1
    assert json.loads(out)["scenarios"][0]["violations"][0]["time"] == first["time"]


def test_a_run_repeats_an_order_by_its_keys():
    """An order of `sim test` is that of a run with `execution.order`; each number gives its own."""
    subject = ScenarioUnderTest(ORDER, "order.yaml")
    hashes = {order: run_case(CaseJob(subject, Case(0, order))).hash for order in range(4)}

    for order in (2, 3):
        changes = ["execution.ties=shuffled", "execution.tick.order=shuffled", f"execution.order={order}"]
        scenario = package.scenario.loading.loads(ORDER, overrides=changes)
        assert package.run(scenario).hash == hashes[order]
    assert len(set(hashes.values())) > 1
    tick = ScenarioUnderTest(ORDER, "order.yaml", ("execution.use_autonomous_loops=false",))
    assert len({run_case(CaseJob(tick, Case(0, order))).hash for order in range(4)}) > 1


def test_cases():
    """Each seed is run as declared; the shuffled orders, and with --faults the failures, take turns with the seeds."""
    assert (SEEDS, ORDERS) == (50, 20)
    assert cases_of(7, 2, 3, faults=True) == (
        Case(7), Case(8), Case(7, 1), Case(8, 2), Case(7, 3), Case(7, 0, 1), Case(8, 0, 2),
    )  # fmt: skip


def test_failures_stay_within_their_bounds():
    """Failures of models have a kind and a share within the bounds of the file, latencies a time within theirs."""
    text = FAULT.replace("retry: {requests: 1}", "retry: {requests: 1}\n  faults: [{kind: hang, share: 0.001}]")
    text = text.replace(", share: 0.5}", "}")
    subject = ScenarioUnderTest(text, "fault.yaml")
    kinds = set()
    for number in range(1, 9):
        plain = subject.scenario()
        models: Any = subject.scenario(Case(0, 0, number).overrides(plain)).models
        faults = models.faults
        assert (faults[0].kind, faults[0].share) == ("hang", 0.001)
        kinds.add(faults[1].kind)
        assert 0 < faults[1].share <= 0.5
        assert [fault.kind for fault in faults[2:]] == ["slow"] * 3
        assert all(0 <= fault.seconds <= 5e9 for fault in faults[2:])
    assert kinds == {"server", "refusal"}


def test_junit(command):
    """The results are JUnit XML, whatever is in the names and texts: a failure for each property that is violated."""
    never = "  never-judged: {after: {event: nothing.happens}, within: 1s, then: {event: x.y}}\n"
    Path("order.yaml").write_text(
        ORDER.replace("topic: door.forced", 'topic: door.forced, data: "<&\'\\">]]>"') + never
    )

    code, _, _ = command("test", "order.yaml", "--seeds", 1, "--orders", 8, "--jobs", 1, "--junit", "tests.xml")

    assert code == 1
    suite = ET.parse("tests.xml").getroot()[0]  # noqa: S314 - own file
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "handover", "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "true"
    assert "sim test order.yaml" in (failure.text or "")


def test_results_are_kept_and_continued(tmp_path):
    """A test that is continued runs what is missing; results of another file are refused, a cut line is dropped."""
    path = tmp_path / "order.yaml"
    path.write_text(ORDER)
    kept = tmp_path / "kept" / "handover.jsonl"
    first = plan(path, seeds=2, orders=2)
    list(first.carry_out(1, kept))
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-20])
    second = plan(path, seeds=2, orders=4)
    assert [one.case for one in second.carry_out(1, kept)] == [Case(1, 2), Case(0, 3), Case(1, 4)]
    assert second.report() == _fresh(path)
    assert [*plan(path, seeds=2, orders=4).carry_out(1, kept)] == []
    path.write_text(ORDER + "# changed\n")
    with pytest.raises(UsageError, match="another file"):
        list(plan(path, seeds=2, orders=4).carry_out(1, kept))
    kept.write_text("{}\n")
    with pytest.raises(UsageError, match="no results of a test"):
        ResultFile(kept, read_subject(path))


def _fresh(path):
    campaign = plan(path, seeds=2, orders=4)
    list(campaign.carry_out(1))
    return campaign.report()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["none.yaml"], "has no properties to test"),
        (["order.yaml", "--property", "dor"], "has no property 'dor'"),
        (["order.yaml", "--order", "3"], "add --seed"),
        (["order.yaml", "--seed", "3", "--seeds", "5"], "--seeds has no effect"),
        (["order.yaml", "--faults"], "no language models"),
        (["order.yaml", "--seed", "3", "--fault", "2"], "no language models"),
        (["bounds.yaml", "--faults"], "does not say which failures"),
        (["order.yaml", "--until", "0s"], "longer than 0 s"),
    ],
)
def test_wrong_usage(command, words, error):
    """What cannot be tested is refused before the first run, with a hint."""
    Path("none.yaml").write_text("name: none\nagents: [{name: a}]\n")
    Path("bounds.yaml").write_text(FAULT.replace("testing:", "# testing:"))
    code, _, err = command("test", *words, "--jobs", 1)
    assert code == 2
    assert error in err
    assert "hint: " in err or "0s" in words


def test_a_run_that_fails_is_told(command):
    """A run that fails is no violation and no success: it is told with its seed, and the exit code is 1."""
    stop = "stop: {when: \"1 / (level('tank') - 3) > 9\"}\n"
    Path("broken.yaml").write_text(f"{OFFICE}{stop}properties: {{p: {{idle: 1h}}}}\n")

    code, out, _ = command("test", "broken.yaml", "--seeds", 2, "--orders", 0, "--jobs", 1)

    assert code == 1
    assert "2 of 2 runs failed, first --seed 0" in out


@pytest.mark.proof
def test_parallel_processes_find_the_same(tmp_path):
    """Several processes give the same report as one."""
    path = tmp_path / "order.yaml"
    path.write_text(ORDER)
    assert package.test(path, seeds=3, orders=5, jobs=2) == package.test(path, seeds=3, orders=5)

"""Coverage: what no run reached is told by kind, marked in the text of the file, and measuring it changes nothing."""

import attrs
import pytest

import sim
from sim.cli import main
from sim.experiments.testing.cases import Case
from sim.experiments.testing.trial import CaseJob, ScenarioUnderTest, run_case

MACHINE = """\
name: machine
until: 10m
models:
  tools: {weigh: {description: weighs}, paint: {description: paints}}
  rules: [{call: {weigh: {}}}]
agents:
  - name: part
    count: 3
    state: {phase: raw, n: 0}
    loop: {min_loop_delay: 10s}
    rules:
      - when: "phase == 'raw' and (n > 2 or chance(0.1))"
        do: [{publish: {topic: cut}}, {send: {to: other, data: 1}}]
        set: {phase: cut}
      - when: "phase == 'cut' and n > 100"
        do: noop
        set: {phase: polished}
      - when: "not (phase == 'lost')"
        do: {sleep: {for: 10s}}
        set: {n: "=n + 1"}
  - name: other
    state: {asked: false}
    rules:
      - {when: not asked, do: {ask: {prompt: weigh it, tools: [weigh, paint]}}, set: {asked: true}}
      - {when: balance > 5, do: {transfer: {to: part-1, amount: 1}}}
      - do: {sleep: {for: 1h}}
properties:
  p: {always: "n >= 0", each: part}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A test with coverage."""
    path = tmp_path_factory.mktemp("machine") / "machine.yaml"
    path.write_text(MACHINE)
    return sim.test(path, seeds=2, orders=1, coverage=True)


def test_what_no_run_reached(report):
    """Rules, branches of conditions, actions, states, transitions and tools that no run reached are named by line."""
    assert report.ok
    assert {(part.what, part.text, part.line) for part in report.coverage.missed} == {
        ("state", "phase = polished", 9),
        ("rule", "rule 2 of part", 15),
        ("condition", "n > 100 is true", 15),
        ("action", "noop of part", 16),
        ("transition", "phase: cut -> polished", 17),
        ("condition", "phase == 'lost' is true", 18),
        ("rule", "rule 2 of other", 25),
        ("condition", "balance > 5 is true", 25),
        ("action", "transfer of other", 25),
        ("tool", "tool paint", 4),
    }
    assert ("state", 2, 3) in report.coverage.table()
    assert ("transition", 1, 2) in report.coverage.table()
    assert ("tool", 1, 2) in report.coverage.table()


def test_it_is_marked_in_the_text(report):
    """Each line of the file is shown as it is, with a mark and the reasons where something was not reached."""
    lines = report.coverage.marked().splitlines()
    assert [line[5:].partition("   <-- ")[0] for line in lines] == MACHINE.splitlines()
    assert "16 !         do: noop   <-- not reached: noop of part" in lines
    assert lines[11].startswith("12   ")


def test_measuring_changes_nothing():
    """A run whose coverage is measured has the hash of one whose coverage is not."""
    subject = ScenarioUnderTest(MACHINE, "machine.yaml")
    plain, measured = (run_case(CaseJob(attrs.evolve(subject, coverage=one), Case(3))) for one in (False, True))
    assert plain.problem is None
    assert measured.problem is None
    assert plain.hash == measured.hash
    assert plain.reached == {}


def test_the_command_prints_it(tmp_path, monkeypatch, capsys):
    """`--coverage` prints the table and the marked text, also of a file without properties."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine.yaml").write_text(MACHINE.partition("properties:")[0])
    with pytest.raises(SystemExit) as ended:
        main(["test", "machine.yaml", "--seeds", "1", "--orders", "0", "--coverage", "--jobs", "1"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "transition" in out
    assert "not reached: rule 2 of part" in out

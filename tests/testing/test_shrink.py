"""`sim shrink`: planted faults become small files that keep them, and the texts stay valid and commented."""

import json

import pytest

from sim.base.errors import UsageError
from sim.cli import main
from sim.experiments.testing.cases import Case
from sim.experiments.testing.shrink.shrinking import Shrinker
from sim.experiments.testing.shrink.still_fails import SmallerScenarios
from sim.experiments.testing.trial import CaseJob, ScenarioUnderTest, run_case
from sim.scenario.fields import plain
from sim.scenario.yaml_spans import joined, spans, without
from sim.scenario.yaml_tree import read_tree
from tests.testing.planted import PLANTED
from tests.testing.scenarios import ORDER

TEXT = """\
# head
name: x   # the name
agents:
  # about a
  - name: a
    # its rules
    rules:
      - when: "x"   # c1
        do: noop

      # second rule
      - do: {sleep: {for: 1h}, x: [1, 2,
          3]}
  - {name: b, state: {n: 1}}
  -
    # c is special
    name: c
    count: 2
until: 1h
"""


def meaning(text):
    """Return what a text means."""
    tree, problems = read_tree(text, "x.yaml")
    assert problems == [], text
    return plain(tree)


def test_each_entry_can_be_removed():
    """Without any entry of any part, or without all but any, a text is the same mapping without them."""
    root = spans(TEXT)
    whole = meaning(TEXT)
    tried = 0
    for path, part in root.walk():
        for number in range(len(part.entries)):
            for removed in ({number}, {*range(len(part.entries))} - {number}):
                if len(removed) in (0, len(part.entries)):
                    continue
                expected = json.loads(json.dumps(whole))
                here = expected
                for step in path:
                    here = here[step]
                for one in sorted(removed, reverse=True):
                    del here[part.entries[one].key]
                assert meaning(without(TEXT, part, removed)) == expected, (path, removed)
                tried += 1
    assert tried > 20


def test_comments_of_what_stays_are_kept():
    """A comment goes with the entry below it, or beside it; all others stay as they are written."""
    rules = spans(TEXT).at(("agents", 0, "rules"))
    assert rules is not None
    text = without(TEXT, rules, {0})
    assert "# second rule" in text
    assert "# c1" not in text
    agents = spans(TEXT).at(("agents",))
    assert agents is not None
    text = without(TEXT, agents, {0, 1})
    assert [line for line in text.splitlines() if "#" in line] == [
        "# head",
        "name: x   # the name",
        "  # about a",
        "    # c is special",
    ]
    first = spans(TEXT).at(("agents", 0))
    assert first is not None
    assert "# its rules" in without(TEXT, first, {0})


def test_small_parts_are_joined():
    """Parts without comments are written on one line where they fit, and mean the same."""
    text = joined(TEXT, 100, lambda new: meaning(new) == meaning(TEXT))
    assert meaning(text) == meaning(TEXT)
    assert len(text.splitlines()) < len(TEXT.splitlines())
    odd = 'a:\n  - "yes"\n  - no: \'it is\'\n  - {x: 1}\n  - "a: b, c"\n  - 12:30\n  - ~\n  - -1.5\nb: [1]\n'
    assert meaning(joined(odd, 100, lambda new: meaning(new) == meaning(odd))) == meaning(odd)
    assert joined(odd, 100, lambda new: meaning(new) == meaning(odd)).startswith("a: [")


def shrunk(text, name, case=None, keep=(), budget=2000):
    """Return a text shrunk, with the judge."""
    judge = SmallerScenarios(ScenarioUnderTest(text, "x.yaml", only=(name,)), budget, case)
    shrinker = Shrinker(text, judge, keep)
    shrinker.shrink()
    return shrinker.result(), judge


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_fault_of_an_order_stays_one():
    """What only an order shows is not replaced by something that any order shows; the property is not changed."""
    found, judge = shrunk(ORDER, "door-opened-with-key", Case(1, 2))

    assert judge.fault.kept
    assert "door-opened-with-key: {never: \"published('door.forced') > 0\"}" in found.text
    assert len(found.text.splitlines()) < 15
    for case, violated in ((judge.fault.violated[0], True), (judge.fault.kept[0], False)):
        result = run_case(CaseJob(ScenarioUnderTest(found.text, "x.yaml"), case))
        assert (result.problem, bool(result.violations)) == (None, violated)
    assert found.runs == judge.runs
    assert found.removed["lines"][1] == len(ORDER.splitlines())


@pytest.mark.slow
def test_what_is_kept_and_the_budget():
    """A part named by --keep is not changed; without runs left, the smallest text so far is given and said so."""
    found, _ = shrunk(ORDER, "door-opened-with-key", Case(1, 2), keep=["agents.sender.rules"], budget=12)
    assert "do: {sleep: {for: 1h}}" in found.text
    assert found.runs <= 24
    assert not found.complete
    with pytest.raises(UsageError, match="there is no 'sendr'"):
        shrunk(ORDER, "door-opened-with-key", Case(1, 2), keep=["agents.sendr"])
    with pytest.raises(UsageError, match="none of 12 runs violates"):
        shrunk(ORDER.replace("door.forced') > 0", "door.forced') > 9"), "door-opened-with-key", Case(1))


def test_the_command(tmp_path, monkeypatch, capsys):
    """The command writes a new file, never over another one, and prints the command that still fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.yaml").write_text(ORDER)
    choice = ["--property", "door-opened-with-key", "--seed", "1", "--order", "2", "--runs", "8"]
    words = ["shrink", "order.yaml", *choice]
    for code in (0, 2):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--json"])
        assert ended.value.code == code
        out, err = capsys.readouterr()
        if code:
            assert "exists already" in err
            continue
        told = json.loads(out)
        assert (told["file"], told["complete"]) == ("order.small.yaml", False)
        assert told["lines"] == len((tmp_path / "order.small.yaml").read_text().splitlines())
        assert told["command"].startswith("sim test order.small.yaml --seed 1 --order 2")


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(PLANTED))
def test_planted_faults_shrink_and_stay(name):
    """A planted fault among 30 to 200 lines becomes fewer than 15 lines, which still have what was planted."""
    text, broken, stays = PLANTED[name]
    assert 30 <= len(text.splitlines()) <= 200

    found, judge = shrunk(text, broken)

    assert len(found.text.splitlines()) < 15, found.text
    assert found.complete
    for part in stays:
        assert part in found.text
    result = run_case(CaseJob(ScenarioUnderTest(found.text, "x.yaml"), judge.fault.violated[0]))
    assert result.problem is None
    violation = result.violation_of(broken)
    assert violation is not None
    assert violation.kind == judge.fault.kind

"""Broken scenario files: each is refused with one clear problem at the right line."""

import codecs
import re
from pathlib import Path

import pytest

import sim
from sim.base.errors import ScenarioError
from sim.scenario import load, loads
from sim.scenario.yaml_tree import MAX_BYTES, MAX_NODES, read_tree

FILES = sorted((Path(__file__).parent / "broken").glob("*.yaml"))
SEVERAL = {"alias-recursive": 3}  # the anchor, the alias, and a list where text is expected
MINIMAL = "name: x\nagents: [{name: a}]\n"


def refused(path: Path) -> ScenarioError:
    """Return the error that loading a file ends in."""
    with pytest.raises(ScenarioError) as caught:
        load(path)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_fault_gives_one_problem_at_its_line(path):
    """A broken file is refused with one problem, which names the line and says what was found."""
    expected = re.match(r"# expect: (\d+): (.+)", path.read_text())
    assert expected

    problems = refused(path).problems

    assert SEVERAL.get(path.stem, 1) == len(problems), problems
    assert int(expected[1]) == problems[0].line, problems
    assert expected[2] in str(problems[0])
    assert "\n" not in str(problems[0])
    assert len(str(problems[0])) < 600 + len(str(path))


def test_there_are_enough_broken_files():
    """The corpus does not shrink unnoticed."""
    assert len(FILES) >= 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "line", "fragment"),
    [
        (codecs.BOM_UTF8 * 2 + MINIMAL.encode(), 1, "U+FEFF"),
        (MINIMAL.encode("utf-16"), 1, "not UTF-8"),
        (b"name: x\nagents: [{name: \xff}]\n", 2, "not UTF-8"),
        (b"name: x\ndescription: a\x00b\n", 2, "U+0000"),
        (b"name: x\ndescription: a\x1bb\n", 2, "U+001B"),
        ("name: x\n# \u202e comment\n".encode(), 2, "U+202E"),
        ("name: x\ndescription: \u2066a\n".encode(), 2, "U+2066"),
        ("name: x\u2028seed: 1\n".encode(), 1, "U+2028"),
        (b"", 1, "empty"),
        (b"\n\n", 1, "empty"),
        (b"x" * (MAX_BYTES + 1), 1, "larger than"),
        (b"a: [" + b"1," * (MAX_NODES + 1) + b"]", 1, "more than 30000 values"),
        (b"a: &a [x]\n" + b"b: *a\n" * 1000, 1, "anchor"),
        (bytes(range(256)), 2, "not UTF-8"),
    ],
)
def test_odd_bytes_are_refused(tmp_path, data, line, fragment):
    """A file that is no plain UTF-8 text, empty, or too large is refused with its position."""
    path = tmp_path / "odd.yaml"
    path.write_bytes(data)

    problem = refused(path).problems[0]

    assert line == problem.line
    assert fragment in problem.message


def test_a_byte_order_mark_is_read(tmp_path):
    """A file with a byte order mark, as Windows editors save it, is the same scenario: it runs and replays."""
    files = [tmp_path / "plain.yaml", tmp_path / "marked.yaml"]
    for file, mark in zip(files, (b"", codecs.BOM_UTF8), strict=True):
        file.write_bytes(mark + MINIMAL.encode())
    plain, marked = (sim.run(file, until="10s", out=tmp_path / "runs") for file in files)
    assert marked.hash == plain.hash
    assert marked.run is not None
    assert sim.replay(marked.run).same


def test_a_missing_file_and_a_directory_are_refused_in_one_sentence(tmp_path):
    """What cannot be read is a problem of the file, not a traceback."""
    assert "No such file" in str(refused(tmp_path / "none.yaml"))
    assert "directory" in str(refused(tmp_path))
    assert "not allowed" in str(refused(Path("a\0b")))


def test_a_large_file_is_refused_before_it_is_parsed(tmp_path):
    """200,000 keys in 3 MB: the size alone refuses the file, no key is looked at (X2)."""
    path = tmp_path / "large.yaml"
    path.write_text("".join(f"key{number:06d}: {number}\n" for number in range(200_000)))

    assert [f"the file is larger than {MAX_BYTES} bytes"] == [problem.message for problem in refused(path).problems]


@pytest.mark.slow
def test_a_file_of_many_small_values_is_parsed_only_up_to_the_budget():
    """What is small enough for the size limit but has too many values is refused where the budget ends."""
    with pytest.raises(ScenarioError) as caught:
        loads("".join(f"k{number}: 1\n" for number in range(90_000)))

    assert caught.value.problems[0].line == MAX_NODES // 2
    assert f"more than {MAX_NODES} values" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("opener", ["[", "{a: ", "- ", "? ", "[{", "{"])
@pytest.mark.timeout(10)
def test_nesting_bombs_stop_early(opener):
    """A hostile nesting is refused at its depth, long before the parser would slow down."""
    with pytest.raises(ScenarioError) as caught:
        loads(opener * 20_000)

    assert "nested more than 50 deep" in str(caught.value)


@pytest.mark.timeout(10)
def test_a_long_tag_is_refused_before_it_is_scanned():
    """The parser scans a tag in quadratic time, so a long one is refused first."""
    with pytest.raises(ScenarioError):
        loads("name: " + "!" * 1_000_000)


def test_a_text_that_is_read_again_gives_the_same_and_shares_nothing():
    """The work of the parser is kept for the next time, but no position and no part of the tree of an earlier one."""
    text = "name: x\nagents: [{name: a, state: {x: [1]}}]\nsed: 1\n"
    first, _ = read_tree(text, "one.yaml")
    first["agents"][0]["state"]["x"].append(2)
    second, problems = read_tree(text, "two.yaml")
    assert (second["agents"], problems) == ([{"name": "a", "state": {"x": [1]}}], [])
    assert [read_tree(text, file)[0].keys_at["sed"].file for file in ("two.yaml", "one.yaml")] == [
        "two.yaml",
        "one.yaml",
    ]
    for file in ("one.yaml", "two.yaml"):
        with pytest.raises(ScenarioError) as caught:
            loads(text, file)
        assert str(caught.value).startswith(f"{file}:3:1: sed:")
    for number in range(10):  # more than are kept
        assert read_tree(f"x: {number}", "f.yaml")[0] == {"x": number}
    assert read_tree(text, "one.yaml")[0] == second
    broken = [read_tree("a: &x 1\nb: [\n", "f.yaml")[1] for _ in range(2)]
    assert broken[0] == broken[1]
    assert [problem.line for problem in broken[0]] == [1, 3]


def test_all_problems_come_at_once_in_file_order():
    """Schema, expression and reference problems are reported together, sorted by position."""
    text = (
        "name: x\nsede: 1\nuntil: soon\nagents:\n  - name: a\n    count: '3'\n    rules:\n"
        "      - {when: nothing > 1, do: {send: {to: nobody}}}\n      - {do: {read: {artifact: none}}}\n"
    )

    with pytest.raises(ScenarioError) as caught:
        loads(text, "f.yaml")

    assert [problem.line for problem in caught.value.problems] == [2, 3, 6, 8, 8, 9]
    assert str(caught.value).startswith("f.yaml:2:1: sede: unknown key 'sede' (did you mean 'seed'?)")


def test_a_refused_value_is_not_reported_twice():
    """What YAML refused already draws no second problem from the schema."""
    with pytest.raises(ScenarioError) as caught:
        loads("name: x\nseed: .nan\nuntil: *a\nagents: [{name: a, count: .inf}]\n")

    assert [str(problem.line) for problem in caught.value.problems] == ["2", "3", "4"]


def test_at_most_a_hundred_problems_are_collected_while_reading():
    """A file made of mistakes does not fill the memory with problems."""
    with pytest.raises(ScenarioError) as caught:
        loads("a: 1\n" * 10_000)

    assert len(caught.value.problems) == 100


def test_variables_of_the_environment_are_text():
    """Nothing in a scenario is replaced from outside."""
    text = "name: x\ndescription: ${HOME} $HOME {0}\nagents: [{name: a, state: {x: '${HOME}'}}]\n"

    scenario = loads(text)

    assert scenario.description == "${HOME} $HOME {0}"
    assert scenario.agents[0].state["x"].evaluate({}, {}) == "${HOME}"

"""The shipped jury and Asch's subjects: turn taking, silence, guards, verdicts; offline and at an endpoint of HTTP."""

import json
import re
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.llm import Access
from sim.record import open_run
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Seen, fitting

SCENARIOS = Path(__file__).parents[2] / "scenarios"
JURY, ASCH = SCENARIOS / "jury.yaml", SCENARIOS / "asch.yaml"


def held(tmp_path: Path, rules: str = "", **options: Any) -> tuple[Any, list[tuple[str, str]]]:
    """Run the jury, and return the result and what was said in the room: who and what."""
    changed = [*([f"models.rules={rules}"] if rules else []), *options.pop("overrides", ())]
    result = sim.run(JURY, out=tmp_path, overrides=changed, **options)
    assert result.run is not None
    with open_run(result.run) as stored:
        return result, list(stored.query("SELECT author, content FROM conversation_messages ORDER BY id"))


def last(result: Any, *names: str) -> list[Any]:
    """Return the last values of metrics."""
    return [result.metrics[name][-1] for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_jury_talks_in_turns_until_all_agree_or_it_is_hung(seed, tmp_path):
    """There is one verdict; ballots have twelve votes; between two of them nobody speaks more than twice, or twice in a
    row, and all of them at most 16 times; and talk ends because four in a row passed, or all have spoken enough.
    """
    result, said = held(tmp_path, seed=seed)
    assert result.errors == result.models["total"]["failed"] == 0
    assert sum(last(result, "convicted", "acquitted", "hung")) == 1
    ballots = [list(map(int, re.findall(r"\d+", text))) for who, text in said if text.startswith("Ballot")]
    assert [ballot[0] for ballot in ballots] == list(range(1, len(ballots) + 1))
    assert {guilty + acquit for _, guilty, acquit in ballots} == {12}
    assert [12 in ballot[1:] for ballot in ballots] == [False] * (len(ballots) - 1) + [last(result, "hung") == [0]]
    for is_text, group in groupby(said[1:], key=lambda one: not one[1].startswith("Ballot")):
        speakers = [who for who, _ in group]
        if is_text:
            assert len(speakers) <= 16
            assert max(Counter(speakers).values()) <= 2
            assert all(one != two for one, two in pairwise(speakers))


SPLIT = "{tool: vote, call: {vote: {verdict: \"='guilty' if me in ['juror-1', 'juror-2'] else 'not guilty'\"}}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("GUILTY, he had the key.", (1, 0)), ("ACQUIT, it was dark.", (0, 1)), ("NOT GUILTY, it was dark.", (0, 1)),
        ("I cannot tell.", (0, 0)),
    ],
)  # fmt: skip
def test_a_text_counts_for_the_side_that_it_names(text, counted):
    """A text counts for the side of its first words; NOT GUILTY is to acquit; what names no side counts for none."""
    asked = [f"metrics.values.{name}=state_of('clerk', '{name}')" for name in ("pro", "contra")]
    changed = [f"models.rules=[{SPLIT}, {{say: '{text}'}}]", *asked]
    result = sim.run(JURY, overrides=changed, until="3m")
    pro, contra = last(result, "pro", "contra")
    spoken = last(result, "texts")[0]
    assert spoken > 0
    assert (pro, contra) == tuple(spoken * one for one in counted)


@pytest.mark.slow
def test_one_juror_has_the_floor_is_a_property_that_can_fail(tmp_path):
    """With the floor given to all jurors at once, the property of the file fails; as shipped, it holds."""
    text = JURY.read_text(encoding="utf-8")
    rule = text.index("- name: gives the floor")
    (tmp_path / "all.yaml").write_text(text[:rule] + text[rule:].replace('to: "=floor"', "to: juror"), encoding="utf-8")
    for file, code in ((JURY, 0), (tmp_path / "all.yaml", 1)):
        found, out, err = command("test", file, "--seed", "1", "--until", "10m", "--property", "one-has-the-floor")
        assert found == code, out + err


@pytest.mark.slow
def test_silence_ends_the_talk(tmp_path):
    """Where all pass, four have the floor between two ballots, nothing is said, and the jury is hung at last."""
    result, said = held(tmp_path, f"[{SPLIT}, {{say: PASS}}]")
    assert [text for _, text in said[1:]] == [f"Ballot {n}: 2 guilty, 10 not guilty." for n in range(1, 9)]
    assert last(result, "floors", "hung", "ballots") == [4 * 7, 1, 8]


@pytest.mark.slow
def test_guards_end_chatter(tmp_path):
    """Jurors that never pass, at any length, speak 16 times between two ballots, with at most 400 characters."""
    result, said = held(tmp_path, f"[{SPLIT}, {{say: GUILTY {'and so on ' * 60}}}]")
    texts = [text for who, text in said[1:] if not text.startswith("Ballot")]
    assert len(texts) == 16 * 7
    assert {len(text) for text in texts} == {400}
    assert last(result, "hung", "texts") == [1, 16 * 7]


def test_who_does_not_answer_has_passed(tmp_path):
    """Calls that fail cost two minutes each: the ballot has the votes that came, and the next juror has the floor."""
    broken = "{agent: juror-3, fail: server}"
    result, said = held(tmp_path, f"[{broken}, {SPLIT}, {{say: PASS}}]", overrides=["agents.clerk.state.ballots=2"])
    assert [text for _, text in said[1:]] == [f"Ballot {n}: 2 guilty, 9 not guilty." for n in (1, 2)]
    assert last(result, "hung", "floors") == [1, 4]
    assert result.sim_seconds >= 240


@pytest.mark.slow
@pytest.mark.parametrize("file", [JURY, ASCH], ids=lambda file: file.stem)
def test_group_talk_is_the_same_on_both_loops_and_replayed(file, tmp_path):
    """asyncio, trio, a replay, and a run that was stopped on the way and resumed have one hash."""
    small = ["agents.subject.count=20"] if file == ASCH else []
    one = sim.run(file, overrides=small, out=tmp_path / "one")
    two = sim.run(file, overrides=small, backend="trio", out=tmp_path / "two")
    assert one.hash == two.hash == sim.replay(one).hash
    cut = sim.run(file, overrides=small, out=tmp_path / "cut", max_wall="1ms")
    assert cut.run is not None
    assert cut.hash != one.hash
    assert sim.resume(cut.run).hash == one.hash


def answers(seen: Seen) -> Any:
    """Answer as a model that follows the evidence, and convicts once a reason was given."""
    if not seen.body.get("tools"):
        return fitting(seen, "GUILTY. He had the key.")
    convicts = "leaned to guilty" in str(seen.body) or "juror-1: GUILTY. He had" in str(seen.body)
    return fitting(seen, "", calls=[("vote", json.dumps({"verdict": "guilty" if convicts else "not guilty"}))])


@pytest.mark.slow
def test_the_same_jury_sits_at_an_endpoint(tmp_path):
    """Only the options of the operator differ: all jurors ask the endpoint, and read who has said what."""
    with Endpoint(answers) as endpoint:
        access = Access(("openai:gpt-4o-mini",), base_url=endpoint.url, api_key="sk-none")
        changed = ["models.latency=1s", "interventions=[]", "agents.clerk.state.strength=0"]
        result, said = held(tmp_path, access=access, overrides=changed)
        asked = len(endpoint.seen)
    assert result.errors == 0
    assert asked == result.models["total"]["calls"]
    assert said[-1][1] == f"Ballot {last(result, 'ballots')[0]}: 12 guilty, 0 not guilty."
    assert last(result, "convicted") == [1]
    assert 0 < last(result, "first")[0] < 12


# -- Asch's subjects


@pytest.mark.slow
def test_subjects_follow_only_where_the_group_is_wrong():
    """Of 18 trials, 12 are critical; without others, and with all of them right, nobody follows or errs."""
    result = sim.run(ASCH, overrides=["agents.subject.count=40"])
    follow, never, erring, missing = last(result, "conforming", "independent", "erring", "missing")
    assert 0.2 < follow < 0.55
    assert 0 < never < 0.5
    assert [erring, missing] == [0, 0]
    alone = sim.run(ASCH, overrides=["agents.subject.count=40", "agents.subject.state.partner=7"])
    assert last(alone, "conforming", "independent") == [0, 1]

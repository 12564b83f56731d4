"""Generative agents: which memories they recall, how they plan, talk and reflect, and that a run of them repeats."""

import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.kinds.generative.plans import NAMES, DayPlan, Item, item_at, place_in, read_plan
from sim.kinds.generative.scores import DECAY, WEIGHTS, normalised, ranked, recencies
from sim.kinds.town.generation import generate
from sim.record import open_run
from sim.record.views import VIEWS
from sim.scenario import loads
from tests.agents.kills import killed_and_resumed
from tests.agents.same import same_everywhere, same_in_a_replay, same_when_renewed

ROOT = Path(__file__).parents[3]
SMALLVILLE = ROOT / "scenarios" / "smallville.yaml"
HOUR_NS = 3600 * 10**9
TIMES = st.dictionaries(st.integers(1, 50), st.integers(0, 100 * HOUR_NS), min_size=1, max_size=20)
VALUES = st.dictionaries(st.integers(1, 50), st.floats(0, 1e6), min_size=1, max_size=20)
VARIANT = st.sampled_from(["paper", "code"])

RULES = """
models:
  rules:
    - {name: importance, use: importance, say: IMPORTANCE}
    - {name: day, use: plan_day, system: "*<usual_day>{usual*}</usual_day>*", say: "=usual"}
    - {name: parts, use: [plan_hour, plan_minutes], system: "*<plan>{above*}</plan>*", say: "=above"}
    - {name: react, use: react, text: "*talk*", say: talk}
    - {name: else, use: react, say: continue}
    - {name: over, use: talk, text: "*utterance {n}.*", when: int(n) > 2, say: END}
    - {name: news, use: talk, system: "*dragon*", say: News of the dragon!}
    - {name: talk, use: talk, say: Hello.}
    - {name: questions, use: questions, say: "1. What is new?\\n2. Who?\\n3. Where?\\n4. Why?"}
    - {name: insights, use: insights, say: "- Life is calm (because of 1, 2, 999)\\n- No evidence"}
    - {name: lies, use: survey, text: "*dragon*", when: me == LIAR, say: "yes"}
    - {name: dragon, use: survey, text: "*dragon*", system: "*dragon*", say: "yes"}
    - {name: knows, use: survey, text: "*know of {who}?*", when: "contains(system, who + ' ')", say: "yes"}
    - {name: does-not, use: survey, say: "no"}
"""

TOWN = f"""
name: x
seed: 1
until: 15h
memory: {{}}
conversations: {{}}
generative:
  begins: 6h
  facts:
    dragon: {{agent: r-1, text: A dragon lives in the pub., words: [DRAGON], ask: Is there a dragon?}}
{RULES}
agents: [{{name: r, count: 25, kind: generative_agent}}]
interventions:
  - at: end
    survey:
      agents: r
      questions:
        - {{ask: Is there a dragon?, options: ["yes", "no"]}}
        - {{ask: Do you know of r-1?, options: ["yes", "no"]}}
        - {{ask: Do you know of r-2?, options: ["yes", "no"]}}
"""


def run(tmp_path: Path, text: str = TOWN, **changed: str) -> tuple[Any, Any]:
    """Run the town with some words of its file changed, and return its result and a function that asks its record."""
    changed = {"IMPORTANCE": '"2"', "LIAR": "'r-0'", **changed}
    for word, value in changed.items():
        text = text.replace(word, value)
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    result = sim.run(file, out=tmp_path / "runs")

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with open_run(str(result.run)) as stored:
            return [tuple(row) for row in stored.query(sql)]

    return result, ask


# -- scores


@given(TIMES, st.integers(0, 50), st.sampled_from([1, 24]))
def test_recency_of_the_paper_falls_by_a_factor_an_hour(times, later, hours):
    """It is 1 at the moment of a recall, and 0.995 to the power of the hours since then."""
    now = max(times.values()) + later * HOUR_NS
    found = recencies(times, now, "paper")
    for id, time in times.items():
        assert found[id] == pytest.approx(0.995 ** ((now - time) / HOUR_NS))
        assert recencies({id: time}, time + hours * HOUR_NS, "paper")[id] == pytest.approx(0.995**hours)


@given(TIMES)
def test_recency_of_the_code_falls_by_a_factor_a_rank(times):
    """The memory that was recalled longest ago has 0.99, the next one 0.99 squared, whatever the time."""
    found = recencies(times, max(times.values()), "code")
    order = sorted(times, key=lambda id: (times[id], id))
    assert [found[id] for id in order] == [pytest.approx(0.99**rank) for rank in range(1, len(order) + 1)]


@given(VALUES)
def test_normalised_values_go_from_0_to_1_in_the_same_order(values):
    """The least becomes 0 and the greatest 1; equal values become 0.5, and no order is turned round."""
    found = normalised(values)
    if len(set(values.values())) == 1:
        assert set(found.values()) == {0.5}
        return
    assert (min(found.values()), max(found.values())) == (0, 1)
    order = sorted(values, key=values.__getitem__)
    assert all(found[one] <= found[two] for one, two in pairwise(order))


@pytest.mark.slow
@given(VALUES, VARIANT, st.data())
def test_ranks_hold_each_memory_once_and_none_is_below_one_that_it_beats(values, variant, data):
    """All memories are ranked; one with no less of each score than another one, and more of one, is not below it."""
    relevance = {id: data.draw(st.integers(0, 5)) for id in values}
    importance = {id: data.draw(st.integers(1, 10)) for id in values}
    order = ranked(values, relevance, importance, variant)
    assert sorted(order) == sorted(values)
    best = normalised(values), normalised(relevance), normalised(importance)
    sums = {id: sum(w * part[id] for w, part in zip(WEIGHTS[variant], best, strict=True)) for id in values}
    assert all(sums[one] >= sums[two] - 1e-6 for one, two in pairwise(order))


@given(VARIANT)
def test_equal_memories_are_ranked_by_age(variant):
    """Of memories with equal scores, the newest comes first."""
    equal = dict.fromkeys(range(1, 6), 1.0)
    assert ranked(equal, equal, equal, variant) == [5, 4, 3, 2, 1]


def test_the_constants_are_those_that_were_published():
    """0.995 an hour and equal weights in the paper; 0.99 and 0.5, 3, 2 in the released code."""
    assert (DECAY, WEIGHTS) == ({"paper": 0.995, "code": 0.99}, {"paper": (1, 1, 1), "code": (0.5, 3, 2)})


# -- plans


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("07:30 is at home", (450, None, "is at home", "home")),
        ("- 12:00 pm: has lunch at the Cafe", (720, None, "has lunch at the Cafe", "cafe")),
        ("12:15 am - sleeps", (15, None, "sleeps", None)),
        ("1:15 p.m. sleeps", (795, None, "sleeps", None)),
        ("8:00 ambles to the park", (480, None, "ambles to the park", "park")),
        ("9:00pm. Pampers the cat", (1260, None, "Pampers the cat", None)),
        ("5:00 pm - 7:00 pm, the party at the cafe", (1020, 1140, "the party at the cafe", "cafe")),
        ("3) 17:00-19:00 walks home from the park", (1020, 1140, "walks home from the park", "park")),
    ],
)
def test_a_line_of_a_plan_is_read_as_models_write_it(line, item):
    """Times of 12 and of 24 hours, ranges, bullets and numbers are understood; the place is the last that is named."""
    start, end, what, place = item
    assert read_plan(line) == DayPlan(
        items=[Item(start=start, end=end, what=what, place=place)], unreadable=0, surplus=0
    )


@given(st.text(max_size=300))
def test_any_text_can_be_read_as_a_plan(text):
    """Nothing that a model writes is an error: each line is an item of this day, or is counted as unreadable."""
    plan = read_plan(text)
    assert len(plan.items) + plan.unreadable == len([line for line in text.splitlines() if line.strip()])
    assert all(0 <= item.start < 1440 and (item.end is None or item.start < item.end < 1440) for item in plan.items)


def test_a_line_without_words_is_no_item():
    """What an agent does is a word at least: small models write lines of times only, which others would remember."""
    assert read_plan("17:00 19:\n12:00 :\n17:00-19:00 21:30\n18:00 - tea") == DayPlan(
        items=[Item(start=1080, end=None, what="tea", place=None)], unreadable=3, surplus=0
    )


def test_lines_after_the_most_items_are_surplus():
    """A plan has its first 40 items; further ones are not called unreadable, and lines without a time still are."""
    plan = read_plan("\n".join([*(f"{n // 60:02}:{n % 60:02} works" for n in range(43)), "later"]))
    assert (len(plan.items), plan.unreadable, plan.surplus) == (40, 1, 3)
    assert plan.items[-1].start == 39


@given(st.lists(st.tuples(st.integers(0, 1439), st.integers(1, 300), st.booleans()), max_size=8), st.integers(0, 1439))
def test_an_item_with_an_end_counts_before_one_without(drawn, minute):
    """At each minute, the item that counts has begun, has not ended, and has an end if any such item has one."""
    items = sorted(
        (Item(start=s, end=s + d if ends else None, what="x", place=None) for s, d, ends in drawn),
        key=lambda item: item.start,
    )
    found = item_at(items, minute)
    open_ = [item for item in items if item.end is not None and item.start <= minute < item.end]
    begun = [item for item in items if item.end is None and item.start <= minute]
    assert found == (open_[-1] if open_ else begun[-1] if begun else None)


def test_a_plan_names_the_places_of_the_town():
    """Each place of the town is found in a text, in any case of letters, and as a whole word only."""
    assert [place_in(f"is at the {name.upper()}.") for name in NAMES] == list(NAMES)
    assert place_in("parks the car in an officer's homestead") is None


# -- the town


@pytest.mark.slow
def test_residents_follow_the_traces_of_the_town(tmp_path):
    """An agent whose plan is the usual day is where the villager of the same seed and number is, at each look."""
    _, ask = run(tmp_path, IMPORTANCE='"1"')
    trace = generate(1, 25)
    moved = ask("SELECT agent, time_ns, result FROM actions WHERE kind = 'live' AND time < 39600")
    checked = 0
    for agent, time, result in moved:
        number, step = int(agent[2:]) - 1, (time + 6 * HOUR_NS) // 10**10 + 30
        if json.loads(result)["doing"] != "is asleep":
            checked += 1
            assert tuple(json.loads(result)["to"]) == trace.at(number, step)
    assert checked > 2000


@pytest.mark.slow
def test_news_spreads_by_talks_that_both_remember(tmp_path):
    """Who talks with one who knows, knows; the record has the memory that is evidence, and a lie has none."""
    result, ask = run(tmp_path, LIAR="'r-25'")
    known = {agent: (says, memory) for agent, says, memory in ask("SELECT agent, says, memory FROM knowledge")}
    assert len(known) == 25
    assert known["r-1"] == (
        "yes",
        ask("SELECT data ->> '$.memory' FROM events WHERE topic = 'generative.planted'")[0][0],
    )
    told = {one for row in ask('SELECT agent, "to" FROM talks') if "r-1" in row for one in row}
    assert len(told) > 1
    assert all(known[one][1] is not None for one in told)
    said = dict(ask("SELECT conversation, count(*) FROM conversations GROUP BY 1"))
    talks = {tuple(row) for row in ask("SELECT agent, substr(content, 1, instr(content, '.')) FROM memories")}
    for agent, other, conversation, turns in ask('SELECT agent, "to", conversation, turns FROM talks'):
        assert (turns, said[conversation] >= 2) == (2, True)
        for one, partner in ((agent, other), (other, agent)):
            assert (one, f"{one} talked with {partner}.") in talks
    assert result.services["generative"]["talks"] == len(ask("SELECT 1 FROM talks"))
    lied = ask("SELECT agent FROM knowledge WHERE says = 'yes' AND memory IS NULL")
    assert lied == ([] if known["r-25"][1] is not None else [("r-25",)])


@pytest.mark.slow
def test_a_pair_knows_each_other_if_both_say_so(tmp_path):
    """The view has a row for each pair that was asked about each other, and counts it only if both say yes."""
    _, ask = run(tmp_path)
    assert ask("SELECT agent, other FROM acquaintances") == [("r-1", "r-2")]
    asked = "SELECT agent, option FROM surveys WHERE agent || question IN"
    asked += " ('r-1Do you know of r-2?', 'r-2Do you know of r-1?')"
    said = dict(ask(asked))
    assert ask("SELECT mutual FROM acquaintances") == [(int(set(said.values()) == {"yes"}),)]


@pytest.mark.slow
def test_agents_reflect_on_what_matters(tmp_path):
    """Above the sum of importance, three questions are asked, and conclusions are kept with the memories they name."""
    result, ask = run(tmp_path, IMPORTANCE='"10"')
    rows = ask("SELECT data ->> '$.importance', json_array_length(data, '$.questions') FROM events"
               " WHERE topic = 'generative.reflected'")  # fmt: skip
    assert rows
    assert all(importance > 150 and questions == 3 for importance, questions in rows)
    assert result.services["generative"]["reflections"] == len(rows)
    unfounded = ask("SELECT count(*) FROM reflections WHERE evidence = '[]'")[0][0]
    assert result.services["generative"]["unfounded"] == unfounded > 0
    assert any("named no memory" in str(one) for one in result.warnings)
    kept = set(
        ask(
            "SELECT data ->> '$.agent', data ->> '$.id' FROM events"
            " WHERE topic = 'memory.added' AND data ->> '$.kind' = 'reflection'"
        )
    )
    found = ask("SELECT agent, memory, content, evidence FROM reflections")
    assert {content for _, _, content, _ in found} == {"Life is calm.", "No evidence."}
    for agent, memory, content, evidence in found:
        cited = json.loads(evidence)
        assert len(cited) == (2 if content == "Life is calm." else 0)
        assert all(0 < one < memory for one in cited)
        assert (agent, memory) in kept


def test_unusable_answers_are_counted_and_reported(tmp_path):
    """A plan without times, an importance that is none and an END at once change nothing but the counts."""
    text = TOWN.replace('say: "=usual"', "say: I do not plan.").replace("count: 25", "count: 2")
    result, ask = run(tmp_path, text, IMPORTANCE="I cannot say")
    missed = dict(ask("SELECT data ->> '$.use', count(*) FROM events WHERE topic = 'generative.missed' GROUP BY 1"))
    assert missed["importance"] >= 5
    assert result.services["generative"]["unreadable"] >= 2
    assert {
        importance for (importance,) in ask("SELECT DISTINCT importance FROM memories WHERE kind = 'observation'")
    } == {5}
    assert any("did without answers of models" in str(one) for one in result.warnings)
    assert any("no readable time" in str(one) for one in result.warnings)


@pytest.mark.slow
def test_answers_without_words_are_counted(tmp_path):
    """What has no words is no utterance, no question and no conclusion: it is noted with what was done instead."""
    for use, old, new in (
        ("talk", "say: Hello.", "say: '...'"),
        ("insights", 'say: "- Life is calm', 'say: "(because of 1)\\n'),
        ("questions", 'say: "1. What is new?', 'say: "1. ...'),
    ):
        text = TOWN.replace(old + TOWN.partition(old)[2].partition("}\n")[0], new + ('"' if '"' in new else ""))
        result, ask = run(tmp_path, text.replace("until: 15h", "until: 6h"), IMPORTANCE='"10"')
        found = ask("SELECT data ->> '$.use', count(*) FROM events WHERE topic = 'generative.missed' AND data ->>"
                    " '$.error' LIKE 'the answer has no words%' GROUP BY 1")  # fmt: skip
        assert [(one, count > 0) for one, count in found] == [(use, True)]
        assert result.services["generative"]["missed"] == sum(count for _, count in found)


def test_answers_of_one_round_belong_together_whenever_they_come():
    """A pair has one row for each round of a survey, also if one answers later, or another survey asks then."""
    events = [
        ("intervention.applied", 1, {"does": "survey", "name": "night"}),
        ("intervention.applied", 1, {"does": "survey", "name": "day"}),
        *(_said("night", at, one, other, "yes") for at, one, other in ((1, "a", "b"), (4, "b", "a"))),
        *(_said("day", 4, one, other, "no") for one, other in ("ab", "ba")),
        ("intervention.applied", 4, {"does": "survey", "name": "night"}),
        *(_said("night", at, one, other, says) for at, one, other, says in ((4, "b", "a", "no"), (9, "a", "b", "yes"))),
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, topic, time, time_ns, data)")
        rows = [(topic, time, time * 10**9, json.dumps(data)) for topic, time, data in events]
        database.executemany("INSERT INTO events (topic, time, time_ns, data) VALUES (?, ?, ?, ?)", rows)
        found = database.execute(
            f"SELECT survey, agent, other, says, other_says, mutual FROM ({VIEWS['acquaintances']})"  # noqa: S608
        )
        assert sorted(found) == [
            ("day", "a", "b", "no", "no", 0), ("night", "a", "b", "yes", "no", 0), ("night", "a", "b", "yes", "yes", 1),
        ]  # fmt: skip


def _said(survey: str, at: int, one: str, other: str, says: str) -> tuple[str, int, dict[str, str]]:
    return "survey.answer", at, {"survey": survey, "agent": one, "question": f"Do you know of {other}?", "value": says}


@pytest.mark.parametrize("relevance", ["words", "embeddings"])
def test_relevance_is_by_words_or_by_embeddings(relevance, tmp_path):
    """With embeddings, a model is asked for them, once for each memory; without, for none."""
    text = TOWN.replace("begins: 6h", f"begins: 6h\n  relevance: {relevance}").replace("count: 25", "count: 3")
    result, ask = run(tmp_path, text.replace("until: 15h", "until: 4h"))
    calls = ask("SELECT count(*) FROM llm_calls WHERE use = 'embed'")[0][0]
    assert (calls > 0) == (relevance == "embeddings")
    assert result.services["generative"]["missed"] == 0


# -- the same everywhere


@pytest.mark.slow
def test_smallville_is_the_same_everywhere(tmp_path):
    """One hash on asyncio and trio and with another hash seed, in a replay, and with agents that are made anew."""
    same_everywhere(SMALLVILLE, mode="autonomous", until="9h")
    same_in_a_replay(SMALLVILLE, tmp_path, until="9h", backend="trio")
    assert len(set(same_when_renewed(SMALLVILLE, mode="tick", until="9h"))) == 25


@pytest.mark.slow
def test_a_branch_without_a_change_ends_as_the_run(tmp_path):
    """A branch from the middle has the hash of the whole run."""
    whole = sim.run(SMALLVILLE, until="9h", out=tmp_path)
    assert sim.branch(whole.run or "", at="8h", out=tmp_path / "more").hash == whole.hash


@pytest.mark.proof
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_run_is_resumed_to_the_same_hash(seed, tmp_path):
    """Its process is killed at random moments, and the resumed run has the hash of one in one go."""
    killed_and_resumed(SMALLVILLE, tmp_path, kills=3, seed=seed, until="20h", longest=1.5)


# -- bad input


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ("memory: {}", "", "agents.r remembers, which needs `memory`", "add `memory: {}`"),
        ("conversations: {}", "", "agents.r talks, which needs `conversations`", "add `conversations: {}`"),
        ("agent: r-1", "agent: r-99", "r-99", ""),
        ("words: [DRAGON]", "words: []", "every memory would be evidence", "words: [mayor]"),
        ("words: [DRAGON]", "words: [unicorn]", "the text itself lacks 'unicorn'", "words of the text"),
        ("begins: 6h", "begins: 6h\n  look: 7s", "a multiple of 10s that divides a day", "5m"),
        ("begins: 6h", "begins: 6h\n  look: 5h", "a multiple of 10s that divides a day", "5m"),
        ("begins: 6h", "begins: 25h", "a multiple of `look` below 24h", "begins: 6h"),
    ],
)
def test_a_wrong_town_is_refused(old, new, said, hint):
    """One sentence says what is wrong, and a hint what to write instead."""
    text = TOWN.replace("IMPORTANCE", '"2"').replace("LIAR", "'r-0'").replace(old, new)
    with pytest.raises((ScenarioError, UsageError)) as caught:
        sim.run(loads(text), out=None)
    shown = f"{caught.value} {getattr(caught.value, 'hint', '')}"
    assert said in shown
    assert hint in shown


def test_residents_need_a_town_and_a_town_residents():
    """Generative agents without `generative`, and the section without them, are refused."""
    body = "name: x\nuntil: 1h\nmemory: {}\nconversations: {}\nmodels: {rules: [{say: hi}]}\n"
    for rest, said in (
        ("agents: [{name: r, kind: generative_agent}]", "lives in a town, which needs `generative`"),
        ("generative: {}\nagents: [{name: r}]", "there are no generative agents"),
    ):
        with pytest.raises((ScenarioError, UsageError), match=said):
            sim.run(loads(body + rest), out=None)

"""The calls in a view: prompts and answers as they are recorded."""

import json
import re

import pytest

from sim.inspect.viewer import write_view
from sim.kernel.codec import encode
from sim.llm import Access
from sim.record import open_run
from sim.runner import run as run_scenario
from sim.runner.prompts import repeated_prompts
from tests.llm.endpoint import Endpoint, Reply, whole
from tests.viewer.conftest import page_of, read
from tests.viewer.test_browser import until

ODD = 'say "$": {"$":[0,1]} \\ \u202e\x1b[31m </script><b>\u00e9\U0001f600\ttab\nline \x00 end ' + "long " * 80
ASKED = re.sub(r"[\x00\x1b\u202e]", "", ODD)  # a scenario must not have these signs; a model's answer can
TALK = """
name: talk
until: 10m
models: {tiers: {default: m}, rules: [{say: no}]}
agents:
  - name: asker
    count: 2
    state: {n: 0, talk: []}
    rules:
      - when: n < 3
        do: {ask: {prompt: ODD, system: Be odd., history: talk}}
        set: {n: "=n + 1"}
      - do: stop
"""


@pytest.fixture
def odd_run(tmp_path, monkeypatch):
    """A run whose agents asked an endpoint odd things and got odd answers."""
    file = tmp_path / "talk.yaml"
    file.write_text(TALK.replace("ODD", json.dumps(ASKED, ensure_ascii=False)), encoding="utf-8")
    with Endpoint(lambda seen: Reply(body=whole(f"{ODD} {seen.number}"))) as endpoint:
        access = Access(models=("openai:m",), base_url=endpoint.url)
        folder = run_scenario(file, out=tmp_path / "runs", access=access).run
    assert folder is not None
    with open_run(folder) as opened:
        yield opened


def calls_of(page):
    """Return facts, request and result of each call, put together as the script of the page does it."""
    parts = dict[int, bytes]()
    for block, first, count in page.about["parts"]:
        lines = page.blocks[block].split(b"\n")
        assert len(lines) == count
        parts |= {first + number: line for number, line in enumerate(lines)}
    for one in page.about["calls"]:
        lines = page.blocks[one["block"]].split(b"\n")
        for facts, request, result in zip(lines[0::3], lines[1::3], lines[2::3], strict=True):
            known = json.loads(facts)
            own = [parts[id] for id in json.loads(known["parts"])]

            def put(found, own=own):
                first, count = int(found[1]), int(found[2])
                return b",".join(own[first : first + count])

            yield known, re.sub(rb'\{"\$":\[(\d+),(\d+)\]\}', put, request), result


def test_prompts_and_answers_are_byte_for_byte_those_of_the_record(odd_run):
    """Each request and each result in the page is the canonical JSON of the record, whatever characters are in it."""
    page = page_of(odd_run)
    calls = list(calls_of(page))
    assert len(calls) == page.about["calls_in_all"] == 6
    for facts, request, result in calls:
        where = (facts["actor"], facts["ordinal"])
        assert request == encode(odd_run.request(*where))
        sql = "SELECT CAST(result AS BLOB) FROM effects WHERE actor = ? AND ordinal = ?"
        assert result == odd_run.query(sql, where)[0][0]
    asked = json.loads(calls[-1][1])["messages"]
    assert [message["content"] for message in asked if message["role"] == "user"] == [ASKED] * 3
    assert ODD in asked[2]["content"]
    assert json.loads(calls[-1][2])["answer"]["completion"]["text"].startswith(ODD)


def test_calls_of_scripted_models_are_added_from_a_replay(ran, tmp_path):
    """With what a replay repeats, each call of a model in the core has its prompt and its answer, before its event."""
    run = ran(TALK.replace("ODD", "Well?"))
    assert page_of(run).about["calls_in_all"] == 0
    file = write_view(run, tmp_path / "repeated.html", repeated=repeated_prompts(run)).file
    page = read(file)
    calls = list(calls_of(page))
    assert len(calls) == page.about["calls_in_all"] == 6
    for facts, request, result in calls:
        assert facts["safety"] == "repeated"
        assert json.loads(request)["messages"][-1]["content"] == "Well?"
        assert json.loads(result)["answer"]["completion"]["text"] == "no"
    (index,) = page.about["calls"]
    before = json.loads(page.blocks[index["rows"]])["before"]
    events = list(run.events())
    assert {events[number].topic for number in before} == {"model.call"}


@pytest.mark.proof
def test_the_page_shows_whole_prompts_and_answers(odd_run, browser):
    """Opened, a call shows all messages and the whole answer; only signs that could mislead are written as escapes."""
    page = page_of(odd_run)
    (_, request, result), *_ = calls_of(page)
    browser.open(page.file, anchor="#t=600&tab=calls")
    until(browser, "document.querySelectorAll('details.call').length === 6")
    browser.evaluate("document.querySelectorAll('details.call').forEach((one) => { one.open = true; })")
    until(browser, "document.querySelectorAll('pre.result').length === 6")
    shown = browser.evaluate("[...document.querySelectorAll('pre.request')].map((one) => one.textContent)")
    results = browser.evaluate("[...document.querySelectorAll('pre.result')].map((one) => one.textContent)")
    answers = browser.evaluate("[...document.querySelectorAll('pre.exact')].map((one) => one.textContent)")
    assert len(shown) == 6
    assert request.decode().replace("\u202e", "\\u202e") in shown
    assert result.decode().replace("\u202e", "\\u202e") in results
    wanted = json.loads(result)["answer"]["completion"]["text"]
    assert wanted.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b").replace("\x00", "\\x00") in answers
    assert browser.evaluate("document.querySelectorAll('b').length") == browser.evaluate(
        "document.querySelectorAll('figcaption b, summary b, .what b').length"
    )
    assert browser.said == []

"""The view in a real browser."""

import json
import re
from pathlib import Path

import pytest

from sim.inspect.viewer import ViewServer, write_view
from sim.record import open_run
from sim.record.unfinished import UnfinishedAnswer, drop_unfinished, write_unfinished
from tests.viewer.conftest import HOSTILE, states
from tests.viewer.test_chunks import MARKET, VOTERS, forged
from tests.viewer.test_server import record
from tests.viewer.test_server import recorder as recorder

TALKERS = """
name: talkers
until: 1h
seed: 2
agents:
  - name: talker
    count: 5
    loop: {min_loop_delay: 1m}
    rules:
      - do: {send: {to: "='talker-' + str(randint(1, 5))", topic: news, data: {text: "='the time is ' + str(now)"}}}
metrics: {every: 5m, values: {awake: "in_state('running')"}}
"""


DRAWN = """
(() => {
  const kept = CanvasRenderingContext2D.prototype.fillText;
  window.drawn = [];
  CanvasRenderingContext2D.prototype.fillText = function (...given) {
    window.drawn.push(given[0]);
    return kept.apply(this, given);
  };
})()
"""
"""Before a page is read: what it writes on canvases is kept."""


def wait(browser, milliseconds=250):
    """Let the page load and draw."""
    browser.evaluate(f"new Promise((done) => setTimeout(done, {milliseconds}))")


def text_of(browser, selector):
    """Return the text of an element."""
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def until(browser, condition):
    """Wait until a condition on the page holds; whoever asserts it says what is wrong if it never does."""
    browser.evaluate(
        "(async () => { for (let turn = 0; turn < 400; turn++) { try { if (" + condition + ") return; } catch {}"
        " await new Promise((done) => setTimeout(done, 25)); } })()"
    )


def until_text(browser, selector, text):
    """Wait until an element has a text."""
    until(browser, f"document.querySelector({json.dumps(selector)}).textContent.includes({json.dumps(text)})")


@pytest.mark.slow
def test_hostile_texts_stay_harmless(stored, browser):
    """Names, messages and scenarios that are markup, or reorder text, are shown as they are spelled, in every panel."""
    said = {"conversation": HOSTILE, "role": "user", "author": HOSTILE, "content": HOSTILE, "id": 1}
    run = stored(
        [
            *states(HOSTILE, (0, "running")),
            (1, HOSTILE, "message.sent", {"sender": HOSTILE, "to": HOSTILE + "2", "topic": HOSTILE, "data": HOSTILE}),
            (1, HOSTILE, "conversation.message", said),
            (2, HOSTILE, "channel.post", {"author": HOSTILE, "channel": "#" + HOSTILE, "text": HOSTILE}),
            (2, HOSTILE, "place.entered", {"agent": HOSTILE, "from": HOSTILE + "3", "to": HOSTILE}),
            (2, HOSTILE, "agent.error", {"error": HOSTILE}),
            (3, HOSTILE, "metric.sample", {HOSTILE: 1}),
            (3, HOSTILE, "action.ask", {"arguments": {"prompt": HOSTILE}, "success": True, "result": HOSTILE}),
            (4, HOSTILE, "x." + HOSTILE, HOSTILE),
        ],
        name=HOSTILE,
        scenario=HOSTILE,
        digest={"agents": {HOSTILE: {"state": {HOSTILE: HOSTILE, "b": 1}}, "x": {"state": {"b": 2}}}},
    )
    browser.open(write_view(run).file, anchor="#t=100&event=8")
    for tab in ("chat", "events", "calls", "run", "search", "agents"):
        browser.evaluate(f"document.querySelector('#tab-{tab}').click()")
        wait(browser, 60)
    browser.evaluate("document.querySelector('.cells.row').click()")
    wait(browser, 100)

    assert browser.evaluate("document.querySelectorAll('img, iframe, object, script:not([type])').length") == 1
    assert browser.evaluate("document.title").endswith(": view")
    spelled = '"><script>document.title="hacked"</script>'
    assert text_of(browser, "header h1").startswith(spelled)
    assert text_of(browser, ".panel h2").startswith(spelled)
    assert "\\u202eevil" in text_of(browser, ".panel h2")
    assert "\u202e" not in browser.evaluate("document.body.innerText")
    assert browser.said == []
    assert [url for url in browser.asked if url.startswith(("http", "ws"))] == []


@pytest.mark.proof
def test_one_bar_drives_the_page(ran, browser, tmp_path):
    """A time in the address, keys and a click on a chart move map, states, charts and lists together."""
    browser.open(write_view(ran(TALKERS)).file, anchor="#t=1200&tab=chat&agent=talker-1")
    until(browser, "document.querySelector('.said.later') && document.querySelectorAll('.charts canvas').length > 2")
    assert text_of(browser, ".time").startswith("0h20m00s of 1h00m")
    before = browser.evaluate("[...document.querySelectorAll('.said:not(.later) .text')].map((one) => one.textContent)")
    after = browser.evaluate("[...document.querySelectorAll('.said.later .text')].map((one) => one.textContent)")
    assert before
    assert max(float(text.split()[-1]) for text in before) <= 1200 < min(float(text.split()[-1]) for text in after)
    names = browser.evaluate(
        "[...document.querySelectorAll('.said')].map((one) => one.querySelector('.by').textContent)"
    )
    assert all("talker-1" in text for text in names)
    assert "awake" in text_of(browser, ".charts")
    assert browser.evaluate("document.querySelectorAll('.charts canvas').length") >= 3
    key = "dispatchEvent(new KeyboardEvent('keydown', {{ key: {!r}, bubbles: true }}))"
    browser.evaluate(key.format("ArrowRight"))
    until_text(browser, ".time", "0h20m36s")
    assert text_of(browser, ".time").startswith("0h20m36s")
    browser.evaluate(key.format("End"))
    until_text(browser, ".time", "1h00m00s of")
    assert text_of(browser, ".time").startswith("1h00m00s")
    browser.picture(tmp_path / "view.png")
    assert (tmp_path / "view.png").stat().st_size > 30_000
    assert browser.said == []


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 900])
def test_the_map_is_there_on_a_small_screen(ran, browser, tmp_path, width):
    """On a screen that is too narrow for two columns, map and charts stand above the tabs, and the page scrolls."""
    browser.open(write_view(ran(TALKERS)).file, width=width, anchor="#tab=agents")
    wait(browser)
    left, chart, right = (
        browser.evaluate(f"document.querySelector('{part}').offsetHeight")
        for part in ("section.left", ".charts canvas", "section.right")
    )
    browser.picture(tmp_path / "small.png", whole=True)
    browser.evaluate("scrollTo(0, 100000)")

    assert min(left, right) >= 200
    assert chart > 20
    assert browser.evaluate("document.querySelector('section.right').getBoundingClientRect().top") < 500
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.proof
def test_a_name_is_written_once(ran, browser):
    """On the map of contacts, an agent that wrote to others has its name once, like the others."""
    file = write_view(ran(TALKERS)).file
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=DRAWN)
    browser.open(file, anchor="#tab=agents&t=3600")
    until(browser, "document.querySelector('.map').dataset.settled === 'yes'")
    frames = "Number(document.querySelector('.map').dataset.drawn)"
    before = browser.evaluate(f"(window.drawn = []) && {frames}")
    browser.evaluate("document.querySelector('.zoom button').click()")
    until(browser, f"{frames} > {before}")
    names, after = browser.evaluate(f"[window.drawn.filter((one) => one.startsWith('talker-')), {frames}]")

    assert names
    assert all(names.count(name) <= after - before for name in names)


@pytest.mark.proof
def test_an_event_shows_its_identity_and_its_data(ran, browser):
    """An event that is opened has the identity, the time and the data of the record, and the page is at its time."""
    run = ran(TALKERS)
    row = list(run.events())[40]
    browser.open(write_view(run).file, anchor="#event=41&tab=events")
    until_text(browser, ".drawer h3", "event 41")
    told = text_of(browser, ".drawer table")
    assert f"source {row.source}, counter {row.counter}" in told
    assert f"({row.time_ns} ns, delta {row.delta}, priority {row.priority})" in told
    assert json.loads(text_of(browser, ".drawer pre")) == row.data
    browser.evaluate("dispatchEvent(new KeyboardEvent('keydown', { key: '.', bubbles: true }))")
    wait(browser)
    browser.evaluate("document.querySelector('.drawer [title=\"the event after\"]').click()")
    until_text(browser, ".drawer h3", "event 42")
    assert text_of(browser, ".drawer h3") == "event 42"


@pytest.mark.proof
def test_an_agent_has_its_story(ran, browser):
    """A chosen agent shows its state, place and balance at the time, and what it did until then."""
    browser.open(write_view(ran(MARKET)).file, anchor="#t=600&agent=seller-2")
    until(browser, "document.querySelectorAll('.around .row').length > 10")
    facts = text_of(browser, ".facts")
    assert "stategroup" not in facts
    for name in ("group", "state", "place", "balance", "last action"):
        assert name in facts
    assert browser.evaluate("document.querySelectorAll('.around .row:not(.later)').length") > 10


@pytest.mark.proof
def test_search_finds_names_and_texts(ran, browser):
    """The search finds an agent by its name and a message by a part of its text, and opens its event."""
    browser.open(write_view(ran(TALKERS)).file, anchor="#tab=search")
    wait(browser)
    fill = (
        "(() => { const field = document.querySelector('[aria-label=search]');"
        " field.value = %r; field.dispatchEvent(new Event('input')); })()"
    )
    browser.evaluate(fill % "TALKER-3")
    until(browser, "document.querySelector('.around .link.name')")
    assert text_of(browser, ".around:not([hidden]) .link.name") == "talker-3"
    browser.evaluate(fill % "time is 600")
    until(browser, "document.querySelector('.around mark').textContent === 'time is 600'")
    hits = browser.evaluate(
        "[...document.querySelectorAll('.panel:not([hidden]) .around mark')].map((one) => one.textContent)"
    )
    assert hits
    assert set(hits) == {"time is 600"}
    browser.evaluate("document.querySelector('mark').closest('.row').click()")
    until_text(browser, ".time", "0h10m00s")
    assert text_of(browser, ".time").startswith("0h10m00s")


@pytest.mark.proof
def test_the_page_follows_a_run_under_way(recorder, browser):
    """At the end of the bar, the page stays at the newest event of a run that goes on, until the run ends."""
    record(recorder, 0, 3)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run) as server:
        page: Path = server.url  # type: ignore[assignment]
        browser.open(page)
        wait(browser)
        assert text_of(browser, ".time") == "2s of 2s"
        record(recorder, 3, 30)
        for _ in range(60):
            wait(browser, 100)
            if text_of(browser, ".time") == "32s of 32s":
                break
        assert text_of(browser, ".time") == "32s of 32s"
        assert "running 33" in text_of(browser, ".tools")
        assert browser.evaluate("document.querySelector('#unfinished').hidden")
        write_unfinished(
            recorder.folder,
            [UnfinishedAnswer("agent-1", "think", HOSTILE), UnfinishedAnswer("agent-2", "text", "It is")],
        )
        until_text(browser, "#unfinished", "agent-1 thinks")
        assert "agent-2 says It is" in text_of(browser, "#unfinished")
        assert "provisional" in text_of(browser, "#unfinished")
        assert browser.evaluate("document.querySelectorAll('#unfinished script, #unfinished img').length") == 0
        drop_unfinished(recorder.folder)
        until(browser, "document.querySelector('#unfinished').hidden")
        assert browser.evaluate("document.querySelector('#unfinished').hidden")
        recorder.finish("finished", {}, 40 * 10**9, {})
        recorder.close()
        for _ in range(60):
            wait(browser, 100)
            if text_of(browser, ".pill") == "finished":
                break
        assert text_of(browser, ".pill") == "finished"
        assert browser.said == []


@pytest.mark.proof
def test_agents_are_coloured_by_a_recorded_variable(ran, browser):
    """The legend counts the values at the moment, of texts, of ranges of numbers, and of lists; table and facts have
    them; it is what agents are coloured by unless the address says otherwise."""
    run = ran(VOTERS)
    browser.open(write_view(run).file, anchor="#t=30")
    sql = "SELECT value FROM variables WHERE agent = 'voter-1' AND name = 'opinion' AND time <= ? ORDER BY id DESC"
    for seconds in (30, 0, 55):
        browser.evaluate(f"location.hash = '#t={seconds}&agent=voter-1&colour=now%3Aopinion'")
        ((value,), *_) = run.query(sql, (seconds,))
        until(browser, f"document.querySelector('.facts').textContent.includes('opinion{value}')")
        assert f"opinion{value}" in text_of(browser, ".facts")
        counts = [int(part) for part in re.findall(r"(?:red|blue|green) (\d+)", text_of(browser, ".legend"))]
        assert sum(counts) == 6, text_of(browser, ".legend")
    for way, words in (("mood", " to "), ("tastes", "[1,2")):
        browser.evaluate(f"location.hash = '#t=30&colour=now%3A{way}'")
        until_text(browser, ".legend", words)
        assert words in text_of(browser, ".legend")
    assert browser.said == []


CROWD = """
name: crowd
until: 20s
agents:
  - name: person
    count: 400
    state: {others: 400}
    loop: {min_loop_delay: 5s, mailbox_size: 500, unmatched: drop}
    rules: [{do: {send: {to: "='person-' + str((index * 7 + randint(1, 5)) % others + 1)", topic: hello}}}]
"""


@pytest.mark.proof
def test_nodes_are_drawn_before_their_layout_has_settled(ran, browser):
    """A large network is drawn at once, and moves until its layout is done; the same page ends as the same picture."""
    page = write_view(ran(CROWD)).file
    pictures = []
    for _ in range(2):
        browser.open(page, anchor="#t=12")
        until(browser, "document.querySelector('canvas.map').dataset.settled === 'no'")
        assert browser.evaluate("Number(document.querySelector('canvas.map').dataset.drawn)") >= 1
        until(browser, "document.querySelector('canvas.map').dataset.settled === 'yes'")
        wait(browser, 200)
        pictures.append(browser.evaluate("document.querySelector('canvas.map').toDataURL()"))
    assert pictures[0] == pictures[1]
    assert browser.said == []


@pytest.mark.proof
def test_forged_events_are_shown(stored, browser):
    """Events with data of any shape make no error in any panel, at any time."""
    browser.open(write_view(stored(forged())).file)
    for tab in ("chat", "events", "run", "agents"):
        browser.evaluate(f"document.querySelector('#tab-{tab}').click()")
        for seconds in (3, 30, 59):
            browser.evaluate(f"location.hash = '#t={seconds}&tab={tab}&agent=a'")
            wait(browser, 150)
    for _ in range(3):
        browser.evaluate("document.querySelectorAll('.more').forEach((one) => one.click())")
        wait(browser)
    assert text_of(browser, ".panel h2") == "a"
    assert text_of(browser, "#problem") == ""
    assert browser.said == []


@pytest.mark.proof
def test_many_agents_are_drawn_on_a_canvas(stored, browser):
    """Of 1,000 agents and 40,000 events, few elements are in the document, and each move of the bar draws the map."""
    events = []
    for number in range(1000):
        name = f"walker-{number}"
        events += states(name, (0, "starting"), (0, "running"))
        for step in range(38):
            arguments = {"to": [number % 100 + step, number // 10], "doing": "walking"}
            events.append((step * 10, name, "action.walk", {"arguments": arguments, "success": True}))
    browser.open(write_view(stored(events, seconds=400)).file)
    wait(browser)
    assert browser.evaluate("document.querySelectorAll('*').length") < 700
    drawn = "Number(document.querySelector('canvas.map').dataset.drawn)"
    for seconds in (350, 20, 200):
        before = browser.evaluate(drawn)
        browser.evaluate(f"location.hash = '#t={seconds}&agent=walker-500'")
        until_text(browser, ".facts", f"{seconds // 10}, 50")
        assert browser.evaluate(drawn) > before
        assert text_of(browser, ".facts").count(f"{seconds // 10}, 50") == 1
    assert browser.said == []


@pytest.mark.proof
def test_the_policy_stops_what_should_not_be_there(ran, browser):
    """Were markup of an agent ever to become part of the page, the policy would not let it act."""
    browser.open(write_view(ran(TALKERS)).file)
    browser.evaluate(
        "(() => { const box = document.createElement('div'); document.body.append(box);"
        ' box.innerHTML = \'<img src="http://127.0.0.1:9/x" onerror="document.title=1">\'; })()'
    )
    wait(browser)
    assert browser.evaluate("document.title").endswith(": view")
    assert any("Content Security Policy" in line for line in browser.said)

"""The overview in a real browser."""

import random

import pytest

import sim
from sim.inspect.viewer import ViewServer, write_view
from sim.inspect.viewer.section import Section
from sim.inspect.viewer.sections import sections
from sim.record import RunHeader, RunRecorder, create_run, open_run
from tests.helpers import wait_until_durable
from tests.viewer.conftest import HOSTILE, states
from tests.viewer.test_browser import DRAWN, until
from tests.viewer.test_overview import SURVEYED, UNREAD
from tests.viewer.test_server import record
from tests.viewer.test_server import recorder as recorder

RICH = """
name: market
until: 2h
seed: 4
description: Traders who ask, send and pay.
limits: {asks: {agent: 9 per 10m, global: 30 per 10m, policy: skip}}
costs: {send: {asks: 1}}
agents:
  - name: trader
    count: 6
    balance: 20
    loop: {min_loop_delay: 20s}
    rules:
      - when: chance(0.3)
        do: {send: {to: "='trader-' + str(randint(1, 6))", topic: offer}}
      - when: chance(0.3)
        do: {transfer: {to: "='trader-' + str(randint(1, 6))", amount: 3}}
        record: {paid: 3}
      - do: {sleep: {for: "=exponential(60)"}}
metrics: {every: 1m, values: {asleep: "in_state('sleeping')"}}
"""


def show(browser, run, **others):
    """Open the page of a run at its overview, wait until that is drawn, and return the file."""
    file = write_view(run, opens="overview").file
    shown(browser, file, **others)
    return file


def shown(browser, file, **others):
    """Open a page, and wait until its overview is drawn."""
    browser.open(file, **others)
    until(browser, "document.querySelector('.overview').dataset.ready")
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")


@pytest.mark.proof
def test_the_report_opens_offline(ran, browser, tmp_path):
    """All sections are drawn, nothing else is loaded, nothing is complained about, and the picture is not blank."""
    show(browser, ran(RICH))
    sections = browser.evaluate("[...document.querySelectorAll('.overview section')].map((one) => one.id)")
    charts = browser.evaluate("[...document.querySelectorAll('.overview .chart canvas')].map((one) => one.width)")
    browser.picture(tmp_path / "report.png", whole=True)

    assert sections == ["outcome", "states", "events", "limits", "graph", "errors", "agents"]
    assert len(charts) >= 7
    assert min(charts) > 200
    assert browser.said == []
    assert [url for url in browser.asked if url.startswith(("http", "ws"))] == []
    assert (tmp_path / "report.png").stat().st_size > 60_000


def texts(browser, selector):
    """Return the texts of the elements of a page that a selector finds."""
    return browser.evaluate(f"[...document.querySelectorAll('{selector}')].map((one) => one.textContent)")


@pytest.mark.proof
def test_the_facts_come_first(ran, browser):
    """Above all sections: the status, when it ran and with which version, agents, and metrics at the end."""
    run = ran(RICH)
    show(browser, run)
    before = "document.querySelector('.overview section').compareDocumentPosition(document.querySelector('.tiles')) & 2"
    assert browser.evaluate(before)
    assert texts(browser, ".pill") == ["finished"]
    (made,) = texts(browser, ".made")
    began, ended = (one[:16].replace("T", " ") + " UTC" for one in (run.info.started_at, run.info.ended_at))
    when = began if began == ended else f"{began} to {ended}"
    assert made.startswith(f"Run {run.info.id}, {when}, with ")
    assert f"sim {run.info.versions['sim']}" in made
    tiles = dict(zip(texts(browser, ".tile span"), texts(browser, ".tile b"), strict=True))
    assert (tiles["agents"], tiles["simulated"]) == ("6", "2 h")
    assert tiles["asleep at the end"] == texts(browser, "#outcome h3 .note")[0]


@pytest.mark.proof
def test_what_was_lost_stands_in_the_facts(ran, stored, browser):
    """Lost messages have a tile; one thing is named as one; and a value stays on one line."""
    show(browser, ran(UNREAD), width=400)
    tiles = dict(zip(texts(browser, ".tile span"), texts(browser, ".tile b"), strict=True))
    heights = browser.evaluate("[...document.querySelectorAll('.tile b')].map((one) => one.offsetHeight)")
    assert int(tiles["lost from full mailboxes"]) > 0
    assert max(heights) < 1.5 * min(heights)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400

    show(browser, stored(states("a", (0, "running"))))
    tiles = dict(zip(texts(browser, ".tile span"), texts(browser, ".tile b"), strict=True))
    assert (tiles["agent"], tiles["event"]) == ("1", "1")


@pytest.mark.proof
def test_the_end_of_a_killed_run_is_not_known(browser, tmp_path, monkeypatch):
    """Of a run that was killed, the last values are those so far, not those at the end."""
    monkeypatch.setattr("sim.record.reader.being_written", lambda path: False)  # as if its process were gone
    with RunRecorder(create_run(tmp_path, RunHeader("town", 7, "autonomous", "asyncio"), "name: town\n")) as recorder:
        for number, (time, actor, topic, data) in enumerate(states("a", (0, "running"), (9, "sleeping"))):
            recorder.event((round(time * 10**9), 0, 0, 20, number, actor, topic, data, None))
        recorder.flush()
        wait_until_durable(recorder)
        with open_run(recorder.folder) as run:
            show(browser, run)

    assert texts(browser, ".pill") == ["killed"]
    heads = texts(browser, ".grid .heads button")
    assert ("so far" in heads, "at the end" in heads) == (True, False)


@pytest.mark.proof
def test_figures_say_what_they_show(ran, browser):
    """Below a metric are its expression and the outcomes of it, and the section has the command for its table."""
    run = ran(SURVEYED)
    show(browser, run)
    assert texts(browser, "#outcome .about") == ["known: count('old')most: max(known)"]
    assert texts(browser, "#outcome code") == [f"sim export {run.info.id} samples --to samples.csv"]
    assert texts(browser, 'a[href]:not([href^="#"])') == []  # no link can be dead


@pytest.mark.proof
def test_surveys_are_in_the_overview(ran, browser):
    """Each question has its shares by time and group, the number of answers, and how many are missing."""
    show(browser, ran(SURVEYED))
    assert texts(browser, "#surveys h3") == ["vote"]
    assert browser.evaluate("document.querySelector('#outcome').nextSibling.id") == "surveys"
    first, second = browser.evaluate(
        "[...document.querySelectorAll('#surveys table')].map((one) => [...one.rows].map((row) =>"
        " [...row.cells].map((cell) => cell.textContent)))"
    )
    assert first[:3] == [
        ["asked at", "group", "answers", "missing", "yes", "no", ""],
        ["10s", "all", "4", "0", "100 %", "0 %", ""],
        ["", "old", "2", "0", "100 %", "0 %", ""],
    ]
    assert [row[0] for row in first[1::3]] == ["10s", "60s"]
    assert second[1] == ["10s", "all", "4", "4"]  # "yes" is no number from 1 to 7
    notes = texts(browser, "#surveys .question p .note")
    assert notes[0] == "(an option) 8 answers at 2 times, 0 missing"
    assert notes[1] == "(a whole number from 1 to 7) 8 answers at 2 times, 8 missing"
    assert browser.said == []


@pytest.mark.proof
def test_ticks_are_on_the_axis(ran, browser):
    """In tick mode, the axis of each chart has ticks below the times; else it has none."""
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=DRAWN)
    for mode, there in (("tick", True), ("autonomous", False)):
        show(browser, ran(f"{RICH}execution: {{tick: {{period: 60s}}}}", mode=mode))
        ticks = [text for text in browser.evaluate("window.drawn") if text.startswith("tick ")]
        assert bool(ticks) == there
        if there:
            assert {"tick 0", "tick 60", "tick 120"} <= set(ticks)


_INK = """
(() => {
  const canvas = document.querySelector('#states > canvas'), context = canvas.getContext('2d');
  const row = (top) => context.getImageData(0, top, 40, 14).data.reduce((sum, value) => sum + value, 0);
  return [0, 1, 2, 3, 4, 5].map((lane) => row(lane * 16));
})()
"""


@pytest.mark.proof
def test_swimlanes_have_names(ran, stored, browser):
    """Beside each lane is the name of its agent; if there are too many for that, a note says which are named."""
    show(browser, ran(RICH))
    assert min(browser.evaluate(_INK)) > 0
    assert "named is" not in browser.evaluate("document.querySelector('#states').textContent")
    show(browser, stored([event for n in range(200) for event in states(f"a-{n}", (0, "running"))]))
    assert "named is the first of each 6 lines" in browser.evaluate("document.querySelector('#states').textContent")


@pytest.mark.proof
@pytest.mark.parametrize(("count", "closed"), [(50, False), (51, True)])
def test_long_tables_of_agents_are_closed(stored, browser, count, closed):
    """A table of more than 50 agents is closed, with their number as its heading; a link to an agent works anyway."""
    run = stored([event for n in range(count) for event in states(f"a-{n}", (0, "running"))])
    show(browser, run, anchor="#agent=a-7")
    assert texts(browser, "#agents details.long > summary") == ([f"{count} agents"] if closed else [])
    shown = browser.evaluate("document.querySelector('.grid').checkVisibility()")
    assert shown is not closed
    assert browser.evaluate("document.querySelector('#row h3').textContent") == "a-7"


@pytest.mark.proof
@pytest.mark.parametrize("width", [400, 900, 1600])
def test_the_page_fits_each_screen(ran, browser, width):
    """Nothing is wider than the screen, light or dark: wide tables scroll by themselves."""
    for text in (RICH, SURVEYED):
        file = write_view(ran(text), opens="overview").file
        for dark in (False, True):
            shown(browser, file, width=width, dark=dark)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.said == []


@pytest.mark.proof
def test_words_stay_whole_on_a_phone(ran, browser):
    """A cell of text has room for a word, and its table scrolls instead, so that no word is a column of letters."""
    show(browser, ran(SHOP), width=400)
    cells = browser.evaluate(
        "[...document.querySelectorAll('.scroll td:not(.n)')].map((one) => [one.textContent, one.offsetWidth])"
    )
    assert ("calls orders.amount" in dict(cells), min(width for _, width in cells) >= 80) == (True, True)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400


SHOP = """
name: shop
until: 5m
tools: {functions: {"orders.amount": {description: Look up., returns: "7"}}}
agents:
  - {name: a, loop: {min_loop_delay: 1m}, rules: [{do: {use_tool: {tool: orders.amount}}}]}
"""


@pytest.mark.proof
def test_services_are_listed_with_their_numbers(ran, browser):
    """What agents share has a section: each number of each service."""
    show(browser, ran(SHOP))
    text = browser.evaluate("document.querySelector('#services').textContent")
    assert "toolscalls orders.amount5" in text.replace(" ", "").replace("calls", "calls ")


@pytest.mark.proof
def test_a_conversation_opens_to_its_lines(stored, browser):
    """Each conversation is closed at first; opened, it has its summary, names and lines, and texts are only text."""
    said = {"conversation": "c-1", "author": "user:1", "seen": 0, "session": 1}
    about = {"tool": "shop.lookup", "tool_use_id": "1"}
    show(browser, stored([
        *states("bot", (0, "running")),
        (0, "bot", "user.created", {
            "user": "user:1", "level": "reader",
            "links": [{"platform": "p", "platform_user_id": "1", "platform_username": "Ann"}],
        }),
        (0, "bot", "conversation.started", {
            "conversation": "c-1", "user": "user:1", "platform": "p", "channel": "c", "thread": None,
        }),
        (1, "bot", "conversation.message", {**said, "id": 1, "role": "user", "content": f"one\n{HOSTILE}"}),
        (2, "bot", "conversation.message", {**said, "id": 2, "role": "tool_call", "content": "{}", "metadata": about}),
        (3, "bot", "conversation.summarized", {"conversation": "c-1", "summary": "They talked.", "summarized_to": 2}),
    ]))  # fmt: skip
    assert browser.evaluate("document.querySelector('details.conversation').open") is False
    assert browser.evaluate("document.querySelectorAll('details.conversation .spoken').length") == 2
    text = browser.evaluate("document.querySelector('details.conversation').textContent")
    assert "Ann in p/c" in text
    assert "They talked." in text
    assert "used shop.lookup()" in text
    assert browser.evaluate("document.title") != "hacked"
    assert browser.said == []


async def ask(request, key):
    """Answer every third question with a failure."""
    if request["number"] % 3 == 2:
        raise OSError("no connection <b>at all</b>")
    return request["number"]


class Asker(sim.Agent):
    """Asks something outside every minute."""

    async def decide_action(self):
        number = self.state["asked"] = self.state.get("asked", 0) + 1
        await sim.perform(sim.Effect("question", {"number": number}, ask, latency_ns=2 * 10**9, safety="pure"))


@pytest.mark.proof
def test_models_and_effects_are_drawn(ran, stored, browser):
    """Calls of models, with their cost, and what was done outside have sections of their own."""
    text = "name: asking\nuntil: 20m\nagents: [{name: a, kind: asker, loop: {min_loop_delay: 1m}}]\n"
    show(browser, ran(text, kinds={"asker": Asker}))
    effects = browser.evaluate("document.querySelector('#effects').textContent")
    assert "question" in effects
    assert "no connection <b>at all</b>" in effects

    call = {
        "provider": "openai", "model": "m", "use": "agent", "cost_micro": 10_000, "seconds": 1.5, "attempts": 1,
        "group": "a", "planned_cost_micro": 10_000, "planned_tokens": 100, "stop": "end_turn", "tier": None,
    }  # fmt: skip
    events = [(n, "a", "model.call", call | {"input_tokens": n}) for n in range(1, 90)]
    show(browser, stored([*states("a", (0, "running")), *events]))
    models = browser.evaluate("document.querySelector('#models').textContent")
    assert "openai:m" in models
    assert "0.89" in models
    assert "4,005" in models
    assert browser.evaluate("document.querySelectorAll('#models .chart canvas').length") == 3
    assert browser.said == []


@pytest.mark.proof
def test_a_story_is_a_click_away(ran, browser):
    """A click on a row shows the agent's lane and its variables; the address remembers it, and a button leads to all
    that it did.
    """
    file = show(browser, ran(RICH.replace("    balance: 20\n", "    balance: 20\n    state: {mood: 7}\n")))
    browser.evaluate("document.querySelectorAll('.grid .line')[2].click()")
    until(browser, "location.hash.includes('agent=trader-3')")
    assert browser.evaluate("location.hash.includes('tab=overview')")
    assert browser.evaluate("document.querySelector('#row h3').textContent") == "trader-3"
    assert '"mood":7' in browser.evaluate("document.querySelector('#row pre').textContent")
    browser.evaluate("document.querySelector('#row button').click()")
    until(browser, "document.querySelectorAll('.around .row').length > 10")
    lines = browser.evaluate("[...document.querySelectorAll('.around .row')].map((one) => one.textContent)")
    assert any("action." in line for line in lines)
    assert browser.evaluate("document.querySelector('.mapbox').checkVisibility()")
    shown(browser, file, anchor="#agent=trader-5")
    until(browser, "document.querySelector('#row h3')")
    assert browser.evaluate("document.querySelector('#row h3').textContent") == "trader-5"


@pytest.mark.proof
def test_a_link_leads_to_a_section(ran, browser):
    """A click on a link shows its section, and the address with it does so, too."""
    file = show(browser, ran(RICH))
    top = "document.querySelector('#errors').getBoundingClientRect().top"
    assert browser.evaluate(top) > 500
    browser.evaluate(
        "[...document.querySelectorAll('nav button')].find((one) => one.textContent.startsWith('Errors')).click()"
    )
    until(browser, top + " < 500")
    assert browser.evaluate(top) < 500
    shown(browser, file, anchor="#tab=overview&part=errors")
    until(browser, top + " < 500")
    assert browser.evaluate(top) < 500


@pytest.mark.proof
def test_the_overview_of_a_run_under_way_is_renewed(recorder, browser):
    """The served page says that there is more of the run than its overview shows, and reads it again when asked."""
    record(recorder, 0, 3)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run, opens="overview") as server:
        page = server.url
        shown(browser, page)
        assert dict(zip(texts(browser, ".tile span"), texts(browser, ".tile b"), strict=True))["events"] == "3"
        assert texts(browser, "#states .head .note")[0] == "so far: 3 running"
        record(recorder, 3, 4)
        until(browser, "!document.querySelector('.more-now').hidden")
        browser.evaluate("document.querySelector('.more-now button').click()")
        until(browser, "[...document.querySelectorAll('.tile b')].at(-1).textContent === '7'")
        assert dict(zip(texts(browser, ".tile span"), texts(browser, ".tile b"), strict=True))["events"] == "7"
        assert browser.said == []


@pytest.mark.proof
def test_a_section_of_ones_own_is_a_tab(ran, browser, tmp_path):
    """A section that is a tab has a tab of its own, drawn by its script, and is not in the overview."""

    class Offers(Section):
        """Counts offers."""

        title = "Offers"
        place = 5
        topics = ("message.sent",)
        tab = True
        script = 'section("offers", ({ count }) => ["in all", h("p", { id: "offers-count" }, number(count))]);'

        def __init__(self, folds):
            super().__init__(folds)
            self.count = 0

        def add(self, event, data):
            self.count += data.topic == "offer"

        def to_json(self):
            return {"count": self.count}

    run = ran(RICH)
    shown(browser, write_view(run, opens="overview", kinds=(*sections(), Offers)).file)
    assert "offers" not in texts(browser, ".overview section h2")
    browser.evaluate("document.querySelector('#tab-offers').click()")
    until(browser, "document.querySelector('#offers-count')")
    assert browser.evaluate("document.querySelector('#offers-count').textContent") == str(
        run.query("SELECT count(*) FROM messages")[0][0]
    )
    assert browser.said == []


@pytest.mark.proof
def test_rows_are_filtered_and_sorted(ran, browser):
    """The filter keeps the rows that hold its text; a click on a heading sorts by it, another one turns it round."""
    show(browser, ran(RICH))
    names = "[...document.querySelectorAll('.grid .line > :first-child')].map((one) => one.textContent)"
    browser.evaluate("document.querySelector('.heads button').click()")
    browser.evaluate("document.querySelector('.heads button').click()")
    assert browser.evaluate(names) == [f"trader-{number}" for number in range(6, 0, -1)]
    browser.evaluate("document.querySelector('#agents input').value = 'R-4'")
    browser.evaluate("document.querySelector('#agents input').dispatchEvent(new Event('input'))")
    assert browser.evaluate(names) == ["trader-4"]


@pytest.mark.slow
def test_hostile_names_are_text(stored, browser):
    """A name that is markup, with an escape and a mark that reorders, is shown as it is spelled."""
    error = {"error": '</script><img src="x" onerror="document.title=1">'}
    run = stored(
        [
            *states(HOSTILE, (0, "running")),
            (1, HOSTILE, "message.sent", {"sender": HOSTILE, "to": HOSTILE + "2", "topic": HOSTILE}),
            (1, HOSTILE, "agent.error", error),
            (2, HOSTILE, "metric.sample", {HOSTILE: 1}),
            (3, HOSTILE, "model.call", {"provider": HOSTILE, "model": HOSTILE, "use": HOSTILE, "error": HOSTILE}),
        ],
        name=HOSTILE,
    )
    show(browser, run)
    browser.evaluate("document.querySelector('.grid .line').click()")
    until(browser, "document.querySelector('#row h3')")

    assert browser.evaluate("document.querySelectorAll('script:not([type])').length") == 1
    assert browser.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.evaluate("document.title").endswith(": report")
    spelled = browser.evaluate("document.querySelector('h1').textContent")
    assert spelled == '"><script>document.title="hacked"</script>\n\\x1b[31m\\u202eevil\\u2028&amp;'
    assert browser.evaluate("document.querySelector('#row h3').textContent") == spelled
    assert browser.said == []


@pytest.mark.proof
def test_the_policy_stops_what_should_not_be_there(ran, browser):
    """Were markup of an agent ever to become part of the page, the policy would not let it act."""
    show(browser, ran(RICH))
    browser.evaluate(
        "(() => { const box = document.createElement('div'); document.body.append(box);"
        ' box.innerHTML = \'<img src="http://127.0.0.1:9/x" onerror="document.title=1">\'; })()'
    )
    browser.evaluate("new Promise((done) => setTimeout(done, 200))")

    assert browser.evaluate("document.title").endswith(": report")
    assert any("Content Security Policy" in line for line in browser.said)


@pytest.mark.proof
def test_many_agents_and_events_stay_quick(stored, browser):
    """With 1,000 agents and 100,000 events the report is there, and follows a filter and a scroll, without a wait."""
    chance = random.Random(3)
    names = [f"agent-{number}" for number in range(1000)]
    events = [event for name in names for event in states(name, (0, "starting"), (0, "running"))]
    for number in range(49_000):
        name = names[number % 1000]
        time = number / 500
        events.append((time, name, "agent.state", {"from": "running", "to": "sleeping", "reason": ""}))
        receiver = chance.choice(names)
        events.append((time, name, "message.sent", {"sender": name, "to": receiver, "topic": "hello", "data": number}))
    file = show(browser, stored(events))
    milliseconds = browser.evaluate(
        """(() => {
            document.querySelector('#agents details.long').open = true;
            const began = performance.now();
            const box = document.querySelector('#agents input');
            for (const text of ['agent-9', '']) { box.value = text; box.dispatchEvent(new Event('input')); }
            const view = document.querySelector('.view');
            view.scrollTop = 20000;
            view.getBoundingClientRect();
            return performance.now() - began;
        })()"""
    )

    assert len(events) == 100_000
    assert file.stat().st_size < 8_000_000
    assert (
        float(browser.evaluate("document.querySelector('.overview').dataset.ready")) < 5000
    )  # half a second on a machine of 2025
    assert milliseconds < 1000  # 40 there
    assert browser.evaluate("document.querySelectorAll('*').length") < 3000

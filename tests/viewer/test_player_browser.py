"""The page that plays a run, in a real browser."""

import json

import pytest

import sim
from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.kernel import NS
from sim.llm.people import Place
from sim.record import open_run
from sim.runner.options import RunOptions
from tests.llm.test_people import TALK
from tests.viewer.test_browser import text_of, until, until_text, wait
from tests.viewer.test_player import WALKERS, eventually, still
from tests.viewer.test_player import walkers as walkers


@pytest.fixture
def server(walkers, tmp_path):
    """The page of a scenario that is played."""
    with PlayServer(ScenarioPlayer(walkers, RunOptions(out=tmp_path / "runs"))) as opened:
        yield opened


def click(browser, name):
    """Click a button of the bar."""
    browser.evaluate(f"document.querySelector('#play-{name}').click()")


def key(browser, name):
    """Press a key."""
    browser.evaluate(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{name}', bubbles: true}}))")


def cut(browser, *, offline):
    """Cut the connection of the browser, or restore it."""
    through = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.call("Network.emulateNetworkConditions", offline=offline, **through)


def loaded(browser, text):
    """Wait until the page was loaded again, and has a text."""

    def there():
        try:
            return text in text_of(browser, "#page")
        except AssertionError:  # it is being loaded
            return False

    eventually(there)


@pytest.mark.proof
@pytest.mark.parametrize("dark", [False, True])
def test_a_run_is_played_on_the_page(server, browser, walkers, dark, tmp_path):
    """Each button does what it says: the map and charts are those of the record, which is that of `sim run`."""
    browser.open(server.url, dark=dark)
    until_text(browser, "#play-clock", "set up at 0s")
    click(browser, "event")
    until_text(browser, "#play-clock", "paused at")
    browser.evaluate("location.hash = '#agent=walker-2'")
    wait(browser, 100)
    for name in ("tick", "agent"):
        before = server.player.state()["now"]
        click(browser, name)
        eventually(lambda before=before: server.player.state()["now"] > before)
        now = still(server.player)["now"]
        until_text(browser, "#play-clock", f"paused at {now:g}s")
    until_text(browser, ".time", f"{now:g}s of")
    browser.evaluate(
        "(() => { const list = document.querySelector('#play-speed'); list.value = '30';"
        " list.dispatchEvent(new Event('change')); })()"
    )
    click(browser, "go")
    until_text(browser, "#play-clock", "running")
    assert text_of(browser, "#play-go") == "Pause"
    click(browser, "go")
    until_text(browser, "#play-clock", "paused")
    assert server.player.state()["speed"] == 30
    server.player.pace(None)
    key(browser, "g")
    until_text(browser, "#play-clock", "ended at")
    until_text(browser, ".pill", "finished")
    assert "finished" in text_of(browser, ".said-note")
    assert browser.evaluate("document.querySelector('#play-go').disabled")
    with open_run(server.player.folder) as run:
        assert run.info.hash == sim.run(walkers).hash
    browser.picture(tmp_path / "played.png")
    assert browser.said == []
    assert {address.split("/")[2] for address in browser.asked if "/" in address} == {server.url.split("/")[2]}


@pytest.mark.proof
def test_charts_go_as_far_as_the_run(browser, tmp_path):
    """All charts have the time axis of the run so far, also if a metric is sampled seldom; a part can be chosen."""
    file = tmp_path / "walkers.yaml"
    file.write_text(WALKERS.replace("every: 5s", "every: 15s"), encoding="utf-8")
    hidden = (
        "[...document.querySelectorAll('.charts .needle')].filter((one) => one.style.visibility === 'hidden').length"
    )
    area = "(({left, top}) => [left, top])(document.querySelector('.charts .u-over').getBoundingClientRect())"
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url)
        for _ in range(4):
            server.player.step("tick")
            now = still(server.player)["now"]
            until_text(browser, ".time", f"{now:g}s of {now:g}s")
            wait(browser, 100)
            server.player.say("walker-1", "hello")  # there is something new at the same time
            until_text(browser, ".hand", f"{now:g}s: said to walker-1")
            wait(browser, 100)
            assert browser.evaluate(hidden) == 0
        left, top = browser.evaluate(area)
        for kind, x in (
            ("mouseMoved", 9),
            ("mousePressed", 9),
            ("mouseMoved", 40),
            ("mouseMoved", 60),
            ("mouseReleased", 60),
        ):
            more = {} if kind == "mouseMoved" and x == 9 else {"button": "left", "buttons": 1, "clickCount": 1}
            browser.call("Input.dispatchMouseEvent", type=kind, x=left + x, y=top + 20, **more)
            wait(browser, 150)  # a chart follows the pointer once a frame
        until(browser, f"{hidden} > 0")
        server.player.step("tick")
        now = still(server.player)["now"]
        until_text(browser, ".time", f"{now:g}s of {now:g}s")
        wait(browser, 100)
        assert browser.evaluate(hidden) == browser.evaluate("document.querySelectorAll('.charts .needle').length")
        browser.evaluate("document.querySelector('.charts .u-over').dispatchEvent(new MouseEvent('dblclick'))")
        until(browser, f"{hidden} === 0")
        assert browser.evaluate(hidden) == 0
        assert browser.said == []


@pytest.mark.proof
def test_again_stop_and_a_lost_connection(server, browser):
    """The next seed is a new page; stop ends the run; a lost connection is shown, and is over when it is back."""
    browser.open(server.url)
    key(browser, "e")
    until_text(browser, "#play-clock", "paused at")
    key(browser, "n")
    loaded(browser, "seed 5")
    until_text(browser, "#play-clock", "set up at 0s")
    server.player.step("event")
    until_text(browser, "#play-clock", "paused at")  # what another window does
    key(browser, "x")
    until_text(browser, "#play-clock", "ended at")
    assert "sim resume" in text_of(browser, ".said-note")
    click(browser, "setup")
    loaded(browser, "set up at 0s")
    assert server.player.seed == 5
    cut(browser, offline=True)
    click(browser, "event")
    until_text(browser, ".said-note", "There is no connection")
    assert "There is no connection" in text_of(browser, ".said-note")
    assert text_of(browser, "#problem") == ""
    browser.call(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    until(browser, "!document.querySelector('.said-note').textContent.includes('no connection')")
    click(browser, "event")
    until_text(browser, "#play-clock", "paused at")
    assert "no connection" not in text_of(browser, ".said-note")
    assert text_of(browser, "#problem") == ""


@pytest.mark.proof
def test_a_closed_window_leaves_the_run_paused(server, browser):
    """Leaving the page while the run goes on pauses it; the page that is opened again says so."""
    browser.open(server.url)
    server.player.pace(0.01)
    click(browser, "go")
    until_text(browser, "#play-clock", "running")
    browser.open("about:blank")
    assert still(server.player)["note"] == "paused: the last window was closed"
    browser.open(server.url)
    assert text_of(browser, ".said-note") == "paused: the last window was closed"


SHOP = """
name: shop
until: 1h
tools: {functions: {till.refund: {description: Pay back., parameters: {amount: {type: number}}, returns: "1"}}}
access: {rules: [{allow: true, tools: [till.refund]}]}
approvals: {person: real, rules: [{tool: till.refund}], expires: 2d}
agents:
  - name: clerk
    state: {mood: calm, open: true, hurry: 0.5}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: message is not None, set: {mood: "=str(message.data)"}}
      - {when: iteration == 1, do: {use_tool: {tool: till.refund, args: {amount: 7}}}}
      - {do: {sleep: {for: 5s}}}
controls:
  mood: {key: agents.clerk.state.mood, options: [calm, cross]}
  open: agents.clerk.state.open
  hurry: {key: agents.clerk.state.hurry, range: [0, 1]}
  until: {key: until, options: [1h, 2h]}
"""


def put(browser, name, value, *, part="value"):
    """Move a control as a person does."""
    browser.evaluate(
        f"(() => {{ const knob = document.querySelector('#knob-{name}'); knob.{part} = {json.dumps(value)};"
        " knob.dispatchEvent(new Event('input', {bubbles: true})); knob.dispatchEvent(new Event('change')); })()"
    )


@pytest.mark.proof
def test_each_control_changes_the_run(browser, tmp_path):
    """A slider, a chooser and a switch change the run at once; a gate is decided and a person heard; all is listed."""
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP, encoding="utf-8")
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url)
        runner = server.player._played.runner
        assert runner is not None
        state = runner.simulation.world.agents["clerk"].state
        put(browser, "hurry", "0.75")
        put(browser, "mood", "1")
        put(browser, "open", False, part="checked")
        put(browser, "until", "1")
        eventually(lambda: (state["hurry"], state["mood"], state["open"]) == (0.75, "cross", False))
        until_text(browser, ".panel.scrolls", 'this run has "1h"')
        click(browser, "event")
        until_text(browser, ".panel.scrolls", "waits for a decision about till.refund")
        browser.evaluate("document.querySelector('.approve').click()")
        browser.evaluate("location.hash = '#tab=play&agent=clerk'")
        until_text(browser, ".panel.scrolls", "Say something to clerk")
        browser.evaluate("document.querySelector('#play-words').value = 'a customer'")
        click(browser, "say")
        until_text(browser, ".hand", "said to clerk: a customer")
        for _ in range(20):
            server.player.step("event")
            still(server.player)
        assert state["mood"] == "a customer"
        click(browser, "write")
        until_text(browser, ".said-note", "1 of 5 things done by hand cannot be an intervention")
        text = (tmp_path / "shop-by-hand.yaml").read_text(encoding="utf-8")
        assert (text.count('"set"'), text.count('"send"')) == (3, 1)
        with open_run(server.player.folder) as run:
            decided = run.query("SELECT data FROM arrivals WHERE kind = 'approval.decision'")
        assert len(decided) == 1
        assert browser.said == []


@pytest.mark.proof
def test_a_person_answers_as_an_agent(browser, tmp_path):
    """A person answers instead of the model, with words or a call of a tool; a replay and a branch have the answers."""
    file = tmp_path / "talk.yaml"
    file.write_text(TALK, encoding="utf-8")
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url, anchor="#tab=play&agent=speaker")
        until_text(browser, ".answering", "Answer as speaker")
        browser.evaluate("document.querySelector('#play-within').value = '3000'")
        click(browser, "person")
        until_text(browser, ".hand", "answers as speaker, within 3000 s each")
        click(browser, "go")
        until_text(browser, ".question", "What do you say at 1?")
        browser.evaluate("document.querySelector('.question textarea').value = 'a person speaks'")
        browser.evaluate("document.querySelector('.question .answer').click()")
        until_text(browser, ".question pre", "What do you say at 2")
        browser.evaluate("document.querySelector('.question .leave').click()")
        until_text(browser, ".question pre", "Vote.")
        browser.evaluate("document.querySelector('.question select').value = 'vote'")
        browser.evaluate("document.querySelector('.question textarea').value = '{\"choice\": \"aye\"}'")
        browser.evaluate("document.querySelector('.question .answer').click()")
        until_text(browser, ".hand", "answered as speaker: vote")
        click(browser, "person")
        until_text(browser, "#play-clock", "ended at")
        assert browser.said == []
        folder = server.player.folder
    with open_run(folder) as run:
        calls = [event.data["provider"] for event in run.events() if event.topic == "model.call"]
    assert calls[:3] == ["person", "scripted", "person"]
    assert sim.replay(folder).same
    branch = sim.branch(folder, at="80s", out=tmp_path / "runs").run
    assert branch is not None
    with open_run(branch) as run:
        again = [event.data["provider"] for event in run.events() if event.topic == "model.call"]
    assert again == calls


@pytest.mark.proof
def test_each_agent_has_its_own_time_and_text_for_absence(browser, tmp_path):
    """What is set for one agent is not sent for another; a change is sent at once, and an empty time is refused."""
    file = tmp_path / "talk.yaml"
    file.write_text(TALK.replace("name: speaker", "name: speaker\n    count: 2"), encoding="utf-8")
    box = "document.querySelector('#play-{0}')"
    fill = f"{box}.value = '{{1}}'; {box}.dispatchEvent(new Event('change'))"
    values = "['within', 'otherwise'].map((name) => document.querySelector('#play-' + name).value)"
    ticked = "document.querySelector('#play-person').checked"
    choose = "location.hash = '#tab=play&agent={}'"
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        runner = server.player._played.runner
        assert runner is not None
        assert runner.simulation.models is not None
        places = runner.simulation.models.people.places
        browser.open(server.url, anchor="#tab=play&agent=speaker-1")
        until_text(browser, ".answering", "Answer as speaker-1")
        browser.evaluate(fill.format("within", ""))
        click(browser, "person")
        until_text(browser, ".said-note", "Give the simulated seconds for an answer")
        assert not browser.evaluate(ticked)
        browser.evaluate(fill.format("within", "3000"))
        browser.evaluate(fill.format("otherwise", "nothing to say"))
        click(browser, "person")
        assert browser.evaluate(ticked)
        eventually(lambda: places.get("speaker-1") == Place(3000 * NS, "nothing to say"))
        browser.evaluate(choose.format("speaker-2"))
        until_text(browser, ".answering", "Answer as speaker-2")
        assert browser.evaluate(values) == ["300", ""]
        click(browser, "person")
        eventually(lambda: places.get("speaker-2") == Place(300 * NS, None))
        browser.evaluate(choose.format("speaker-1"))
        until_text(browser, ".answering", "Answer as speaker-1")
        assert browser.evaluate(values) == ["3000", "nothing to say"]
        browser.evaluate(fill.format("within", "60"))
        eventually(lambda: places.get("speaker-1") == Place(60 * NS, "nothing to say"))
        assert browser.said == []


@pytest.mark.proof
def test_hostile_texts_stay_harmless_while_played(browser, tmp_path):
    """Names and texts of a scenario are shown as they are spelled."""
    hostile = '"><img src=x onerror=alert(1)>'
    file = tmp_path / "evil.yaml"
    file.write_text(
        "name: evil\nuntil: 10s\nagents:\n  - {name: a, rules: [{do: {publish: {topic: t, data: "
        + json.dumps(hostile) + "}}}]}\n",
        encoding="utf-8",
    )  # fmt: skip
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url)
        click(browser, "event")
        until_text(browser, "#play-clock", "paused")
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        assert browser.said == []

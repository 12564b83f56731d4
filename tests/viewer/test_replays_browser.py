"""What replays find, on the page in a real browser."""

import pytest

from sim.inspect.viewer import ViewServer, write_view
from sim.runner.causes import causes_of, influence_of
from sim.runner.options import ReplayOptions
from tests.helpers import command
from tests.viewer.test_browser import text_of, until, until_text, wait
from tests.viewer.test_replays import SHOP
from tests.viewer.test_replays import shop as shop

pytestmark = pytest.mark.slow


def press(browser, key):
    """Press a key."""
    browser.evaluate(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_the_moment_follows_the_bar(shop, browser, dark):
    """With keys alone: the panel says what it costs, begins, and shows the moment of the bar, or of an event."""
    with ViewServer(shop) as server:
        browser.open(server.url, anchor="#t=3.5", dark=dark)
        press(browser, "m")
        until(browser, "document.querySelector('#find-moment')")
        assert "up to 1 s" in text_of(browser, ".offer")
        press(browser, "m")
        until(browser, "document.querySelector('[data-events]')")
        events = "Number(document.querySelector('[data-events]').dataset.events)"
        assert "After all that was due until 3.5s" in text_of(browser, "[data-events]")
        before = browser.evaluate(events)
        press(browser, "End")
        until_text(browser, "[data-events]", "The end, 60s")
        assert browser.evaluate(events) > before
        press(browser, "Home")
        press(browser, ".")
        until_text(browser, "[data-events]", "After the step of event ")
        browser.evaluate("document.querySelector('[data-events] td .link').click()")
        until_text(browser, "[data-events] h2", "buyer-1")
        assert "variables" in text_of(browser, "[data-events]")
        press(browser, "Escape")
        until_text(browser, "[data-events]", "What they share")
        until(browser, "document.querySelector('[data-ready=true]')")
    assert browser.said == []


@pytest.mark.slow
def test_the_moment_has_the_events_of_the_page(shop, browser):
    """At each place of the bar, the replay stands after as many events as the page has counted there."""
    with ViewServer(shop) as server:
        for seconds in (0, 1, 2, 11, 59.99):
            browser.open(server.url, anchor=f"#t={seconds}&tab=events")
            until(browser, "document.querySelector('.around .row')")
            wait(browser)
            rows = browser.evaluate("document.querySelectorAll('.around .row:not(.later)').length")
            press(browser, "m")
            until(browser, "document.querySelector('#find-moment')")
            press(browser, "m")
            until(browser, "document.querySelector('[data-events]')")
            found = browser.evaluate("Number(document.querySelector('[data-events]').dataset.events)")
            assert found == rows or rows == 60, seconds  # the list begins with 60


@pytest.mark.slow
def test_a_question_that_failed_can_be_asked_again(shop, browser):
    """After an error the panel shows the next moment, and a button asks for the failed one again."""
    scenario = shop.path / "scenario.yaml"
    scenario.write_text(scenario.read_text("utf-8").replace("for: 10s", "for: 20s"), encoding="utf-8")
    with ViewServer(shop) as server:
        browser.open(server.url, anchor="#t=59")
        press(browser, "m")
        until(browser, "document.querySelector('#find-moment')")
        press(browser, "m")
        again = "[...document.querySelectorAll('.around button')].find((one) => one.textContent === 'ask again')"
        until(browser, again)
        assert "differs from its record" in text_of(browser, ".failure")
        browser.evaluate("document.querySelector('.failure').remove()")
        browser.evaluate(f"{again}.click()")
        until_text(browser, ".failure", "differs from its record")
        press(browser, "Home")
        until_text(browser, "[data-events]", "After all that was due until 0s")
    assert browser.said == []


@pytest.mark.slow
def test_the_command_of_a_page_stands_where_the_page_does(shop, browser):
    """A file names a command that has the state of the bar, also at the end and just before it."""
    last = shop.info.id
    for seconds, option in (
        ("3.5", " --at 3500000001ns"),
        ("60", ""),
        ("59.9999999995", ""),
        ("59.9", " --at 59900000001ns"),
    ):
        browser.open(write_view(shop).file, anchor=f"#t={seconds}&tab=moment")
        until(browser, "document.querySelector('.offer code')")
        codes = browser.evaluate("[...document.querySelectorAll('.offer code')].map((one) => one.textContent)")
        assert f"sim show {last} state{option}" in codes
        code, _, err = command("show", str(shop.path), "state", *option.split())
        assert code == 0, err


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_causes_of_an_event_are_those_of_the_trace(shop, browser, dark):
    """With keys alone: the cost of the trace comes first, then the steps that led to the event, and a bound forwards.

    Another event has its causes at once; the links lead to events and agents.
    """
    last = shop.query("SELECT max(id) FROM events WHERE topic = 'action.send'")[0][0]
    known = causes_of(shop, last, ReplayOptions())
    with ViewServer(shop) as server:
        browser.open(server.url, anchor=f"#event={last}&tab=events", dark=dark)
        until(browser, "document.querySelector('#open-causes')")
        press(browser, "c")
        until(browser, "document.querySelector('#trace-run')")
        assert "up to 1 s" in text_of(browser, ".causes")
        press(browser, "c")
        until(browser, f"document.querySelector('.causes').dataset.event === '{last}'")
        heads = "[...document.querySelectorAll('.steps li div:first-child')]"
        shown = browser.evaluate(f"{heads}.map((one) => one.textContent)")
        assert [text.split()[1] for text in shown] == [step.agent for step in known.steps]
        reached, later = influence_of(shop, last, ReplayOptions()).events
        assert f"At most {reached} of the {later} later events" in text_of(browser, ".causes")
        first = next(step.events for step in reversed(known.steps) if step.events)[0]
        links = "[...document.querySelectorAll('.steps .link')]"
        browser.evaluate(f"{links}.find((one) => one.title === 'event {first}').click()")
        until(browser, f"document.querySelector('.causes').dataset.event === '{first}'")
        assert text_of(browser, ".drawer h3") == f"event {first}"
    assert browser.said == []


@pytest.mark.slow
def test_an_event_of_no_step_has_no_causes(shop, browser):
    """An event of the start of the run has none, which is said; a file names the commands that show them."""
    with ViewServer(shop) as server:
        browser.open(server.url, anchor="#event=1&tab=events")
        until(browser, "document.querySelector('#open-causes')")
        press(browser, "c")
        until(browser, "document.querySelector('#trace-run')")
        press(browser, "c")
        until(browser, "document.querySelector('.failure')")
        assert "belongs to the start of the run" in text_of(browser, ".failure")
    browser.open(write_view(shop).file, anchor="#event=9&tab=events")
    until(browser, "document.querySelector('#open-causes')")
    press(browser, "c")
    until(browser, "document.querySelector('.causes')")
    assert f"sim show {shop.info.id} causes 9" in text_of(browser, ".causes")
    assert browser.said == []


@pytest.mark.slow
def test_a_file_says_which_commands_show_a_moment(shop, browser):
    """A page that was written to a file has no state of a moment; it names the commands that show that of its bar."""
    browser.open(write_view(shop).file, anchor="#t=2&tab=moment")
    until(browser, "document.querySelector('.offer')")
    said = text_of(browser, ".offer")
    assert "takes a replay" in said
    assert f"sim view {shop.info.id} --serve" in said
    assert f"sim show {shop.info.id} state --at 2000000001ns" in said
    assert browser.said == []


@pytest.mark.slow
def test_what_a_replay_cannot_find_is_on_the_panel(shop, browser):
    """If the scenario has changed since the run, the panel says so, and in place of a state that is not known, why."""
    scenario = shop.path / "scenario.yaml"
    scenario.write_text(scenario.read_text("utf-8").replace("for: 10s", "for: 20s"), encoding="utf-8")
    with ViewServer(shop) as server:
        browser.open(server.url, anchor="#t=59&tab=moment")
        until(browser, "document.querySelector('#find-moment')")
        assert "Changed since the run was recorded: scenario.yaml" in text_of(browser, ".offer")
        press(browser, "m")
        until(browser, "document.querySelector('.failure')")
        assert "differs from its record" in text_of(browser, ".failure")
        press(browser, "Home")
        until(browser, "document.querySelector('[data-events] table')")
    assert browser.said == []


@pytest.mark.slow
def test_hostile_texts_of_a_moment_stay_texts(ran, browser):
    """Names, messages and values of agents that are markup are shown as they are spelled."""
    run = ran(SHOP.replace("topic: order", "topic: '<img src=x onerror=alert(1)>'"))
    with ViewServer(run) as server:
        browser.open(server.url, anchor="#event=20&tab=moment&agent=keeper")
        until(browser, "document.querySelector('#find-moment')")
        press(browser, "m")
        until(browser, "document.querySelector('[data-events] h2')")
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.said == []

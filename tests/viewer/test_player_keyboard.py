"""The page that plays a run, by keyboard alone, in a real browser."""

import json

import pytest

import sim
from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.record import open_run
from sim.runner.options import RunOptions
from tests.viewer.test_browser import text_of, until, until_text
from tests.viewer.test_player import WALKERS, eventually, still
from tests.viewer.test_player_browser import loaded

FILE = (
    WALKERS.replace("state: {eager: 0.5}", "state: {eager: 0.5, mood: calm, awake: true}")
    + """
controls:
  eager: {key: agents.walker.state.eager, range: [0, 1], step: 0.1}
  mood: {key: agents.walker.state.mood, options: [calm, cross]}
  awake: agents.walker.state.awake
  walkers: {key: agents.walker.count, range: [1, 9]}
"""
)


def focus(browser, selector, *, back=False):
    """Press Tab until an element has the focus."""
    for _ in range(200):
        if browser.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
            return
        browser.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"Tab never comes to {selector}")


def steps(browser, server):
    """Step to the next event, tick and act of an agent, which is chosen in the table."""
    browser.press("e")
    until_text(browser, "#play-clock", "paused at")
    now = still(server.player)["now"]
    browser.press("t")
    eventually(lambda: still(server.player)["now"] > now)
    browser.press("a")
    until_text(browser, ".said-note", "Choose an agent first")
    focus(browser, "[role=tab]")
    while text_of(browser, ":focus") != "Agents":
        browser.press("Tab")
    browser.press("Enter")
    focus(browser, ".cells.row")
    browser.press("Enter")
    until(browser, "location.hash.includes('agent=walker-1')")  # its name stands in the table before it is chosen
    loop = server.player._played.runner.simulation.manager.get_loop("walker-1")
    before = loop.iteration_count
    browser.press("a")
    eventually(lambda: loop.iteration_count == before + 1)
    still(server.player)


def speeds(browser, server):
    """Go slower and faster, let it go and pause it."""
    browser.press("s")
    eventually(lambda: server.player.state()["speed"] == 604_800)
    browser.press("f")
    eventually(lambda: server.player.state()["speed"] is None)
    browser.press("f")  # it is as fast as it can already
    focus(browser, "#play-speed", back=True)
    browser.press("r")  # a list is chosen from by its first letters
    eventually(lambda: server.player.state()["speed"] == 1)
    browser.press("Escape", "g")
    until_text(browser, "#play-clock", "running")
    assert text_of(browser, "#play-go") == "Pause"
    browser.press("g")
    until_text(browser, "#play-clock", "paused")
    focus(browser, "#play-go", back=True)
    browser.press("Enter")
    until_text(browser, "#play-clock", "running")
    browser.press(" ")
    until_text(browser, "#play-clock", "paused")


def changes(browser, server, tmp_path):
    """Move each control, say something, and write it all as a file."""
    state = server.player._played.runner.simulation.world.agents["walker-1"].state
    browser.evaluate("location.hash = '#tab=play&agent=walker-1'")
    focus(browser, "#knob-eager")
    browser.press("ArrowRight", "ArrowRight")
    eventually(lambda: state["eager"] == 0.7)
    focus(browser, "#knob-mood")
    browser.press("ArrowDown")
    eventually(lambda: state["mood"] == "cross")
    focus(browser, "#knob-awake")
    browser.press(" ")
    eventually(lambda: state["awake"] is False)
    now = still(server.player)["now"]
    browser.press("e")  # a switch that has the focus leaves the letters to the page
    eventually(lambda: still(server.player)["now"] > now)
    focus(browser, "#knob-walkers")
    browser.press("ArrowLeft")
    until_text(browser, ".panel.scrolls", "this run has 3")
    focus(browser, "#play-words")
    browser.press(*"gute", "Enter")
    until_text(browser, ".hand", "said to walker-1: gute")
    focus(browser, "#play-write")
    browser.press("Enter")
    eventually(lambda: (tmp_path / "walkers-by-hand.yaml").exists())


@pytest.mark.proof
@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_done_by_keyboard(browser, tmp_path, dark):
    """Each button has a key, and each control can be reached with Tab and changed; no mouse is needed."""
    file = tmp_path / "walkers.yaml"
    file.write_text(FILE, encoding="utf-8")
    with PlayServer(ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url, dark=dark)
        until_text(browser, "#play-clock", "set up at 0s")
        steps(browser, server)
        speeds(browser, server)
        changes(browser, server, tmp_path)
        browser.picture(tmp_path / "keyboard.png")
        folder = server.player.folder
        browser.press("Escape", "x")
        until_text(browser, "#play-clock", "ended at")
        browser.press("n")
        loaded(browser, "seed 5")
        until_text(browser, "#play-clock", "set up at 0s")
        assert server.player.state()["note"] == ""
        first = server.player.folder
        browser.press("u")
        eventually(lambda: server.player.folder != first)
        loaded(browser, "it was set up and never started")
        assert not first.exists()
        assert browser.said == []
    with open_run(folder) as run:
        kinds = [kind for (kind,) in run.query("SELECT kind FROM inputs ORDER BY id")]
    assert kinds == ["parameters", "parameters", "parameters", "parameters", "tell"]
    assert sim.replay(folder).same

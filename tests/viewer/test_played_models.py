"""Shipped models that are played: each is changed by hand on the way, and its replay is the same."""

from pathlib import Path

import pytest

import sim
from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.record import open_run
from sim.runner.options import RunOptions
from tests.viewer.test_browser import until_text
from tests.viewer.test_player import eventually, still
from tests.viewer.test_player_browser import loaded, put

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def _turns(player, count):
    """Let some ticks pass."""
    for _ in range(count):
        player.step("tick")
        still(player)


def _until(player, seconds):
    """Let simulated time pass, in events of one agent, so that nothing depends on how fast the machine is."""
    while player.state()["now"] < seconds:
        player.step("event")
        still(player)


def _schelling(player):
    _turns(player, 2)
    player.set("wanted", 0.6)
    _turns(player, 2)


def _wolf_sheep(player):
    _turns(player, 3)
    player.set("grass", 2)
    player.set("cubs", 0.1)
    _turns(player, 3)


def _contagion(player):
    _turns(player, 30)
    player.set("infectivity", 0.4)
    _turns(player, 30)


def _debate(player):
    player.answer_for("debater-2", 600, "FOR. I was asked when I was away.")
    player.go()
    eventually(lambda: player.state()["people"]["waiting"])
    player.say("debater-3", "Think of the shops.")
    (question,) = player.state()["people"]["waiting"]
    player.answer(question["question"], "AGAINST. I speak for myself.")
    eventually(lambda: question not in player.state()["people"]["waiting"])
    player.answer_for("debater-2", 0)
    eventually(lambda: player.state()["phase"] == "ended")


def _lead_response(player):
    _until(player, 3600)
    player.say("lead-response", "Call the oldest lead first.")
    _until(player, 7200)


PLAYED = {
    "schelling": (_schelling, ["parameters"]),
    "wolf_sheep": (_wolf_sheep, ["parameters", "parameters"]),
    "contagion": (_contagion, ["parameters"]),
    "debate": (_debate, ["answer", "tell", "answer", "answer"]),
    "lead_response": (_lead_response, ["tell"]),
}


@pytest.mark.proof
@pytest.mark.parametrize("name", PLAYED)
def test_the_replay_of_a_played_run_is_the_same(name, tmp_path):
    """Stepped, changed by hand and stopped, each model has all that on record: its replay has the same events."""
    play, kinds = PLAYED[name]
    player = ScenarioPlayer(SCENARIOS / f"{name}.yaml", RunOptions(out=tmp_path / "runs"))
    play(player)
    eventually(lambda: all(one["time"] is not None for one in player.state()["hand"]))
    assert [one["refused"] for one in player.state()["hand"]] == [None] * len(kinds)
    if player.state()["phase"] != "ended":
        player.stop()
    folder = player.folder
    player.close()
    with open_run(folder) as run:
        assert [kind for (kind,) in run.query("SELECT kind FROM inputs ORDER BY id")] == kinds
    assert sim.replay(folder).same


def _moved(one):
    """Return how a person changes a control: the part of its element, what it is set to, and the value."""
    if one["options"] is not None:
        at = next(at for at, value in enumerate(one["options"]) if value != one["value"])
        return "value", str(at), one["options"][at]
    if one["range"] is not None:
        low, high = one["range"]
        value = high if one["value"] != high else low
        return "value", str(value), value
    return "checked", not one["value"], not one["value"]


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name in PLAYED if name in ("schelling", "wolf_sheep", "contagion")])
def test_each_control_of_a_shipped_model_is_used(name, browser, tmp_path):
    """Each control that the file declares is moved on the page: a live one changes the run, others the next setup."""
    with PlayServer(ScenarioPlayer(SCENARIOS / f"{name}.yaml", RunOptions(out=tmp_path / "runs"))) as server:
        browser.open(server.url, dark=name == "contagion")
        until_text(browser, "#play-clock", "set up at 0s")
        wanted = {}
        for one in server.player.state()["controls"]:
            part, given, wanted[one["name"]] = _moved(one)
            put(browser, one["name"], given, part=part)

        def values(key):
            return {one["name"]: one[key] for one in server.player.state()["controls"]}

        live = {one["name"] for one in server.player.state()["controls"] if one["live"]}
        eventually(lambda: values("value") == wanted)
        eventually(lambda: {name: values("used")[name] for name in live} == {name: wanted[name] for name in live})
        assert len(server.player.state()["hand"]) == len(live)
        assert {name for name, value in values("used").items() if value == wanted[name]} == live
        before = server.player.folder
        browser.evaluate("document.querySelector('#play-setup').click()")
        eventually(lambda: server.player.folder != before and values("used") == wanted)
        loaded(browser, "it was set up and never started")  # the page of the next run
        browser.picture(tmp_path / "controls.png")
        assert browser.said == []

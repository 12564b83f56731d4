"""A person sets values and publishes events in a run that is under way, from other processes."""

import json
import sys

import pytest

import sim
from sim.cli import main
from sim.record.inbox import ask, await_answer
from tests.inbox.helpers import going_on, is_running, rows, wait_for

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it stops processes by signals")

SHOP = """
name: shop
until: 1h
execution: {clock: wall}
agents:
  - name: seller
    count: 2
    state: {price: 1}
    loop: {min_loop_delay: 0.1}
    rules: [{do: {publish: {topic: price.said, data: "=price"}}}]
  - name: buyer
    loop: {min_loop_delay: 0.05}
    rules:
      - {when: event, do: {publish: {topic: buyer.heard, data: "=event.data"}}}
      - do: {sleep: {event: rumour.*}}
"""


@pytest.fixture
def call(capsys):
    """The command, inside this process: exit code, stdout, stderr."""

    def run(*args):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


def _said(run):
    return rows(run, "SELECT DISTINCT data FROM events WHERE topic = 'price.said' AND actor = 'seller-2'")


@pytest.mark.proof
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_a_person_sets_values_over_a_kill(tmp_path, start, call, backend):
    """What a person sets and publishes is answered, applied inside the run, kept over a kill, and is the same in a
    replay and in a branch.
    """
    (tmp_path / "shop.yaml").write_text(SHOP)
    program = start().begin("run", "shop.yaml", "--json", "--backend", backend)
    run = going_on(tmp_path / "runs")

    code, out, _ = call("set", run, "agents.seller.state.price==index * 10 + 2", "--json")
    assert (code, json.loads(out)["outcome"]) == (0, "done")
    wait_for(lambda: "12" in _said(run))
    code, out, _ = call("publish", run, "rumour.heard", '{"cheap": [true, null]}')
    assert code == 0
    assert out.startswith("rumour.heard is published (at ")
    wait_for(lambda: rows(run, "SELECT data FROM events WHERE topic = 'buyer.heard'") == ['{"cheap":[true,null]}'])
    following = start()
    program.kill()

    program = following.begin("resume", run, "--json", "--backend", backend)
    wait_for(lambda: is_running(run))
    code, out, _ = call("set", run, "agents.seller-2.state.price=7", "agents.seller.loop.min_loop_delay=50ms")
    assert (code, out.partition(" (")[0]) == (0, "agents.seller-2.state.price, agents.seller.loop.min_loop_delay set")
    wait_for(lambda: "7" in _said(run))
    assert call("stop", run)[0] == 0
    assert program.end()[0] == 0
    assert _said(run) == ["1", "12", "7"]
    kinds = rows(run, "SELECT data ->> '$.kind' FROM inputs")
    assert kinds == ["parameters", "publish", "parameters", "stop_all"]
    assert sim.replay(run).same
    end = rows(run, "SELECT max(time) FROM inputs")[0]
    changed = sim.branch(run, at=end - 0.01, until=end + 0.3)  # which takes real time
    assert changed.run is not None
    assert sim.replay(changed.run).same


@pytest.mark.slow
def test_what_cannot_be_set_or_published_is_said(tmp_path, start, call):
    """A wrong key, value, topic or text is refused with a hint, and what fails inside the run with its reason."""
    (tmp_path / "shop.yaml").write_text(SHOP)
    program = start().begin("run", "shop.yaml", "--json")
    run = going_on(tmp_path / "runs")
    for command, expected, part in (
        (("set", "agents.seller.state.prise=1"), 2, "no state variable 'prise'\nhint: did you mean 'price'?"),
        (("set", "agents.sellr.state.price=1"), 2, "no agent, entry or group 'sellr' in this file\nhint: did you mean"),
        (("set", "agents.seller.count=3"), 2, "so it cannot change during a run\nhint: live are limits"),
        (("set", "agents.seller.state.price"), 2, "is not of the form path=value"),
        (("set", "agents.seller.state.price=[1"), 2, "--set:1:27: not valid YAML"),
        (("set", "agents.seller.state.price==1 / index"), 1, "refused: agents.seller.state.price: seller-1: "),
        (("publish", "agent.state", "{}"), 2, "'agent.state' is not for agents"),
        (("publish", "no topic", "{}"), 2, "'no topic' is not a topic"),
        (("publish", "rumour.heard", "{"), 2, "the data is not JSON"),
    ):  # fmt: skip
        verb, *rest = command
        code, _, err = call(verb, run, *rest)
        assert (code, part in err) == (expected, True), err
    key = ask(run, "publish", topic="rumour.heard", data="x" * 10)
    answer = await_answer(run, key, 20)
    assert answer is not None
    assert answer.outcome == "done"
    assert call("stop", run)[0] == 0
    assert program.end()[0] == 0
    assert rows(run, "SELECT data ->> '$.kind' FROM inputs") == ["parameters", "publish", "stop_all"]
    assert _said(run) == ["1"]

"""What loops count for observers."""

from sim.actors.manager import Totals
from sim.actors.wake import WakeCondition
from sim.world import Action
from tests.actors.helpers import Lab, Script


def test_wakeups_are_counted_by_cause():
    """Leaving SLEEPING counts under what woke the agent, leaving PAUSED under why it was paused."""
    lab = Lab()

    def rest(script: Script) -> None:
        script.loop.sleep(
            WakeCondition.after_delay(1.0) if len(script.times) % 2 else WakeCondition.event("go", timeout=2.0)
        )

    lab.add("a", rest, started=True, min_loop_delay=0.1)
    loop = lab.add("b", started=True)
    lab.at(1.5, lambda: lab.bus.publish("go"))
    lab.at(2.0, loop.pause)
    lab.at(3.0, loop.resume)
    lab.run(10)
    counts = lab.world.wakeup_counts
    assert counts["paused", "operator"] == 1
    assert counts["sleeping", "event"] == 1
    assert counts["sleeping", "time"] >= 2
    assert counts["sleeping", "timeout"] >= 1
    assert sum(counts.values()) == lab.manager.totals().wakeups


def test_crashes_are_counted_once():
    """A loop that is stopped because it fails too often counts as one crash; one that is stopped does not."""
    lab = Lab()

    def fail(script: Script) -> None:
        raise ValueError("no")

    lab.add("a", fail, started=True, max_consecutive_errors=1, max_restarts=0)
    loop = lab.add("b", started=True)
    lab.at(1.0, lambda: loop.request_stop("stop"))
    lab.run(30)
    assert lab.manager.states()["stopped"] == 2
    assert lab.world.crashes == 1


def test_what_a_spawned_loop_did_stays_counted():
    """A loop that is kept no more leaves its counts to its group: iterations, and messages that were lost."""
    lab = Lab()
    loop = lab.add("a", lambda script: Action("stop", {}), group="g", mailbox_size=1, mailbox_policy="drop_oldest")
    lab.add("b", lambda script: Action("send", {"to": "a", "data": 1}), started=True, min_loop_delay=0.1)
    lab.at(1.0, lambda: lab.manager.start_spawned(loop, 10**9))
    lab.run(3)
    ended = lab.manager.ended["g"]
    assert "a" not in lab.manager.loops
    assert (ended.loops, ended.iterations, ended.errors) == (1, 1, 0)
    assert ended.dropped > 0
    assert ended.dead == loop.agent.mailbox.dead == 1
    assert lab.manager.totals() == ended.plus(lab.manager.loops["b"])
    assert ended + Totals(1, 2, 3, 4, 5, 6, 7) == Totals(
        2, ended.iterations + 2, 3, ended.wakeups + 4, ended.dropped + 5, ended.dead + 6, ended.unmatched + 7
    )

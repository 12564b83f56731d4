"""What a scenario must not have to run in synchronised rounds: each is refused, and named."""

from typing import Any

import pytest

from sim.base.errors import UsageError
from sim.llm import Access
from sim.runner import run
from sim.runner.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools.rights import Rights
from tests.sync.sync_agents import KINDS, Undeclared, scene, walkers

FINE = scene(walkers(2), "{name: p}")
SERVER = "server: {replicas: 1, slots: 3}"


def made(text: str, sync: str = "causal", *overrides: str, **options: Any) -> Any:
    """Build a scenario."""
    scenario = loads(text, overrides=[f"execution.sync={sync}", *overrides])
    return build(scenario, rights=Rights(kinds=KINDS), **options)


@pytest.mark.parametrize("sync", ["sequential", "barrier", "causal", "causal-radius", "free"])
@pytest.mark.parametrize(
    ("text", "key"),
    [
        (scene(walkers(2), more="limits: {posts: {group: 3 per 1m}}\n"), "limits.posts"),
        (scene(walkers(2), more="limits: {posts: {global: 3 per 1m}}\n"), "limits.posts"),
        (scene(walkers(2), more="limits: {posts: {agent: 3 per tick}}\n"), "limits.posts"),
        (
            scene("{name: p, limits: {posts: 1 per tick}}", more="limits: {posts: {agent: 3 per 1m}}\n"),
            "agents.p.limits",
        ),
        (scene(walkers(2), "{name: p, template: true}"), "agents.p.template"),
        (scene("{name: p, rules: [{do: {spawn: {agent: q}}}]}", "{name: q}"), "spawn in the rules of p"),
        (FINE.replace("  tick:", "  clock: wall\n  tick:"), "execution.clock: wall"),
        (FINE.replace("  tick:", "  health: {}\n  tick:"), "execution.health"),
        (FINE.replace("  tick:", "  ties: shuffled\n  tick:"), "a shuffled order"),
        (FINE.replace("concurrency: parallel", "order: shuffled"), "a shuffled order"),
        (f"{FINE}\ninterventions: [{{at: 1m, resume: {{}}}}]\n", "interventions"),
        (FINE.replace("  simulated:", "  ceiling: 5\n  simulated:"), "models.ceiling"),
        (FINE.replace("  simulated:", "  faults: [{kind: overload}]\n  simulated:"), "models that fail"),
        (FINE.replace(SERVER, "failures: [{kind: server, share: 0.1}]"), "models that fail"),
        (FINE.replace("  simulated:", "  rules: [{fail: server}]\n  simulated:"), "models that fail"),
        (
            FINE.replace("  simulated:", "  rules: [{choose: [{say: a}, {fail: server}]}]\n  simulated:"),
            "models that fail",
        ),
        (FINE.replace("slots: 3", "slots: 3, queue: 5"), "models.simulated.server.queue"),
        (
            FINE.replace("slots: 3", "slots: 3, requests_per_minute: 5"),
            "models.simulated.server.requests_per_minute",
        ),
        (FINE.replace("slots: 3", "slots: 3, tokens_per_minute: 5"), "models.simulated.server.tokens_per_minute"),
    ],
)
def test_what_would_make_the_outcome_depend_on_service_is_refused(text, key, sync):
    """What agents share in the course of their calls, and what comes unannounced, is refused with its key."""
    with pytest.raises(UsageError, match=f"execution.sync: {sync} excludes {key}: "):
        made(text, sync)


def test_the_same_goes_without():
    """The scenario that the cases above spoil is itself fine."""
    for sync in ("sequential", "barrier", "causal", "causal-radius", "free", "null"):
        made(FINE, sync)


def test_an_endpoint_is_refused():
    """The answers of an endpoint of the operator's do not stand on the axis of service time."""
    access = Access(models=("openai:gpt-5",), base_url="http://localhost:1/v1")
    with pytest.raises(UsageError, match="excludes --model"):
        made(FINE, access=access)


@pytest.mark.parametrize("sync", ["causal", "causal-radius", "free"])
def test_classes_that_do_not_say_what_they_share_are_refused(sync):
    """An agent that may run ahead has to say what it reaches; under a barrier nobody runs ahead."""
    text = scene("{name: u, kind: undeclared}")
    with pytest.raises(UsageError, match=f"{sync} cannot be used with {Undeclared.__name__}") as caught:
        made(text, sync)
    assert "reach" in (caught.value.hint or "")
    made(text, "barrier")
    made(text, "sequential")


@pytest.mark.parametrize("sync", ["causal", "causal-radius", "free"])
def test_answers_must_reach_no_farther_than_classes_say(sync):
    """A class that promises to look no farther than space does so by asking a model, too."""
    text = FINE.replace(
        "  simulated:", """  rules: [{say: a, when: "calls > 9"}, {say: "=str(exists('x'))"}]\n  simulated:"""
    )
    with pytest.raises(UsageError, match=r"Walker, .* 'space', together with models.rules\[1\], .*exists"):
        made(text, sync)
    made(text, "barrier")
    made(text.replace("exists('x')", "len(in_sight())"), sync)
    made(text.replace("exists('x'))\"", "exists('x'))\", agent: p"), sync)  # nobody in space is answered like that


def test_the_autonomous_mode_is_refused():
    """Rounds are ticks: the mode without them is refused."""
    simulation = made(FINE)
    with pytest.raises(UsageError, match="needs the tick mode") as caught:
        RunController(simulation, until_ns=10**9, mode="autonomous")
    assert "execution.sync=null" in (caught.value.hint or "")


def test_the_wall_clock_of_the_caller_is_refused():
    """Also who asks for it beside the scenario gets no run that follows real time."""
    with pytest.raises(UsageError, match="needs the virtual clock"):
        RunController(made(FINE), until_ns=10**9, mode="tick", speed=1.0)


@pytest.mark.parametrize("options", [{"mode": "autonomous"}, {"clock": "wall"}])
def test_a_refused_run_leaves_nothing(tmp_path, options):
    """What cannot be run is refused before it gets a folder, in which it would look as if it had been killed."""
    file = tmp_path / "fine.yaml"
    file.write_text(FINE, encoding="utf-8")
    with pytest.raises(UsageError, match=r"execution\.sync"):
        run(file, out=tmp_path / "runs", kinds=KINDS, overrides=["execution.sync=causal"], **options)
    assert not (tmp_path / "runs").exists()


def test_a_space_needs_a_size_or_places():
    """A space lies on a plane of a size, or over a graph."""
    text = scene("{name: p}").replace("size: [16, 16], ", "")
    with pytest.raises(UsageError, match="expected a size, or `places`"):
        made(text)


def test_a_position_needs_a_space_and_lies_in_it():
    """Who stands somewhere needs a space, and a position in it."""
    nowhere = scene("{name: p, position: [1, 1]}").replace("space: {size: [16, 16], perception: 3, speed: 1}\n", "")
    with pytest.raises(UsageError, match=r"agents\.p\.position: the scenario has no space"):
        made(nowhere)
    with pytest.raises(UsageError, match=r"agents\.p\.position: .* is no position of this space"):
        made(scene("{name: p, position: [16, 1]}"))


def test_partners_may_have_names_like_numbers_of_others():
    """What stands before a hyphen is another agent's business, and who has no partners needs no position."""
    red, ant = "{name: red, partners: []}", "{name: red-ant, position: [1, 1], partners: [red-bee, blue-2]}"
    made(scene(red, ant, "{name: red-bee, position: [1, 1]}", "{name: blue, count: 3, position: [1, 1]}"))

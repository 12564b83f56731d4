"""An arm without effect reaches no agent, and changes no outcome, in each scenario of the gallery."""

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import sim
from sim.kernel import to_ns, to_seconds
from tests.helpers import command
from tests.runner.test_strangers import SCENES

SHIPPED = Path(__file__).parents[2] / "scenarios"

SPANS: dict[str, str] = {
    **SCENES, "debate": "30s", "cascade": "3s", "civil_violence": "3s", "contagion": "2d", "culture": "12s",
    "ecology": "3h", "asch": "1m", "jury": "2m", "hawk_dove": "5s", "herd": "4h", "opinions": "1s",
    "queue": "40m", "regions": "10d", "schelling": "5s", "sugarscape": "6s", "wolf_sheep": "9s",
}  # fmt: skip
"""A short time of each scenario, in which its agents act."""

NOISE = "interventions=[{at: AT, every: EVERY, publish: {topic: zz.noise}}, {at: AT, survey: {questions: [Why?]}}]"
"""Events that no agent waits for, and a survey, which agents do not notice."""


def test_each_scenario_of_the_gallery_is_here():
    """A new scenario fails here until it has a span."""
    assert {path.stem for path in SHIPPED.glob("*.yaml")} == SPANS.keys()


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(SPANS))
def test_an_arm_without_effect_reaches_nobody(name, tmp_path, monkeypatch):
    """Neither one that changes nothing, nor one whose changes no agent meets, has a difference to the baseline."""
    monkeypatch.chdir(tmp_path)
    end = to_ns(SPANS[name])
    run = sim.run(SHIPPED / f"{name}.yaml", until=SPANS[name], out="runs").run
    at, every = f"{to_seconds(end // 2):g}s", f"{to_seconds(end // 9):g}s"
    noise = NOISE.replace("AT", at).replace("EVERY", every)
    if "models" not in YAML(typ="safe").load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")):
        noise = noise.partition(", {at")[0] + "]"  # without models, nobody can be asked
    arms = {"same": "", "noise": noise}
    if name == "town":  # with execution.sync, agents are at different times: no arm begins later, or has events
        at, arms = "0", {"same": ""}
    if name == "regions":  # a world with islands has no interventions
        arms = {"same": ""}
    given = [word for arm, changes in arms.items() for word in ("--arm", f"{arm}:{changes}")]
    code, out, err = command("branch", run, "--at", at, *given, "--seeds", 1, "--jobs", 1, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    assert [one["arm"] for one in found["reached"]] == list(arms)
    assert [agent for one in found["reached"] for agent in one["agents"]] == []
    assert [one for one in found["differences"] if one["changed"] and one["outcome"] != "done_publish"] == []

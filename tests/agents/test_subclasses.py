"""Classes that inherit from a kind of agents of `sim`: in the host program, and in a module of the user."""

import sys
import types
from pathlib import Path

import pytest

import sim
from sim.agents.family import FAMILIES, Family, WorldPlan

SCENARIOS = Path(__file__).parents[2] / "scenarios"
RULES = "name: rules\nagents: [{name: ann, kind: policy, state: {n: 0}, rules: [{set: {n: '=n + 1'}}]}]\n"
KINDS = [
    ("policy", None, "10s"),
    ("assistant", "helpdesk", "2h"),
    ("chat_agent", "community", "1d"),
    pytest.param("goal", "houston", "10h", marks=pytest.mark.proof),
    ("employee", "lead_response", "2h"),
    ("executor", "software_team", "1m"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scenario", "until"), KINDS)
def test_a_class_has_what_its_kind_has(
    kind: str, scenario: str | None, until: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that changes nothing runs as its kind does, with its settings, and is the class of the agents."""
    text = RULES if scenario is None else (SCENARIOS / f"{scenario}.yaml").read_text(encoding="utf-8")
    made: list[str] = []
    base = FAMILIES[kind].agent

    def begin(self: sim.Agent, *names: object, **options: object) -> None:
        base.__init__(self, *names, **options)  # type: ignore[arg-type]
        made.append(self.agent_id)

    own = type("Own", (base,), {"__init__": begin})
    module = types.ModuleType("subclasses_module")
    module.Own = own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "subclasses_module", module)
    hashes = set[str]()
    for name, options in (
        (kind, {}), ("mine", {"kinds": {"mine": own}}), ("subclasses_module:Own", {"allow": ("subclasses_module",)}),
    ):  # fmt: skip
        file = tmp_path / "it.yaml"
        file.write_text(text.replace(f"kind: {kind}\n", f"kind: {name}\n").replace(f"kind: {kind},", f"kind: {name},"))
        before = len(made)
        hashes.add(sim.run(file, until=until, out=None, **options).hash)
        assert (len(made) > before) is (name != kind)
    assert len(hashes) == 1


def test_the_settings_of_a_class_of_the_host_are_checked(tmp_path: Path) -> None:
    """Settings of such a class have the keys of its kind, and a class of no kind has none."""
    file = tmp_path / "it.yaml"
    text = (SCENARIOS / "helpdesk.yaml").read_text(encoding="utf-8").replace("kind: assistant", "kind: mine")
    file.write_text(text.replace("instructions:", "instruction:"), encoding="utf-8")
    own = type("Own", (FAMILIES["assistant"].agent,), {})
    with pytest.raises(sim.UsageError, match="unknown key 'instruction'"):
        sim.run(file, kinds={"mine": own}, out=None)
    with pytest.raises(sim.UsageError, match="agents of the kind mine have no settings"):
        sim.run(file, kinds={"mine": sim.Agent}, out=None)  # type: ignore[type-abstract]


def test_a_world_is_prepared_once_for_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries of one class, given by the host program or named in a module, prepare their world once, as a kind."""
    prepared: list[str] = []

    def prepare(plan: WorldPlan) -> None:
        prepared.append(plan.agent.__name__)

    class Counted(sim.Agent):
        """Does nothing."""

        async def decide_action(self) -> sim.Action | None:
            return None

    monkeypatch.setitem(FAMILIES, "counted", Family("counted", Counted, prepare=prepare))
    own = type("Own", (Counted,), {})
    module = types.ModuleType("counted_module")
    module.Own = own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "counted_module", module)
    for name, options in (
        ("counted", {}), ("mine", {"kinds": {"mine": own}}),
        ("counted_module:Own", {"allow": ("counted_module",)}),
    ):  # fmt: skip
        file = tmp_path / "it.yaml"
        file.write_text(f"name: two\nuntil: 1s\nagents: [{{name: a, kind: '{name}'}}, {{name: b, kind: '{name}'}}]\n")
        sim.run(file, out=None, **options)
    assert prepared == ["Counted", "Own", "Own"]

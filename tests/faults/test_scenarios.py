"""Scenarios written by somebody with bad intentions."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.base.errors import SimError
from tests.llm.scenes import ASKER, Scene

ROOT = Path(__file__).parents[2]

FORMATS = [
    "{0}", "{0.__class__}", "{me.__class__.__init__.__globals__}", "{x!r}", "{x:>99999999}", "{__import__}",
    "{self.__dict__}", "{}", "{{x}}", "%(x)s", "%s %n", "$x", "${HOME}", "{x[0]}", "{x[__class__]}", "{request}",
    "{0!s:{1}}", "#{x}", "{% raw %}", "{{ config.__class__ }}", "<%= x %>", "{x.y.z}",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb",
    [
        ["check"],
        pytest.param(["run", "--no-record"], marks=pytest.mark.proof),
        pytest.param(["run", "--estimate"], marks=pytest.mark.proof),
    ],
)
def test_a_module_that_is_not_allowed_is_never_imported(tmp_path: Path, verb: list[str]):
    """Neither checking, nor estimating, nor running a scenario imports a module that it names without permission."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n")
    for name in ("trap:Agent", "os:system", "subprocess:Popen"):
        (tmp_path / "bad.yaml").write_text(f"name: bad\nuntil: 1s\nagents: [{{name: a, kind: '{name}'}}]\n")
        command = [sys.executable, "-m", "sim", *verb, "bad.yaml"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode in (0, 2), ended.stderr
        assert "Traceback" not in ended.stderr
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("text", FORMATS)
def test_a_format_string_is_text_or_refused(text: str):
    """No template of a scenario reaches Python's formatting: an answer is the text as it stands, or is refused."""
    quoted = "'" + text.replace("'", "''") + "'"
    said: Any = text
    try:
        said = Scene(f"  rules: [{{say: {quoted}}}]\n").run().state()["said"]
    except SimError:
        return
    assert said == text if "{" not in text else said in (text, "")


@pytest.mark.parametrize("text", ["${SIM_CANARY}", "$SIM_CANARY", "%SIM_CANARY%", "{SIM_CANARY}", "{{env.SIM_CANARY}}"])
def test_the_environment_never_enters_a_prompt(monkeypatch: pytest.MonkeyPatch, text: str):
    """What looks like a variable of the environment is text: its value is in no request, event or state."""
    monkeypatch.setenv("SIM_CANARY", "sk-canary-98765")
    agents = ASKER.replace("Is it raining, or not?", text)
    scene = Scene("  rules: [{say: yes it is}]\n", agents, rest=f"until: 10m\ndescription: '{text}'").run()
    asked = str(scene.events("model.call")) + str(scene.events("action.ask"))
    assert text in asked
    assert "canary-98765" not in asked + str(scene.recorder.rows) + str(scene.state())

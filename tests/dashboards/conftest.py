import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards"


def tool(name: str) -> str:
    """Return the path of a program of Prometheus, or skip the test."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install prometheus")
    return path


@pytest.fixture(scope="session")
def generate() -> Any:
    """The program that makes the dashboards."""
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "docs" / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # attrs looks its module up
    spec.loader.exec_module(module)
    return module


@attrs.frozen
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """Return what its HTTP interface answers."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # our own server
            body = json.loads(answer.read())
        assert body["status"] == "success", body
        return body["data"]

    def values(self, expression: str) -> list[float]:
        """Return the numbers that an expression has now, without those that are none."""
        found = [float(sample["value"][1]) for sample in self.get("query", query=expression)["result"]]
        return [value for value in found if value == value]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start runs with metrics, and return the instance under which each is scraped."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "sim", "run", *map(str, arguments), "--no-record", "--quiet", "--metrics", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        started.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://([^/]+)/metrics", line)
        assert found, line
        return found[1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[..., Prometheus]]:
    """Start the real Prometheus with the rules of the project, and have it scrape some instances often."""
    program = tool("prometheus")
    started: list[subprocess.Popen[bytes]] = []

    def start(*instances: str) -> Prometheus:
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
            "rule_files": [str(FOLDER / "rules.yml")],
            "scrape_configs": [{"job_name": "sim", "static_configs": [{"targets": list(instances)}]}],
        }
        file = tmp_path / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with (tmp_path / "prometheus.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                     f"--web.listen-address={address}"],
                    stdout=log, stderr=log,
                )
            )  # fmt: skip
        server = Prometheus(f"http://{address}")
        wait_for(lambda: _ready(server), 30)
        return server

    yield start
    for process in started:
        process.terminate()
        process.wait(20)


def _ready(server: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/-/ready", timeout=5):  # noqa: S310  # our own server
            return True
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until a condition holds; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True

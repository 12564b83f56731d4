"""One recorded run for all tests of this folder, with texts that try to be markup."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sim

EVIL = "<script>alert(1)</script>"

SHOP = f"""
name: shop
seed: 3
until: 10m
agents:
  - name: clerk
    count: 2
    loop: {{min_loop_delay: 1m}}
    state: {{sold: 0, note: "{EVIL}"}}
    rules:
      - when: iteration % 3 == 0
        do: {{publish: {{topic: shop.sold, data: {{to: "=me", price: 2.5, parts: [1, {{deep: true}}]}}}}}}
        set: {{sold: "=sold + 1"}}
      - when: iteration % 3 == 1
        do: {{send: {{to: clerk-1, topic: note, data: "{EVIL}"}}}}
      - do: {{send: {{to: clerk-2, data: {{at: "=now"}}}}}}
metrics:
  every: 1m
  values: {{sold: "total('clerk', 'sold')", half: "total('clerk', 'sold') / 2"}}
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded run, in `runs`."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.yaml").write_text(SHOP)
    sim.run(folder / "shop.yaml", out=folder / "runs")
    return folder


@pytest.fixture
def run(folder: Path) -> Iterator[sim.Run]:
    """The recorded run, open."""
    (path,) = (folder / "runs").iterdir()
    with sim.open(path) as opened:
        yield opened

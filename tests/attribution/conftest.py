from pathlib import Path

import pytest

import sim

COIN = """
name: coin
until: 12s
seed: 1
agents:
  - name: flipper
    state: {side: 0, turn: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: turn == 5 and side == 0, set: {side: "=1 if chance(0.5) else -1", turn: "=turn + 1"}}
      - {set: {turn: "=turn + 1"}, do: {send: {to: listener-1, topic: turn, data: "=turn"}}}
  - name: listener
    count: 3
    state: {heard: 0, mood: "=2 if index == 1 else 1"}
    rules:
      - {when: message is not None, set: {heard: "=heard + 1"}, record: {noise: "=uniform(0, 1)"}}
      - {do: {sleep: {message: true}}}
metrics:
  every: 1s
  values: {side: "mean('flipper', 'side')", heard: "total('listener', 'heard')", mood: "total('listener', 'mood')"}
"""


@pytest.fixture(scope="session")
def coin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which one draw, of flipper at 5 s, decides the side; its other messages are noise."""
    folder = tmp_path_factory.mktemp("coin")
    (folder / "coin.yaml").write_text(COIN, encoding="utf-8")
    return Path(str(sim.run(folder / "coin.yaml", out=folder / "runs").run))

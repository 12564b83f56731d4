"""Hashes of the shipped scenarios, which no change of the house may change.

The golden runs beside this file are recorded and replay; these say of many more kinds of events that they are recorded
as before. Renew them only as golden runs are renewed (see `make`):

    python -m tests.golden.shipped
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from sim.record import open_run
from sim.runner import run

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("shipped.json")
MODES = ("autonomous", "tick")
UNTIL = {
    "asch": "20s", "axelrod": "2s", "cascade": "6s", "civil_violence": "3s", "community": "1d", "contagion": "2d",
    "culture": "12s", "debate": "5m", "ecology": "40m", "hawk_dove": "3s",
    "herd": "8h", "propagation": "12h", "helpdesk": "6h", "houston": "10h",
    "jury": "3m", "lead_response": "6h",
    "opinions": "1s", "queue": "1h", "regions": "30d", "schelling": "2s", "smallville": "8h", "software_team": "2h",
    "sugarscape": "4s", "town": "5m", "wolf_sheep": "6s",
}  # fmt: skip
"""How long each runs. All together take some seconds."""
RUNS = [
    (name, mode)
    for name in UNTIL
    for mode in MODES
    if (name, mode) not in (("town", "autonomous"), ("regions", "tick"))
]
"""The town has synchronised rounds, which the tick mode alone has; islands are refused there."""


def recorded(name: str, mode: Any) -> dict[str, Any]:
    """Run a shipped scenario for a while, and return its hash and the topics of its events."""
    with tempfile.TemporaryDirectory() as folder:
        result = run(ROOT / "scenarios" / f"{name}.yaml", until=UNTIL[name], mode=mode, out=folder)
        assert result.run is not None
        with open_run(result.run) as stored:
            topics = [topic for (topic,) in stored.query("SELECT DISTINCT topic FROM events ORDER BY topic")]
    return {"hash": result.hash, "topics": topics}


def main() -> None:
    """Renew the file."""
    found = {f"{name} {mode}": recorded(name, mode) for name, mode in RUNS}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

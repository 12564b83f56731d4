"""Check that a file holds what `sim run --json` prints: one JSON object, with the hash of the run."""

import json
import sys
from pathlib import Path

summary = json.loads(Path(sys.argv[1]).read_text())
if not isinstance(summary, dict) or not any("hash" in key and value for key, value in summary.items()):
    sys.exit(f"expected one JSON object with a hash, found: {summary!r:.500}")
print(f"one JSON object with a hash: {summary!r:.500}")

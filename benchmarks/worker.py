"""One measurement in a process of its own: `python -m benchmarks.worker W1 simpy 1000 200` prints it as JSON."""

import json
import sys

if "--plain" in sys.argv:
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # so the import fails, as if it were not there

from benchmarks.workload import measure, most_resident
from benchmarks.workloads import WORKLOADS


def main() -> None:
    """Measure what the arguments say."""
    key, name, agents, times = sys.argv[1:5]
    meter = measure(WORKLOADS[key], name, int(agents), int(times))
    print(
        json.dumps(
            {
                "value": meter.value,
                "operations": meter.operations,
                "seconds": meter.seconds,
                "cpu": meter.cpu,
                "set_up": meter.set_up,
                "peak": most_resident(),
            }
        )
    )


if __name__ == "__main__":
    main()

"""Metrics for Prometheus: they observe a run from separate threads and change nothing in it.

Modules: `catalog` (all metrics with their labels and help texts), `sheet` (the values of one scrape, with sanitised and
bounded labels), `readers` (read the values from a run), `exporter` (caches and encodes scrapes), `server` (the HTTP
endpoint).

The core keeps plain numbers. Each scrape reads them from copies of the tables. So a run without scrapes has no extra
cost.
"""

from sim.base.extras import need

need("metrics", "metrics for Prometheus need")  # before the modules that import it

from sim.base.local_server import Address  # noqa: E402
from sim.inspect.telemetry.catalog import CATALOG, Metric  # noqa: E402
from sim.inspect.telemetry.exporter import Exporter  # noqa: E402
from sim.inspect.telemetry.server import Server  # noqa: E402

__all__ = ["CATALOG", "Address", "Exporter", "Metric", "Server"]

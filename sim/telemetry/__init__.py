"""Metrics for Prometheus: an observer of a run, in threads of its own, that changes nothing in it.

Layout: `catalog` (every metric, its labels and its help), `sheet` (values of one scrape: harmless labels, bounded in
number), `readers` (what is read of a run), `exporter` (when it is read, and in which format), `server` (the endpoint).

The core keeps plain numbers. They are read when somebody scrapes, from copies of its tables, so a run that nobody
watches pays nothing, and one that is watched pays for the scrapes.
"""

from sim.telemetry.catalog import CATALOG, Metric
from sim.telemetry.exporter import Exporter
from sim.telemetry.server import Address, Server

__all__ = ["CATALOG", "Address", "Exporter", "Metric", "Server"]

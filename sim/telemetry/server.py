"""The HTTP endpoint for Prometheus: `/metrics` and `/healthz`."""

import json

from sim.local_server import Address, LocalServer, Response
from sim.telemetry.exporter import Exporter


class Server(LocalServer):
    """Serves the metrics of one exporter while it is used as a context manager.

    Args:
        exporter: the exporter.
        address: the address to listen on; port 0 selects a free port.

    Raises:
        UsageError: if it cannot listen on the address.
    """

    def __init__(self, exporter: Exporter, address: Address) -> None:
        super().__init__(_Metrics(exporter), address, "metrics", "use --metrics 0 for a free port")


class _Metrics:
    """The site of an exporter."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def answer(self, path: str, query: str, accept: str) -> Response:
        """Return the metrics, or whether the run is well."""
        if path == "/metrics":
            body, content_type = self._exporter.exposition(accept)
            return Response(200, body, content_type)
        if path == "/healthz":
            well, answer = self._exporter.health()
            return Response(200 if well else 503, json.dumps(answer).encode() + b"\n", "application/json")
        return Response(404, b"not found; the available paths are /metrics and /healthz\n")

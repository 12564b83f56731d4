"""The HTTP endpoint for Prometheus: `/metrics` and `/healthz`.

The WSGI application of `prometheus_client` answers `/metrics`: it knows the formats and encodings that a client can ask
for.
"""

import json
from collections.abc import Iterable
from http import HTTPStatus
from wsgiref.types import WSGIEnvironment

from sim.base.local_server import Address, LocalServer, Start, text_answer
from sim.inspect.telemetry.exporter import Exporter


class Server(LocalServer):
    """Serves the metrics of one exporter while it is used as a context manager.

    Args:
        exporter: the exporter.
        address: the address to listen on; port 0 selects a free port.

    Raises:
        UsageError: if it cannot listen on the address.
    """

    def __init__(self, exporter: Exporter, address: Address) -> None:
        super().__init__(_Pages(exporter), address, "metrics", "use --metrics 0 for a free port")


class _Pages:
    """The WSGI application: the pages of the endpoint."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def __call__(self, environ: WSGIEnvironment, start: Start) -> Iterable[bytes]:
        """Answer a request."""
        match environ["PATH_INFO"]:
            case "/metrics":
                return self._exporter.application({**environ, "QUERY_STRING": ""}, start)
            case "/healthz" if environ["REQUEST_METHOD"] == "GET":
                well, answer = self._exporter.health()
                return text_answer(start, HTTPStatus(200 if well else 503), json.dumps(answer), "application/json")
            case "/healthz":
                return text_answer(start, HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
            case _:
                return text_answer(
                    start, HTTPStatus.NOT_FOUND, "not found; the available paths are /metrics and /healthz"
                )

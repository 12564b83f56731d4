"""A real HTTP service on loopback that counts its calls: what the proofs take for the world outside a run.

Its answer is a function of the request alone, so any two runs of a scenario get the same answers, in whatever order
they come; only how long a call takes is left to chance.
"""

import hashlib
import json
import random
import select
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import attrs

LATENCY = (0.005, 0.060)
"""Real seconds that a call takes, at least and at most."""


@attrs.frozen
class Call:
    """One call: what it was about, its key, and a hash of the whole request."""

    run: str
    agent: str
    ordinal: int
    safety: str
    key: str
    request: str


class Service:
    """Counts calls and applies each of a key once. Use it as a context manager.

    Attributes:
        calls: all that came, in order of arrival.
        applied: by key: how often its work was done (idempotent calls only).
        open: how many are being answered now.
        peak: how many there were at most.
    """

    def __init__(self, seed: int = 0) -> None:
        self.calls: list[Call] = []
        self.applied: Counter[str] = Counter()
        self.open = 0
        self.peak = 0
        self._answers: dict[str, dict[str, Any]] = {}
        self._rng = random.Random(seed)
        self._changed = threading.Condition()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: dict[str, Any], key: str, body: bytes) -> dict[str, Any]:
        """Answer one call; an idempotent one that was answered before gets the same answer again."""
        with self._changed:
            safety = request["safety"]
            self.calls.append(
                Call(request["run"], request["agent"], request["n"], safety, key, hashlib.sha256(body).hexdigest())
            )
            self.open += 1
            self.peak = max(self.peak, self.open)
            self._changed.notify_all()
            seconds = self._rng.uniform(*LATENCY)
            if safety == "idempotent" and key not in self._answers:
                self.applied[key] += 1
                self._answers[key] = _answer(body)
            answer = self._answers[key] if safety == "idempotent" else _answer(body)
        try:
            time.sleep(seconds)
        finally:
            with self._changed:
                self.open -= 1
        return answer

    def wait_for(self, calls: int, seconds: float) -> bool:
        """Wait until so many calls have come, or some time has passed."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.calls) >= calls, seconds)

    def settle(self) -> None:
        """Wait until every call that was sent has been counted and answered: a killed caller's last ones come late."""
        quiet = 0
        while quiet < 3:
            time.sleep(0.005)
            waiting, _, _ = select.select([self._server], [], [], 0)
            quiet = 0 if waiting or self._server.connections else quiet + 1

    def seen(self) -> dict[tuple[str, int], list[Call]]:
        """Return the calls by (agent, ordinal)."""
        found: dict[tuple[str, int], list[Call]] = defaultdict(list)
        with self._changed:
            for call in self.calls:
                found[call.agent, call.ordinal].append(call)
        return found

    def forget(self) -> None:
        """Begin to count anew, for the next run."""
        with self._changed:
            self.calls = []
            self.applied = Counter()
            self._answers = {}
            self.peak = 0


def _answer(body: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(body).hexdigest()
    return {"number": int(digest[:6], 16), "text": digest * 3}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, _Server)
        answer = json.dumps(server.service.answer(json.loads(body), self.headers["Idempotency-Key"], body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, service: Service) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = service
        self.connections = 0
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count an open connection."""
        with self._lock:
            self.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Count it no more."""
        super().shutdown_request(request)
        with self._lock:
            self.connections -= 1

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that was killed is no error here."""

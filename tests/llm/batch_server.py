"""An OpenAI-compatible endpoint on loopback with files and batches, and with answers online: real sockets and threads.

An answer is a function of the request alone, so a run in batches and a run online get the same answers. A batch goes on
by one status each time that somebody looks at it. What goes wrong is told by hooks; nothing here knows the client.
"""

import hashlib
import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import attrs

from tests.llm.endpoint import whole

Fate = Literal["completed", "expired", "failed", "cancelled"]
STAGES = ("validating", "in_progress", "finalizing")
_KEY = "sk-canary-0123456789"


@attrs.define
class Batch:
    """A batch that was submitted.

    Attributes:
        number: from 0.
        key: the metadata that the client gave.
        requests: the lines of the input file, by custom id.
        fate: how it ends.
        looks: how often somebody has looked at it.
        stages: the status that each look finds, until it ends.
    """

    number: int
    id: str
    key: str
    endpoint: str
    file: str
    requests: dict[str, Any]
    fate: Fate = "completed"
    status: str = "validating"
    stages: tuple[str, ...] = STAGES
    looks: int = 0
    errors: list[dict[str, Any]] = attrs.field(factory=list)
    output: str | None = None
    error: str | None = None


@attrs.define
class File:
    """A file that was uploaded, or made."""

    id: str
    name: str
    content: bytes
    purpose: str = "batch"


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """Answer a request in words that follow from its last message."""
    if "input" in body:
        data = [{"index": i, "embedding": [float(len(text)), 1.0]} for i, text in enumerate(body["input"])]
        return {"data": data, "model": body["model"], "usage": {"prompt_tokens": 7}}
    asked = body["messages"][-1]["content"]
    return whole(f"Answer {hashlib.sha256(asked.encode()).hexdigest()[:8]} to: {asked}")


def line(id: str, body: Any, status: int = 200) -> bytes:
    """Return a line of a file of results."""
    response = {"status_code": status, "request_id": "r", "body": body}
    return json.dumps({"id": "x", "custom_id": id, "response": response, "error": None}).encode()


def failed_line(id: str, code: str, message: str = "no") -> bytes:
    """Return a line of a file of errors, for a request that was not made."""
    return json.dumps({"custom_id": id, "response": None, "error": {"code": code, "message": message}}).encode()


class BatchServer:
    """The server; a context manager.

    Attributes:
        answer: what a request is answered, online or in a batch.
        fate: how a batch ends.
        result: the line for one request, or None for the usual one. It gets the batch, the id of the request, and how
            often a batch had this request before.
        fault: what is sent instead of a response, or None: a status, or `reset` before or `lost` after the work. It
            gets method, path, and how often both came before.
        delay: real seconds before each response to an online request.
        stages: the status that each look at a new batch finds, until it ends.
        page: the most objects of a page of a list.
        batches: all that were submitted, in order.
        files: all that there are, by id.
        requests: method and path of all that came.
        online: the number of requests that were answered online.
        deletes: whether files can be deleted.
    """

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], dict[str, Any]] = answer
        self.fate: Callable[[Batch], Fate] = lambda batch: "completed"
        self.result: Callable[[Batch, str, int], bytes | None] = lambda batch, id, times: None
        self.fault: Callable[[str, str, int], int | str | None] = lambda method, path, times: None
        self.delay: Callable[[], float] = lambda: 0.0
        self.page = 2
        self.deletes = True
        self.stages: tuple[str, ...] = STAGES
        self.batches: list[Batch] = []
        self.files: dict[str, File] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.online = 0
        self.changed = threading.Condition(threading.RLock())
        self._names = itertools.count(1)
        self._times: Counter[str] = Counter()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def forget(self) -> None:
        """Begin anew, as a server that has nothing."""
        with self.changed:
            self.batches, self.files, self.requests, self.online = [], {}, [], 0
            self._times.clear()

    def twice(self) -> list[str]:
        """Return what was submitted more than once: keys of batches, and requests whose first result was an answer."""
        found = [key for key, times in Counter(batch.key for batch in self.batches).items() if times > 1]
        answered: set[str] = set()
        for batch in self.batches:
            found += [id for id in batch.requests if id in answered]
            if batch.output is not None and batch.output in self.files:
                answered |= {json.loads(row)["custom_id"] for row in self.files[batch.output].content.splitlines()}
        return found

    # -- what comes in, with the lock held

    def handle(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        """Do what a request asks for, and return status and body."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match (method, *parts.path.removeprefix("/v1/").split("/")):
            case ("GET", "models"):
                return 200, {"object": "list", "data": []}
            case ("POST", "chat", "completions") | ("POST", "embeddings"):
                self.online += 1
                return 200, self.answer(json.loads(body))
            case ("POST", "files"):
                return 200, self._shown(self._upload(body, headers["content-type"]))
            case ("GET", "files"):
                return 200, self._list([self._shown(file) for file in self.files.values()], query)
            case ("GET", "files", id, "content") if id in self.files:
                return 200, self.files[id].content
            case ("DELETE", "files", id) if id in self.files and self.deletes:
                del self.files[id]
                return 200, {"id": id, "deleted": True, "object": "file"}
            case ("POST", "batches"):
                return self._submit(json.loads(body))
            case ("GET", "batches"):
                return 200, self._list([self._state(batch) for batch in self.batches], query)
            case ("GET", "batches", id) if batch := self._batch(id):
                self._go_on(batch)
                return 200, self._state(batch)
            case ("POST", "batches", id, "cancel") if batch := self._batch(id):
                if batch.status in STAGES:
                    batch.fate, batch.status = "cancelled", "cancelling"
                return 200, self._state(batch)
            case _:
                pass
        return 404, {"error": {"message": f"no {method} {path}", "type": "invalid_request_error"}}

    def _upload(self, body: bytes, kind: str) -> File:
        message = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body, policy=HTTP)
        fields = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
        assert fields["purpose"].get_content().strip() == "batch"
        return self._file(str(fields["file"].get_filename()), fields["file"].get_payload(decode=True))

    def _file(self, name: str, content: Any, purpose: str = "batch") -> File:
        file = File(f"file-{next(self._names)}", name, bytes(content), purpose)
        self.files[file.id] = file
        return file

    def _submit(self, asked: dict[str, Any]) -> tuple[int, Any]:
        file = self.files.get(asked["input_file_id"])
        if file is None or asked["completion_window"] != "24h":
            return 400, {"error": {"message": "no such file", "type": "invalid_request_error"}}
        rows = [json.loads(row) for row in file.content.splitlines()]
        requests = {row["custom_id"]: row for row in rows}
        assert len(requests) == len(rows), "an id appears twice"
        assert {row["url"] for row in rows} == {asked["endpoint"]}
        assert len({row["body"]["model"] for row in rows}) == 1, "a batch has one model"
        key = (asked.get("metadata") or {}).get("sim_batch", "")
        number = len(self.batches)
        batch = Batch(number, f"batch-{next(self._names)}", key, asked["endpoint"], file.id, requests)
        self.batches.append(batch)
        batch.stages = self.stages
        batch.fate = self.fate(batch)
        return 200, self._state(batch)

    def _go_on(self, batch: Batch) -> None:
        if batch.status not in (*STAGES, "cancelling"):
            return
        batch.looks += 1
        if batch.status == "cancelling":
            self._end(batch)
        elif batch.fate == "failed" and batch.looks > 1:
            batch.status = "failed"
        elif batch.looks > len(batch.stages):
            self._end(batch)
        else:
            batch.status = batch.stages[batch.looks - 1]

    def _end(self, batch: Batch) -> None:
        """Make the files of results. A batch that was cancelled or has expired has answered every other request."""
        batch.status = batch.fate
        answers: list[bytes] = []
        errors: list[bytes] = []
        for place, (id, row) in enumerate(batch.requests.items()):
            special = self.result(batch, id, self._times[id])
            self._times[id] += 1
            if special is not None:
                (answers if b'"status_code": 200' in special else errors).append(special)
            elif batch.fate == "completed" or place % 2:
                answers.append(line(id, self.answer(row["body"])))
            else:
                errors.append(failed_line(id, f"batch_{batch.fate}"))
        if answers:
            batch.output = self._file("output", b"\n".join(reversed(answers)) + b"\n", "batch_output").id
        if errors:
            batch.error = self._file("errors", b"\n".join(errors) + b"\n", "batch_output").id

    def _batch(self, id: str) -> Batch | None:
        return next((batch for batch in self.batches if batch.id == id), None)

    def _state(self, batch: Batch) -> dict[str, Any]:
        errors = {"object": "list", "data": batch.errors} if batch.status == "failed" else None
        return {
            "id": batch.id, "object": "batch", "endpoint": batch.endpoint, "input_file_id": batch.file,
            "completion_window": "24h", "status": batch.status, "created_at": 1_700_000_000 + batch.number,
            "output_file_id": batch.output, "error_file_id": batch.error, "errors": errors,
            "metadata": {"sim_batch": batch.key}, "request_counts": {"total": len(batch.requests)},
        }  # fmt: skip

    def _shown(self, file: File) -> dict[str, Any]:
        return {"id": file.id, "object": "file", "bytes": len(file.content), "created_at": 1, "filename": file.name,
                "purpose": file.purpose, "status": "processed"}  # fmt: skip

    def _list(self, objects: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        objects = [one for one in reversed(objects) if one.get("purpose") == query.get("purpose", one.get("purpose"))]
        ids = [one["id"] for one in objects]
        start = ids.index(query["after"]) + 1 if "after" in query else 0
        most = min(self.page, int(query.get("limit", self.page)))
        return {"object": "list", "data": objects[start : start + most], "has_more": start + most < len(objects)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet; otherwise each response takes 40 ms

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        mine = server.mine
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        place = re.sub(r"(file|batch)-\d+", "ID", urlsplit(self.path).path)
        with mine.changed:
            times = mine.requests.count((self.command, place))
            mine.requests.append((self.command, place))
            mine.headers.append(headers)
            fault = mine.fault(self.command, place, times)
            status, value = (0, None)
            if fault is None or fault == "lost":
                status, value = mine.handle(self.command, self.path, body, headers)
            elif isinstance(fault, int):
                status, value = fault, {"error": {"message": f"told to, {_KEY}", "type": "told"}}
            mine.changed.notify_all()
            delay = mine.delay() if place.endswith(("completions", "embeddings")) else 0.0
        time.sleep(delay)
        if isinstance(fault, str):
            self.close_connection = True
            return
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if isinstance(value, bytes) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, mine: BatchServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mine = mine

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no error here."""

"""Tools of MCP servers: real servers over pipes and over HTTP, and servers that fail in every way."""

import hashlib
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from sim.base.errors import UsageError
from sim.tools.mcp import LONGEST_TEXT, McpClient, McpError, McpServer, McpTool
from tests.tools.processes import processes_with, wait_for

pytest.importorskip("mcp", reason="the extra mcp is not installed")

# An answer that is cut off leaves generators of the HTTP library behind, which nobody else can close.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")

SDK_SERVER = '''
import os, sys
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image

server = MCPServer("test")
calls = 0

@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@server.tool()
def count() -> str:
    """Count the calls of this process."""
    global calls
    calls += 1
    return f"call {calls}"

@server.tool()
def long(length: int) -> str:
    return "z" * length

@server.tool()
def picture() -> Image:
    return Image(data=b"\\x89PNG\\x00", format="png")

@server.tool()
def fail() -> str:
    raise ToolError("it does not work\\nreally \\x1b[31m")

@server.tool()
def environment() -> str:
    return ",".join(sorted(os.environ))

@server.tool()
def place() -> str:
    return os.getcwd() + ":" + ",".join(os.listdir())

if sys.argv[1:]:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
'''

RAW_SERVER = """
import json, os, sys, time
def send(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
def answer(result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    if method == "initialize":
        about = {"name": "raw", "version": "1"}
        answer({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about})
    elif method == "tools/list":
        LIST
    elif method == "tools/call":
        CALL
    elif "id" in request:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}})
"""
FLOOD = "sys.stdout.write((json.dumps({{'jsonrpc': '2.0', {}}}) + '\\n') * 20_000)"
GOOD_LIST = 'answer({"tools": [{"name": "t", "description": "d" * 9999, "inputSchema": {"type": "object"}}]})'
GOOD_CALL = 'answer({"content": [{"type": "text", "text": "good"}]})'


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each event loop in turn."""
    return str(request.param)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that do not end by themselves are ended sooner."""
    monkeypatch.setattr("sim.tools.mcp_transport._GRACE", 0.2)


one_backend = pytest.mark.parametrize(
    "backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)], indirect=True
)
"""For tests whose servers take long to start: the other event loop is a proof."""


def raw(call: str = GOOD_CALL, tools: str = GOOD_LIST, *, timeout: float = 20) -> McpServer:
    """Return a server without the SDK that does `call` for each call of a tool."""
    text = RAW_SERVER.replace("        CALL", "\n".join(f"        {line}" for line in call.splitlines()))
    return McpServer("raw", [sys.executable, "-c", text.replace("LIST", tools)], timeout=timeout)


def use(server: McpServer, work: Callable[[McpClient], Awaitable[Any]], backend: str = "asyncio") -> Any:
    """Return what `work` returns with a client of `server`."""

    async def main() -> Any:
        async with McpClient(server) as client:
            return await work(client)

    return anyio.run(main, backend=backend)


def call(client: McpClient, tool: str = "t", **arguments: Any) -> Awaitable[Any]:
    """Call a tool as its effect does."""
    effect = client.effect(tool, arguments)
    return client.call(effect.request, "key")


def failure(server: McpServer, backend: str = "asyncio") -> str:
    """Return the sentence with which a call fails."""
    with pytest.raises(McpError) as caught:
        use(server, call, backend)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 500
    return text


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server written with the SDK."""
    path = tmp_path_factory.mktemp("server") / "server.py"
    path.write_text(SDK_SERVER)
    return path


@contextmanager
def running(script: Path, port: int) -> Iterator[None]:
    """Run the server of the SDK over HTTP."""
    with subprocess.Popen(
        [sys.executable, str(script), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(lambda: answers(port), 40)
            yield
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Tell whether something listens at `port` of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def address(script: Path) -> Iterator[str]:
    """The address of a running HTTP server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(script, port):
        yield f"http://127.0.0.1:{port}/mcp"


async def everything(client: McpClient) -> dict[str, Any]:
    """Use all tools of the server of the SDK."""
    tools = await client.tools()
    found: dict[str, Any] = {
        "tools": tools,
        "add": await call(client, "add", a=1, b=2),
        "counts": [(await call(client, "count"))["text"] for _ in range(2)],
        "long": await call(client, "long", length=LONGEST_TEXT + 5),
        "picture": (await call(client, "picture"))["text"],
        "environment": (await call(client, "environment"))["text"],
        "place": (await call(client, "place"))["text"],
    }
    for tool, arguments in (("fail", {}), ("add", {"a": "x"}), ("missing", {}), ("long", {"length": 9_000_000})):
        with pytest.raises(McpError) as caught:
            await call(client, tool, **arguments)
        found[f"{tool}{len(arguments)}"] = str(caught.value)
    return found


def check(found: dict[str, Any]) -> None:
    """Assert what both kinds of server must give."""
    tools = {tool.name: tool for tool in found["tools"]}
    assert all(isinstance(tool, McpTool) for tool in tools.values())
    assert tools["add"].description == "Add two numbers."
    assert tools["add"].parameters["properties"]["a"]["type"] == "integer"
    three = {"text": "3", "truncated": False, "characters": 1, "sha256": hashlib.sha256(b"3").hexdigest()}
    assert found["add"] == three
    whole = "z" * (LONGEST_TEXT + 5)
    assert found["long"] == {
        "text": "z" * LONGEST_TEXT, "truncated": True, "characters": len(whole),
        "sha256": hashlib.sha256(whole.encode()).hexdigest(),
    }  # fmt: skip
    digest = hashlib.sha256(b"\x89PNG\x00").hexdigest()
    assert found["picture"] == f"[image/png, 5 bytes, sha256 {digest}]"
    assert "reports an error: " in found["fail0"]
    assert "it does not work" in found["fail0"]
    assert "more than 8388608 bytes" in found["long1"]
    assert all(found[name].isprintable() for name in ("fail0", "add1", "missing0"))


@pytest.mark.slow
@one_backend
def test_a_server_over_pipes(script, backend, monkeypatch):
    """Tools of a server over pipes are listed and called. It keeps its state, inherits no variable, and starts in an
    empty folder, though its file is named as it is seen from here.
    """
    monkeypatch.setenv("SIM_TEST_KEY", "canary")
    monkeypatch.chdir(script.parent)
    (script.parent / ".env").write_text("KEY=canary")
    found = use(McpServer("notes", [sys.executable, script.name], environment={"GIVEN": "1"}), everything, backend)
    check(found)
    place, _, content = found["place"].partition(":")
    assert not content
    assert not Path(place).exists()  # it was removed
    assert found["counts"] == ["call 1", "call 2"]
    assert set(found["environment"].split(",")) - {"LC_CTYPE"} == {"GIVEN"}


def test_a_server_over_http(address, backend):
    """The same over HTTP on this machine."""
    check(use(McpServer("notes", url=address), everything, backend))


@pytest.mark.slow
@one_backend
def test_an_http_server_that_dies(script, backend):
    """When a server over HTTP has gone, each call is a failed call; when it is back, calls work again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def around(client: McpClient) -> tuple[str, str]:
        with running(script, port):
            await call(client, "add", a=1, b=2)
        with pytest.raises(McpError) as caught:
            await call(client, "add", a=1, b=2)
        with running(script, port):
            with suppress(McpError):  # the server does not know the session of the one before
                await call(client, "add", a=1, b=2)
            return str(caught.value), (await call(client, "add", a=1, b=2))["text"]

    said, text = use(McpServer("notes", url=f"http://127.0.0.1:{port}/mcp", timeout=10), around, backend)
    assert said == "the call of 'add' failed on the MCP server notes: it cannot be reached (ConnectError)"
    assert text == "3"


def test_a_list_is_an_effect_of_json(backend):
    """The list of tools can be recorded, and a long description is cut."""
    server = raw()

    async def listed(client: McpClient) -> Any:
        effect = client.listing(latency_ns=0)
        assert (effect.kind, effect.safety, effect.request) == ("tool.mcp.list", "pure", {"server": "raw"})
        return await client.list(effect.request, "key")

    assert use(server, listed, backend) == [{"name": "t", "description": "d" * 4000, "parameters": {"type": "object"}}]


def test_calls_are_unsafe_unless_declared():
    """A call must not be repeated, except if the operator has declared its tool."""
    client = McpClient(McpServer("notes", ["x"], safety={"search": "pure"}))
    effect = client.effect("search", {"q": "tea"}, latency_ns=7)
    assert (effect.kind, effect.safety, effect.latency_ns) == ("tool.mcp", "pure", 7)
    assert effect.request == {"server": "notes", "tool": "search", "arguments": {"q": "tea"}}
    assert client.effect("delete", {}).safety == "unsafe"


def test_a_listed_tool_becomes_a_tool_of_agents(backend):
    """A tool of a server can be offered to models; a schema that is not understood here is left to the server."""

    async def offered(client: McpClient) -> tuple[Any, Any]:
        tool = client.as_tool((await client.tools())[0], latency="2s")
        effect = tool.effect({"x": 1})
        return tool, await effect.call(effect.request, "key")

    tool, answer = use(raw(), offered, backend)
    assert (tool.name, tool.runs, tool.safety, tool.parameters) == ("raw.t", "effect", "unsafe", {"type": "object"})
    assert answer == "good"
    client = McpClient(McpServer("notes", ["x"], safety={"search": "pure"}))
    odd = client.as_tool(McpTool("search", "", {"type": "object", "properties": 5}))
    assert (odd.parameters["type"], odd.safety) == ("object", "pure")
    with pytest.raises(UsageError, match="is not the name of a tool"):
        client.as_tool(McpTool("a b", "", {"type": "object"}))


# -- servers that fail


def test_a_server_that_dies(backend):
    """A server that ends during a call is a failed call that says how it ended; the next call starts it again."""
    server = raw("sys.stderr.write('first\\nthe disk is gone\\n')\nsys.stderr.flush()\nos._exit(3)")

    async def twice(client: McpClient) -> list[str]:
        said = []
        for _ in range(2):
            with pytest.raises(McpError) as caught:
                await call(client)
            said.append(str(caught.value))
        return said

    sentence = "the call of 't' failed on the MCP server raw: it ended with exit code 3: the disk is gone"
    assert use(server, twice, backend) == [sentence, sentence]


def test_a_server_that_does_not_start(backend):
    """A program that is missing or ends at once is a failed call."""
    assert "No such file" in failure(McpServer("raw", ["/no/such/program"]), backend)
    text = failure(McpServer("raw", [sys.executable, "-c", "raise SystemExit('no licence')"]), backend)
    assert text == "the MCP server raw cannot be used: it ended with exit code 1: no licence"


def test_a_server_that_says_nothing(backend, impatient):
    """A program that does not answer in time at its start is a failed call."""
    silent = McpServer("raw", [sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.5)
    assert failure(silent, backend) == "the MCP server raw cannot be used: it did not start in 0.5 seconds"


def test_a_server_that_hangs(backend):
    """A call without an answer ends at the time limit; another one is not affected."""

    async def slow_and_fast(client: McpClient) -> str:
        with pytest.raises(McpError, match="no answer in 1 seconds"):
            await call(client)
        return str((await client.tools())[0].name)

    assert use(raw("pass", timeout=1), slow_and_fast, backend) == "t"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("sys.stdout.buffer.write(os.urandom(10_000_000).replace(b'\\n', b''))\nsys.stdout.flush()", "8388608 bytes"),
        ("while True: sys.stdout.write('x' * 65536)", "more than 8388608 bytes"),
        ("while True: print('a line that is no message')", "something other than messages"),
        ("sys.stdout.buffer.write(b'\\xff\\n' * 50)\nsys.stdout.flush()", "something other than messages"),
        ("answer({'content': [{'type': 'text', 'text': 5}]})", "validation error"),
        ("answer({'content': [{'type': 'strange'}]})", "validation error"),
        ("answer(None)", "a message that cannot be parsed: {"),
        ("print('{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"content\": [', flush=True)", "cannot be parsed"),
        (FLOOD.format("'method': 'notifications/message', 'params': {}"), "more than 5,000 messages"),
        (FLOOD.format("'id': 'x', 'result': {}"), "more than 5,000 messages"),
        ("while True: sys.stdout.write('\\n' * 65536)", "or 67,108,864 bytes at once"),
        ("answer({'content': [{'type': 'image', 'data': '%%%', 'mimeType': 'x'}]})", "failed on the MCP server raw"),
        (
            "send({'jsonrpc': '2.0', 'id': request['id'], 'error': {'code': 1, 'message': 'b\\x07ad ' * 999}})",
            "b\\x07ad",
        ),
        ("answer({'isError': True, 'content': [{'type': 'text', 'text': 'no file'}]})", "reports an error: no file"),
        ("os.close(1)\ntime.sleep(60)", "it closed its output"),
    ],
    ids=range(15),
)  # fmt: skip
def test_bad_answers_are_failed_calls(answer, sentence, impatient):
    """Huge, binary, endless, invalid and failed answers, and floods of other messages, are each one printable sentence,
    and end the call long before its time is over.
    """
    assert sentence in failure(raw(answer, timeout=100))


def test_stray_lines_do_no_harm():
    """A few lines that are no messages, such as those of a forgotten print, are ignored."""
    assert use(raw("print('hello'); print(); " + GOOD_CALL), call)["text"] == "good"


def test_structured_answers_are_json():
    """An answer without text is its structured content, as canonical JSON."""
    assert (
        use(raw("answer({'content': [], 'structuredContent': {'b': 1, 'a': [2]}})"), call)["text"] == '{"a":[2],"b":1}'
    )


def test_endless_lists_end():
    """A server that always has another page of tools is given up."""
    page = '[{"name": f"t{i}", "inputSchema": {"type": "object"}} for i in range(300)]'
    pages = f'answer({{"tools": {page}, "nextCursor": "next"}})'

    async def tools(client: McpClient) -> None:
        await client.tools()

    with pytest.raises(McpError, match="more than 1000 tools"):
        use(raw(tools=pages), tools)


def test_what_a_server_asks_for_is_refused():
    """A server cannot use the model, the files or the person behind the run."""
    asked = (
        "params = {'messages': [], 'maxTokens': 5}\n"
        "send({'jsonrpc': '2.0', 'id': 'x', 'method': 'sampling/createMessage', 'params': params})\n"
        "reply = json.loads(sys.stdin.readline())\n"
        "answer({'content': [{'type': 'text', 'text': 'refused' if 'error' in reply else 'given'}]})"
    )
    assert use(raw(asked), call)["text"] == "refused"


# -- the end of a server


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_a_stubborn_server_is_ended_with_its_children(backend, impatient):
    """A server that ignores the end of its input and SIGTERM is killed at the end of the run, with its children."""
    token = uuid.uuid4().hex
    start = (
        "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{token}'])\n"
    )
    server = raw()
    program = (
        server.arguments[2].replace("for line in sys.stdin", f"{start}for line in sys.stdin") + "\ntime.sleep(600)\n"
    )
    server = McpServer("raw", [sys.executable, "-c", program, token])

    async def count(client: McpClient) -> int:
        await call(client)
        return len(processes_with(token))

    assert use(server, count, backend) == 2
    wait_for(lambda: processes_with(token) == [], 3)  # the kernel needs a moment to end what was killed


def test_a_cancelled_call_leaves_the_server_usable(backend):
    """A call that is cancelled does not disturb later calls."""
    server = raw("time.sleep(float(request['params']['arguments']['seconds']))\n" + GOOD_CALL)

    async def cancelled(client: McpClient) -> str:
        await call(client, seconds=0)
        with anyio.move_on_after(0.2):
            await call(client, seconds=0.5)
        return str((await call(client, seconds=0))["text"])

    assert use(server, cancelled, backend) == "good"


def test_a_failing_server_does_not_end_the_run(backend):
    """What happens in a connection never raises outside the call."""

    async def outlive(client: McpClient) -> str:
        for _ in range(3):
            with pytest.raises(McpError):
                await call(client)
        await anyio.sleep(0.1)
        return "alive"

    assert use(raw("os._exit(1)"), outlive, backend) == "alive"


def test_a_client_works_in_its_block_only():
    """Before and after the block, nothing is started."""

    async def outside() -> None:
        client = McpClient(raw())
        with pytest.raises(UsageError, match="`async with`"):
            await call(client)
        async with client:
            assert (await call(client))["text"] == "good"
        with pytest.raises(UsageError, match="`async with`"):
            await call(client)

    anyio.run(outside)


# -- what the operator may write


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/mcp", "https://127.0.0.1/mcp", "http://127.0.0.1.example.org/", "http://169.254.169.254/",
        "http://0.0.0.0:80/", "http://10.0.0.1/", "http://[fe80::1]/", "http://user:key@127.0.0.1/", "http://2130706433/",
        "ftp://127.0.0.1/", "file:///etc/passwd", "http://localhost.example.org/", "http://127.0.0.1:99999/", "http://",
        "127.0.0.1:80", "http://127.0.0.1@example.org/", "http://127.0.0.1\\@example.org/", "http://127.0.0.1/\n",
    ],
)  # fmt: skip
def test_other_machines_are_refused(url):
    """Only addresses of this machine can be given, whatever they are disguised as."""
    with pytest.raises(UsageError, match="must be on this machine"):
        McpServer("x", url=url)


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/mcp", "http://localhost/mcp", "http://[::1]:9/", "http://127.3.2.1/"]
)
def test_addresses_of_this_machine_are_accepted(url):
    """Loopback addresses in each form can be given."""
    assert McpServer("x", url=url).url == url


def test_settings_are_checked():
    """A server needs a plain name, and either a program or an address; a line for a shell is refused."""
    for wrong in ("", "Notes", "a b", "../x", "é", "a" * 33):
        with pytest.raises(UsageError, match="the name"):
            McpServer(wrong, ["x"])
    for arguments, url in (((), None), (("x",), "http://127.0.0.1/")):
        with pytest.raises(UsageError, match="either"):
            McpServer("x", arguments, url=url)
    for line in ("server --quiet", [1], ["a\0"], None):
        with pytest.raises(UsageError, match="a list of texts"):
            McpServer("x", line)
    with pytest.raises(UsageError, match="timeout"):
        McpServer("x", ["y"], timeout=0)
    with pytest.raises(UsageError, match="does not exist"):
        McpServer("x", ["y"], folder="/missing")
    with pytest.raises(UsageError, match="no program starts"):
        McpServer("x", url="http://127.0.0.1/", folder="/")


def test_keys_are_not_shown():
    """The environment of a server, which may hold keys, is not in its representation."""
    assert "canary" not in repr(McpServer("x", ["y"], environment={"KEY": "canary"}))


def test_redirects_to_another_place_are_not_followed(backend):
    """A server on this machine cannot send a call elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as target, socket.create_server(("127.0.0.1", 0)) as server:
        elsewhere = f"http://127.0.0.1:{target.getsockname()[1]}/"
        port = server.getsockname()[1]
        answer = f"HTTP/1.1 307 Elsewhere\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        target.settimeout(0.3)
        with answering(server, answer.encode()):
            assert "cannot be used" in failure(McpServer("x", url=f"http://127.0.0.1:{port}/mcp"), backend)
        with pytest.raises(TimeoutError):
            target.accept()


@pytest.mark.parametrize(
    "head", ["Content-Type: application/json\r\n", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"]
)
def test_endless_answers_over_http_are_cut_off(head):
    """An endless or a compressed answer over HTTP is a failed call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with answering(server, f"HTTP/1.1 200 OK\r\n{head}\r\n".encode(), endless=True):
            assert "cannot be used" in failure(McpServer("x", url=f"http://127.0.0.1:{port}/mcp", timeout=20))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("application/json", b'{"jsonrpc": "2.0", "id": "other", "result": {}}', "other than the answer"),
        ("application/json", b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}', "other than the"),
        ("application/json", b"{nonsense", "Invalid JSON"),
        ("text/event-stream", b"data: {nonsense\n\n", "Invalid JSON"),
        ("text/event-stream", b'data: {"jsonrpc": "2.0", "method": "notifications/x"}\n\n' * 20_000, "5,000 messages"),
    ],
    ids=range(5),
)
def test_bad_answers_over_http_are_failed_calls(kind, body, sentence):
    """What is no answer, and floods of other messages, end a call over HTTP long before its time is over."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/mcp"
        with answering(server, head.encode() + body):
            assert sentence in failure(McpServer("x", url=url, timeout=100))


@contextmanager
def answering(server: socket.socket, answer: bytes, *, endless: bool = False) -> Iterator[None]:
    """Answer every connection in the same way, in a thread."""
    over = False

    def serve() -> None:
        while not over:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection, suppress(OSError):
                connection.settimeout(60)
                connection.recv(65536)
                connection.sendall(answer)
                while endless and not over:
                    connection.sendall(b" " * 2**20)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # with a request that is not read, the client would lose the answer
                    pass

    server.settimeout(0.1)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over = True
        thread.join(60)


@pytest.mark.slow
def test_without_the_extra_one_sentence_says_so():
    """Where the package mcp is not installed, the first use says how to get it, and nothing else needs it."""
    program = (
        "import sys, anyio\nsys.modules['mcp'] = None\nimport sim.tools.mcp as m\n"
        "from sim.base.errors import UsageError\n"
        "async def main():\n"
        "    async with m.McpClient(m.McpServer('x', ['y'])) as client:\n        await client.tools()\n"
        "try:\n    anyio.run(main)\nexcept UsageError as error:\n    print(error, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "MCP servers need the package mcp install it: pip install 'actor-sim[mcp]'\n", done.stderr


@pytest.mark.slow
def test_nothing_is_imported_before_the_first_use():
    """`import sim` and the module of the settings do not import the package mcp."""
    program = "import sys, sim, sim.tools.mcp, sim.tools.process\nprint('mcp' in sys.modules, 'trio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"

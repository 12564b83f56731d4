"""Edge: tools of MCP servers (Model Context Protocol), as effects.

The operator names the servers. A server is started when it is needed for the first time, so a replay starts none. It is
closed at the end of the `async with` block around the run. The package `mcp` is an extra, imported at the first use:
`pip install 'actor-sim[mcp]'`.

    server = McpServer("notes", ["notes-server", "--quiet"], safety={"search": "pure"})
    async with McpClient(server) as notes:
        ...
        outcome = await perform(notes.effect("search", {"text": "tea"}))
        outcome.value["text"]

What a server says is data: it may be wrong or hostile. Answers are bounded and cut with a mark. A failure of any kind
is a failed call with one sentence.
"""

import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import anyio
import anyio.abc
import attrs

from sim.base.errors import SimError, UsageError
from sim.base.extras import need
from sim.base.text import plain
from sim.kernel.codec import JsonObject
from sim.kernel.duration import Duration
from sim.kernel.effects import Effect, Safety
from sim.tools.schema import OPEN
from sim.tools.tool import Tool, injected, without_injected
from sim.world.json_schema import schema_fault

if TYPE_CHECKING:
    from sim.tools.mcp_transport import Connection

KIND = "tool.mcp"
"""The kind of the effect of a call."""

KIND_OF_LIST = "tool.mcp.list"
"""The kind of the effect that lists the tools of a server."""

LONGEST_TEXT = 2**20
"""Characters of an answer that are kept."""

LONGEST_DESCRIPTION = 4000
"""Characters of the description of a tool that are kept, because it is sent with each call of a model."""

MOST_TOOLS = 1000
"""Tools of one server."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_SENTENCE = 300
"""Characters of a server's own words in an error."""


class McpError(SimError):
    """A call of an MCP server failed. The message is one sentence."""


def _arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) and "\0" not in part for part in value):
        raise UsageError("the arguments of an MCP server must be a list of texts", hint='write ["server", "--option"]')
    return tuple(value)


@attrs.frozen
class McpServer:
    """An MCP server that the operator allows.

    Args:
        name: the name that agents use for it: small letters, digits and underscores.
        arguments: the program and its arguments, for a server on standard input and output. No shell is used.
        url: the address of a server over HTTP. It must be on this machine.
        environment: the environment of the program. It inherits nothing.
        folder: the folder in which the program starts; None: an empty one, which is removed when it ends, as programs
            read settings and keys where they start. An argument that names a file or a folder, as `tools/server.py`
            does, is a path relative to the folder of this process.
        timeout: real seconds for the start, and for each call.
        safety: by tool, whether a call can be repeated. A tool that is not named is `unsafe`.

    Raises:
        UsageError: if the name is not valid, there is not exactly one of `arguments` and `url`, or the url leads to
            another machine.
    """

    name: str
    arguments: tuple[str, ...] = attrs.field(default=(), converter=_arguments)
    url: str | None = attrs.field(default=None, kw_only=True)
    environment: Mapping[str, str] = attrs.field(factory=dict, kw_only=True, repr=False)  # it may hold keys
    folder: str | PathLike[str] | None = attrs.field(default=None, kw_only=True)
    timeout: float = attrs.field(default=60.0, kw_only=True)
    safety: Mapping[str, Safety] = attrs.field(factory=dict, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_server_name(self.name)
        if bool(self.arguments) == bool(self.url):
            raise UsageError(f"the MCP server {self.name} needs either the arguments of a program or a url")
        if not 0 < self.timeout < 1e6:
            raise UsageError(f"the timeout of the MCP server {self.name} must be a number of seconds")
        if self.url is not None:
            _check_loopback(self.url)
            if self.folder is not None:
                raise UsageError(f"the MCP server {self.name} has an address, so no program starts in a folder")
        if self.folder is not None and not Path(self.folder).is_dir():
            raise UsageError(f"the folder {self.folder} of the MCP server {self.name} does not exist")


def check_server_name(name: str) -> None:
    """Check the name of a server.

    Raises:
        UsageError: if it is not valid, or `world`, which is the module of actions.
    """
    if not _NAME.fullmatch(name) or name == "world":
        raise UsageError(
            "the name of an MCP server must be at most 32 small letters, digits and underscores, and other than world,"
            f" not {name!r:.80}"
        )


def _check_loopback(url: str) -> None:
    """Refuse an address that is not on this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = False
    if not here or parts.scheme != "http" or "@" in parts.netloc or not url.isprintable():
        raise UsageError(
            "an MCP server over HTTP must be on this machine, without a password in its address",
            hint="use an address such as http://127.0.0.1:8000/mcp",
        )


@attrs.frozen
class McpTool:
    """A tool of a server, as the server describes it.

    Args:
        name: its name on the server.
        description: what it does, in the words of the server: untrusted text.
        parameters: the JSON Schema of its arguments.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


class McpClient:
    """The connection of a run to one server. Use it as `async with` around the run.

    Args:
        server: the server.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._group: anyio.abc.TaskGroup | None = None
        self._connection: Connection | None = None
        self._starting = anyio.Lock()

    async def __aenter__(self) -> Self:
        group = anyio.create_task_group()
        await group.__aenter__()
        self._group = group
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection, and end the server with everything in its process group."""
        group, self._group, self._connection = self._group, None, None
        assert group is not None, "entered before"
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)

    # -- effects

    @property
    def _timeout(self) -> float:
        """The real seconds that an effect may take: a start, a call, and 5 s, so that their own errors come first."""
        return 2 * self.server.timeout + 5

    def effect(self, tool: str, arguments: JsonObject, *, latency_ns: int | None = None) -> Effect:
        """Return the effect that calls a tool.

        Args:
            tool: the name of the tool on the server.
            arguments: its arguments, a JSON object.
            latency_ns: its duration in simulated nanoseconds, or None: the duration in real time.
        """
        request = {"server": self.server.name, "tool": tool, "arguments": dict(arguments)}
        safety = self.server.safety.get(tool, "unsafe")
        return Effect(KIND, request, self.call, latency_ns=latency_ns, timeout=self._timeout, safety=safety)

    def listing(self, *, latency_ns: int | None = None) -> Effect:
        """Return the effect that lists the tools. It is recorded, so a replay knows the tools without the server."""
        request = {"server": self.server.name}
        return Effect(KIND_OF_LIST, request, self.list, latency_ns=latency_ns, timeout=self._timeout, safety="pure")

    def as_tool(self, listed: McpTool, *, latency: Duration | None = None) -> Tool:
        """Return a tool of the server as a tool that agents and their models can call, named `server.tool`.

        If its schema cannot be checked here, every JSON object is accepted, and only the server checks it.

        Args:
            listed: the tool as the server lists it.
            latency: the simulated duration of a call; None: the duration in real time.

        Raises:
            UsageError: if its name is not one that models can call.
        """

        async def call(arguments: JsonObject) -> str:
            return await self.text_of(listed.name, arguments)

        name = f"{self.server.name}.{listed.name}"
        valid = schema_fault(listed.parameters) is None
        parameters, filled_in = without_injected(name, listed.parameters if valid else OPEN)
        closed = valid and parameters.get("additionalProperties") is False
        return Tool(
            name,
            call,
            listed.description,
            parameters,
            filled_in,
            dropped=None if closed else injected(name),
            safety=self.server.safety.get(listed.name, "unsafe"),
            latency=latency,
            timeout=self._timeout,
        )

    # -- the calls of the effects

    async def call(self, request: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Call a tool and return its answer.

        Args:
            request: `tool` and `arguments`.
            key: the idempotency key of the effect. The protocol has no place for it.

        Returns:
            `text`: the answer, in which images and other bytes are replaced by their type, size and hash; `truncated`,
            and `characters` and `sha256` of the whole.

        Raises:
            McpError: if the server cannot be started, is too slow, breaks the protocol, or reports an error.
        """
        tool = request["tool"]
        connection = await self._connected()
        with self._failures(connection, f"the call of {tool!r}"):
            with anyio.fail_after(self.server.timeout):
                failed, text = await connection.call(tool, dict(request["arguments"]))
        if failed:
            raise McpError(f"the tool {tool!r} of the MCP server {self.server.name} reports an error: {_words(text)}")
        data = text.encode(errors="replace")
        return {
            "text": text[:LONGEST_TEXT].encode(errors="replace").decode(),
            "truncated": len(text) > LONGEST_TEXT,
            "characters": len(text),
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    async def text_of(self, tool: str, arguments: JsonObject) -> str:
        """Call a tool and return the text of its answer, with a mark at its end if it was cut.

        Raises:
            McpError: as for `call`.
        """
        answer = await self.call({"tool": tool, "arguments": arguments}, "")
        more = answer["characters"] - LONGEST_TEXT
        return f"{answer['text']}\n... [cut: {more} more characters]" if answer["truncated"] else str(answer["text"])

    async def list(self, request: JsonObject, key: str) -> Sequence[Mapping[str, Any]]:
        """Return the tools of the server, each with the attributes of `McpTool` by name.

        Raises:
            McpError: as for `call`.
        """
        connection = await self._connected()
        with self._failures(connection, "the list of its tools"):
            with anyio.fail_after(self.server.timeout):
                tools = await connection.tools(MOST_TOOLS)
        return [
            attrs.asdict(McpTool(name, description[:LONGEST_DESCRIPTION], parameters), recurse=False)
            for name, description, parameters in tools
        ]

    async def tools(self) -> tuple[McpTool, ...]:
        """Return the tools of the server, outside a run.

        Raises:
            McpError: as for `call`.
        """
        return tuple(McpTool(**tool) for tool in await self.list({}, ""))

    # -- the connection

    async def _connected(self) -> "Connection":
        """Return the connection. Start the server if it does not run, or runs no longer."""
        async with self._starting:
            if self._group is None:
                raise UsageError(f"the MCP server {self.server.name} can be used inside its `async with` block only")
            if self._connection is None or self._connection.ended:
                # Not in a worker thread: asyncio would wait for it without end after a second Ctrl-C.
                self._connection = await self._group.start(load_transport().keep, self.server)
            connection = self._connection
        if connection.ended:
            raise McpError(f"the MCP server {self.server.name} cannot be used: {_words(connection.fault)}")
        return connection

    def _failures(self, connection: "Connection", what: str) -> "_Failures":
        return _Failures(self.server, connection, what)


@attrs.frozen
class _Failures:
    """Turns every error of a call into an `McpError` with one sentence."""

    server: McpServer
    connection: "Connection"
    what: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        where = f"{self.what} failed on the MCP server {self.server.name}"
        if self.connection.ended:
            raise McpError(f"{where}: {_words(self.connection.fault)}") from error
        if isinstance(error, TimeoutError):
            raise McpError(f"{where}: no answer in {self.server.timeout:g} seconds") from error
        raise McpError(f"{where}: {_words(str(error) or type(error).__name__)}") from error


def _words(text: str) -> str:
    """Return untrusted text as part of a sentence: one line, without control characters, cut."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= _SENTENCE else f"{line[:_SENTENCE]}..."


def load_transport() -> ModuleType:
    """Import what speaks with servers. The first time, it takes about a second.

    Raises:
        UsageError: if the package `mcp` is not installed.
    """
    need("mcp", "MCP servers need")
    from sim.tools import mcp_transport

    return mcp_transport

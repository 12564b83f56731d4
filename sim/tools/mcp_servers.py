"""The MCP servers of one run: those that the scenario declares, and those that the operator names.

A scenario declares the tools of a server that it uses, with description, parameters and safety. The operator says what
the server is. So the tools of a world follow from the scenario alone: a file can be checked, and a run replayed,
without any server. Also, models never see a server's own descriptions, which could change between two runs, or try to
instruct them.
"""

import shutil
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Self

from sim.base.errors import UsageError
from sim.kernel.codec import JsonObject
from sim.tools.mcp import McpClient, McpError, McpServer, load_transport


class McpServers:
    """The MCP servers of a run. Use it as `async with` around the run: at its end, no server is left.

    Args:
        servers: those that the operator names. A server is started at its first call.

    Raises:
        UsageError: if two have the same name, or one says which calls are safe.
    """

    def __init__(self, servers: Iterable[McpServer] = ()) -> None:
        self._clients: dict[str, McpClient] = {}
        self._declared: dict[str, None] = {}
        self._stack = AsyncExitStack()
        for server in servers:
            if server.name in self._clients:
                raise UsageError(f"two MCP servers have the name {server.name}")
            if server.safety:  # a replay starts no server, and must know it all the same
                raise UsageError(
                    f"the safety of the tools of the MCP server {server.name} must be declared in the scenario",
                    hint=f"write `safety` below tools.servers.{server.name}.tools",
                )
            self._clients[server.name] = McpClient(server)

    def declare(self, name: str) -> None:
        """Note that the scenario declares tools of a server."""
        self._declared[name] = None

    def check(self) -> None:
        """Check before a run continues live that its servers are those that the scenario declares, and can be started.

        Raises:
            UsageError: if a server is missing, or not declared; or its program, or the package for MCP, is missing.
        """
        for name in self._declared:
            if name not in self._clients:
                raise UsageError(
                    f"the scenario has tools of the MCP server {name}, which the operator must name",
                    hint=f"--mcp {name}=COMMAND, or --mcp {name}=http://127.0.0.1:PORT/mcp",
                )
        for name, client in self._clients.items():
            if name not in self._declared:
                raise UsageError(
                    f"the scenario declares no tools of the MCP server {name}",
                    hint=f"sim info tools --mcp {name}=... prints them as a part of a scenario",
                )
            program = next(iter(client.server.arguments), None)
            if program is not None and shutil.which(program) is None:
                raise UsageError(f"the program {program} of the MCP server {name} does not exist, or is not executable")
        if self._clients:
            load_transport()  # now, so that the run need not wait for it

    async def call(self, server: str, tool: str, arguments: JsonObject) -> str:
        """Call a tool of a server and return its answer.

        Args:
            server: the name of the server.
            tool: the name of the tool on the server.
            arguments: its arguments.

        Raises:
            McpError: if the operator has not named the server, or the call fails; see `McpClient.call`.
        """
        client = self._clients.get(server)
        if client is None:
            raise McpError(f"the operator has not named the MCP server {server} of this run")
        return await client.text_of(tool, arguments)

    async def __aenter__(self) -> Self:
        for client in self._clients.values():
            await self._stack.enter_async_context(client)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

"""`sim info tools`: the tools of MCP servers, as a part of a scenario."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import click

from sim.base.errors import UsageError
from sim.cli.render.output import common, plain, print_json, say
from sim.cli.rights_options import mcp_options, servers_of
from sim.kernel.codec import Json
from sim.tools.mcp import McpClient, McpServer, McpTool
from sim.tools.tool import NAME
from sim.world.json_schema import schema_fault

_LONGEST_SCHEMA = 20_000  # characters; it is sent with each call of a model


@click.command(
    "tools",
    epilog="""Example:

    \b
      sim info tools --mcp notes='notes-server --quiet' --mcp-env notes=HOME""",
)
@mcp_options
@common
def command(mcp: tuple[str, ...], mcp_env: tuple[str, ...], *, as_json: bool) -> int:
    """Print the tools of MCP servers as the part `tools` of a scenario.

    A scenario declares the tools that it uses, so paste from it what you need, and read it first: models follow the
    descriptions, and these are the words of the server.
    """
    servers = servers_of(mcp, mcp_env)
    if not servers:
        raise UsageError("there is no MCP server to ask", hint="name one: --mcp notes=notes-server")
    declared = {server.name: {"tools": _declarations(server.name, anyio.run(_listed, server))} for server in servers}
    if as_json:
        print_json({"tools": {"servers": declared}})
    else:
        _print(declared)
    return 0


async def _listed(server: McpServer) -> tuple[McpTool, ...]:
    async with McpClient(server) as client:
        return await client.tools()


def _declarations(server: str, tools: tuple[McpTool, ...]) -> dict[str, dict[str, Json]]:
    """Return the declarations of tools by name. Warn of those that are left out."""
    declarations: dict[str, dict[str, Json]] = {}
    for tool in tools:
        shown = plain(tool.name[:80])
        if not NAME.fullmatch(f"{server}.{tool.name}"):
            _leave_out(f"the tool {shown!r} of {server}: declare it under another name, with this one as `remote`")
        elif tool.name in declarations:
            _leave_out(f"the second tool {shown!r} of {server}")
        else:
            description = plain(" ".join(tool.description.split()))
            declarations[tool.name] = {"description": description, **_parameters(tool.parameters)}
            if "parameters" not in declarations[tool.name]:
                _leave_out(f"the parameters of {server}.{shown}: only the server can check its arguments")
    return declarations


def _leave_out(what: str) -> None:
    say(f"sim: warning: left out: {what}")


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a declaration; empty if the schema is not one that a declaration can have."""
    parameters = schema.get("properties", {})
    if schema_fault(schema) is not None or "$defs" in schema or len(json.dumps(parameters)) > _LONGEST_SCHEMA:
        return {}
    optional = [name for name in parameters if name not in schema.get("required", ())]
    return {"parameters": _printable(parameters), **({"optional": optional} if optional else {})}


def _printable(value: Any) -> Any:
    """Return JSON-like data with all its texts safe to show, and to be read as YAML."""
    if isinstance(value, Mapping):
        return {plain(name): _printable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(part) for part in value]
    return plain(value) if isinstance(value, str) else value


def _print(servers: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the part `tools` as YAML, in which each value below a tool is JSON on one line."""
    click.echo("tools:\n  servers:")
    for name, server in servers.items():
        click.echo(f"    {name}:\n      tools:{'' if server['tools'] else ' {}'}")
        for tool, declaration in server["tools"].items():
            click.echo(f"        {tool}:")
            for key, value in declaration.items():
                click.echo(f"          {key}: {json.dumps(value, ensure_ascii=False)}")

"""The options with which the operator lets a scenario do what a file cannot allow itself."""

import os
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from sim.base.errors import UsageError
from sim.base.shown import shown_fields
from sim.cli.declared import options_of
from sim.tools.rights import Rights

if TYPE_CHECKING:
    from sim.tools.mcp import McpServer

Command = TypeVar("Command", bound=Callable[..., Any])

REPLAY_RIGHTS = tuple(name for name in shown_fields(Rights) if name != "mcp")
"""The options of rights of a command that replays a run, which starts no MCP server."""

ALLOW = options_of(Rights, "allow")
_MCP_ENV = click.option(
    "--mcp-env",
    multiple=True,
    metavar="NAME=VARIABLE",
    help="An environment variable that the program of an --mcp gets; else it gets none.",
)


def mcp_options(command: Command) -> Command:
    """Add the options of MCP servers to a command."""
    return options_of(Rights, "mcp")(_MCP_ENV(command))


def rights_options(command: Command) -> Command:
    """Add the options of rights to a command, which gets them as one argument `rights`."""
    return options_of(Rights)(_MCP_ENV(_with_rights(command)))


def replay_rights_options(command: Command) -> Command:
    """Do as `rights_options`, for a command that replays a run and so starts no MCP server."""
    return options_of(Rights, *REPLAY_RIGHTS)(_with_rights(command))


def _with_rights(command: Command) -> Command:
    @wraps(command)
    def collected(*arguments: Any, **options: Any) -> Any:
        if "mcp" in options:
            options["mcp"] = servers_of(options["mcp"], options.pop("mcp_env"))
        allowed = {field.name: options.pop(field.name) for field in attrs.fields(Rights) if field.name in options}
        return command(*arguments, rights=Rights(**allowed), **options)

    return collected  # type: ignore[return-value]  # the same but for its options


def servers_of(servers: Iterable[str], variables: Iterable[str]) -> "tuple[McpServer, ...]":
    """Return the MCP servers that the options name.

    Args:
        servers: values of `--mcp`. A command is taken apart as a shell would do it, but no shell is used.
        variables: values of `--mcp-env`.

    Raises:
        UsageError: if a value does not have its form, or a variable is not set.
    """
    places: dict[str, str] = {}
    for text in servers:
        name, place = _parts("--mcp", text, "notes=notes-server")
        if name in places:
            raise UsageError(f"two MCP servers have the name {name}")
        places[name] = place
    environments: dict[str, dict[str, str]] = {name: {} for name in places}
    for text in variables:
        name, variable = _parts("--mcp-env", text, "notes=HOME")
        if name not in places:
            raise UsageError(f"--mcp-env {text!r} is for an MCP server that no --mcp names")
        if variable not in os.environ:
            raise UsageError(f"the environment variable {variable!r} of --mcp-env is not set")
        environments[name][variable] = os.environ[variable]
    return tuple(_server(name, place, environments[name]) for name, place in places.items())


def _parts(option: str, text: str, example: str) -> tuple[str, str]:
    name, _, rest = text.partition("=")
    if not name or not rest.strip():
        raise UsageError(f"{option} needs the form {example.upper()}", hint=f"for example {option} {example}")
    return name, rest.strip()


def _server(name: str, place: str, environment: dict[str, str]) -> "McpServer":
    from sim.tools.mcp import McpServer  # the import is slow

    if place.startswith(("http:", "https:")):
        if environment:
            raise UsageError(f"the MCP server {name} has an address, so no program gets a variable")
        return McpServer(name, url=place)
    try:
        arguments = shlex.split(place)
    except ValueError as error:
        raise UsageError(f"the command of the MCP server {name} cannot be taken apart: {error}") from None
    return McpServer(name, arguments, environment=environment)

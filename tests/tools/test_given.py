"""What only the runtime can say of a call: for whom and where it is made. No caller can forge it."""

from typing import Any

import pytest

import sim
from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.tools.mcp import McpClient, McpServer, McpTool
from sim.tools.mcp_servers import McpServers
from sim.tools.schema import Given
from sim.tools.section import FormulaTool, ServerTool, _formula_tool, _server_tool
from sim.tools.tool import CONTEXT, Tool

TEXT = {"type": "string"}
SENT = dict.fromkeys(CONTEXT, "forged") | {"text": "x"}


def server_tool(name: str = "find", server: str = "notes", **more: Any) -> Tool:
    """Return a tool of an MCP server that a scenario declares."""
    return _server_tool(server, name, ServerTool("x", **more), McpServers())


@pytest.mark.parametrize(
    ("made", "given", "sent"),
    [
        # a closed schema: what it does not declare is dropped, `user_id` is filled in
        (server_tool(parameters={"text": TEXT}), (), {"text"}),
        (server_tool(parameters={"text": TEXT, "user_id": TEXT}), ("user_id",), {"text"}),
        (server_tool(parameters={"text": TEXT, "channel": TEXT}), (), {"text", "channel"}),
        (server_tool(parameters={"text": TEXT, "user_id": TEXT}, given=()), (), {"text", "user_id"}),
        (server_tool(parameters={"text": TEXT}, given=("channel", "user")), ("channel", "user"), {"text"}),
        # any arguments: they can be the server's own, but for what it is given
        (server_tool(), (), {*SENT} - {"user_id"}),
        (server_tool(given=("user", "channel")), ("user", "channel"), {*SENT} - {"user", "channel"}),
        # the modules and the tool into which the seed injects more
        (server_tool("add_job", "scheduler", parameters={"text": TEXT, "conversation_id": TEXT, "platform": TEXT}),
         ("platform", "conversation_id"), {"text"}),
        (server_tool("where", "location"), (),
         {*SENT} - {"user_id", "platform", "channel", "thread", "platform_channel_id", "platform_thread_id"}),
    ],
)  # fmt: skip
def test_tools_of_servers(made: Tool, given: tuple[str, ...], sent: set[str]) -> None:
    """A tool of a server gets what it declares, from the runtime what only the runtime knows, and nothing forged."""
    assert made.given == given
    assert set(made.sent(SENT)) == sent
    assert not set(made.given) & set(made.parameters.get("properties", {}))


def test_tools_that_a_server_lists() -> None:
    """The same holds for a tool that a program takes from the list of a server."""
    schema = {"type": "object", "properties": {"text": TEXT, "user_id": TEXT}, "required": ["text", "user_id"]}
    tool = McpClient(McpServer("notes", ["true"])).as_tool(McpTool("find", "x", schema))
    assert (tool.given, tool.parameters["required"]) == (("user_id",), ["text"])
    assert set(tool.sent(SENT)) == {*SENT} - {"user_id"}
    closed = McpClient(McpServer("notes", ["true"])).as_tool(
        McpTool("f", "x", {**schema, "additionalProperties": False})
    )
    assert set(closed.sent(SENT)) == {"text"}


def test_a_formula_with_a_parameter_that_the_runtime_fills_in() -> None:
    """Models do not see a parameter `user_id` of a formula."""
    tool = _formula_tool("a.b", FormulaTool("x", Expression.parse("args"), {"user_id": TEXT, "text": TEXT}))
    assert tool.parameters["properties"] == {"text": TEXT}
    assert tool.parameters["required"] == ["text"]
    assert set(tool.sent(SENT)) == {"text"}


def test_functions_of_python() -> None:
    """`Given[...]` marks what the runtime gives; parameters into which the seed injects need no mark."""

    @sim.tool("scheduler.add_job", safety="pure")
    def add(
        user_id: str, platform: str, conversation_id: str, thread: Given[str | None], channel: str, text: str
    ) -> str:
        """Add a job.

        Args:
            text: what.
        """
        return text

    @sim.tool("notes.add", safety="pure")
    def note(platform: str, text: str) -> str:
        """Add a note about a platform.

        Args:
            platform: which.
            text: what.
        """
        return text

    assert add.given == ("user_id", "platform", "conversation_id", "thread", "channel")
    assert set(add.sent(SENT)) == {"text"}
    assert (note.given, set(note.sent(SENT))) == ((), {"platform", "text"})  # a parameter of its own


def test_what_the_runtime_cannot_give() -> None:
    """A name that is no part of the context is refused, with those that are."""
    with pytest.raises(UsageError, match="the runtime cannot give 'usr'") as caught:
        server_tool(given=("usr",))
    assert "user_id" in str(caught.value.hint)

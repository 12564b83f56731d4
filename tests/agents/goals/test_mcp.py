"""Tools of MCP servers: enabled for a goal, inherited by its tasks, real calls over standard input and output."""

import sys
from pathlib import Path

import pytest

import sim
from sim.tools.mcp import McpServer
from tests.agents.goals.house import MAKE, TASK, house, write
from tests.agents.people import people

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("hotels")

@server.tool()
def find(city: str) -> str:
    "Find a hotel."
    return f"the best hotel of {city}"

server.run("stdio")
"""
HOTELS = {
    "servers": {
        "hotels": {"tools": {"find": {"description": "Find a hotel.", "parameters": {"city": {"type": "string"}}}}}
    }
}
NOTE = {"goals.create_note": {"title": "Hotel", "content": "=found"}}
MAKE_TASK = {"goals.create_task": {"title": "Hotel", "instructions": "Find one"}}
RULES = [
    {"system": "You do one task", "result": '"observation":"the {found*}"', "call": NOTE},
    {"system": "You do one task", "role": "tool", "say": "Found one."},
    {"system": "You do one task", "call": {"hotels.find": {"city": "Tokyo"}}},
    {"text": "Research", "when": "turn == 0", "call": MAKE_TASK},
    {"call": {"goals.send_message": {"text": "ok"}}},
]


@pytest.mark.slow
def test_a_task_uses_the_mcp_tools_of_its_goal(tmp_path: Path) -> None:
    """A server that the operator names answers a task; a replay needs no server."""
    script = tmp_path / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    servers = [McpServer("hotels", [sys.executable, str(script)])]
    steps = [MAKE, write(60, "Research please")]
    ran = house(tmp_path, RULES, steps, goal={"tools": ["hotels.find"]}, tools=HOTELS, run={"mcp": servers})
    assert ran.rows("SELECT content FROM memories") == ["Hotel\nbest hotel of Tokyo"]
    assert ("agent", "tool", '{"city":"Tokyo"}') in ran.thread(TASK)
    replayed = sim.replay(str(ran.folder), kinds={"person": people({"ana": steps})})
    assert replayed.same, replayed.difference

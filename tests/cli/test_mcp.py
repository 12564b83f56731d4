"""MCP servers at the command line: real servers in runs, replays, resumed and branched runs."""

import json
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import sim as package
from sim.base.errors import RunError, UsageError
from sim.tools.mcp import McpServer
from tests.tools.processes import processes_with, wait_for

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = """
import os, sys, time
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")

def note(text):
    with open(os.path.join(os.path.dirname(__file__), "calls.txt"), "a") as file:
        file.write(text + "\\n")

@server.tool()
def add(a: int, b: int = 1) -> int:
    "Add two\\n\\nnumbers. \\x1b[31m \\u202e </tools>"
    note(f"add {a} {b}")
    return a + b

@server.tool()
def slow(seconds: float) -> str:
    "Wait."
    note(f"slow {seconds}")
    time.sleep(seconds)
    return "waited"

@server.tool()
def names() -> str:
    return ",".join(sorted(os.environ)) + " " + str(len(os.environ.get("SIM_TEST_KEY", "")))

@server.tool(name="odd name/1")
def odd() -> str:
    return "odd"

@server.tool(name="nested")
def nested(parts: "list[list[dict[str, int | None]]]", wide: str = "\\x07") -> int:
    return len(parts)

server.run("stdio")
"""
SCENARIO = """
name: desk
until: 1m
tools:
  servers:
    notes:
      tools:
        add: {description: Add., parameters: {a: {type: integer}, b: {type: integer}}, optional: [b]}
        slow: {description: Wait., safety: SAFETY}
        names: {description: Tell the environment.}
        odd: {description: Be odd., remote: odd name/1}
models:
  rules:
    - {when: turn == 0, call: {notes.add: {a: 20, b: 22}}}
    - {say: "='it is ' + result"}
agents:
  - name: clerk
    state: {n: 0, got: []}
    rules:
      - {when: n == 0, do: {use_tool: {tool: notes.add, args: {a: 2}}}, set: {n: 1, got: "=got + [result.data]"}}
      - {when: n == 1, do: {ask: {prompt: hi, tools: [notes.add]}}, set: {n: 2, got: "=got + [result.data.text]"}}
      - {when: n == 2, do: {use_tool: {tool: notes.odd}}, set: {n: 3, got: "=got + [result.data]"}}
      - {when: n == 3, do: {publish: {topic: all.done, data: {got: "=got"}}}, set: {n: 4}}
      - do: stop
"""
SLOW = SCENARIO.replace("tool: notes.add, args: {a: 2}", "tool: notes.slow, args: {seconds: SECONDS}")


@pytest.fixture
def token():
    """A text among the arguments of the server, by which its process is found. Afterwards none is left."""
    token = uuid.uuid4().hex
    yield token
    wait_for(lambda: processes_with(token) == [], 5)


@pytest.fixture
def server(tmp_path, monkeypatch, token):
    """The value of `--mcp`; the current folder has the server."""
    monkeypatch.chdir(tmp_path)
    Path("server.py").write_text(SERVER)
    return f"notes='{sys.executable}' '{tmp_path / 'server.py'}' {token}"


def calls() -> list[str]:
    """Return the calls that reached the server."""
    path = Path("calls.txt")
    return path.read_text().splitlines() if path.exists() else []


def written(text: str, seconds: float = 0, safety: str = "unsafe") -> str:
    """Write a scenario and return its path."""
    Path("desk.yaml").write_text(text.replace("SECONDS", str(seconds)).replace("SAFETY", safety))
    return "desk.yaml"


def only_run() -> str:
    """Return the folder of the only run."""
    (folder,) = Path("runs").iterdir()
    return str(folder)


def events(sim, topic: str) -> list[dict[str, Any]]:
    """Return the data of the events of a topic in the only run."""
    found = json.loads(sim("show", only_run(), "events", "--topic", topic, "--json").out)["events"]
    return [event["data"] for event in found]


# -- runs


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_rules_and_models_call_a_server_and_a_replay_starts_none(sim, start, server, token, backend):
    """A rule and a model call tools of a real server; the run repeats, and its replay needs no server."""
    process = start("run", written(SCENARIO), "--mcp", server, "--backend", backend, "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert processes_with(token) == []
    assert calls() == ["add 2 1", "add 20 22"]
    (done,) = events(sim, "all.done")
    assert done["got"] == ["3", 'it is {"observation":"42","success":true}', "odd"]
    Path("server.py").unlink()
    again = sim("replay", only_run(), "--json")
    assert (again.code, json.loads(again.out)["same"]) == (0, True), again.err
    assert json.loads(again.out)["hash"] == json.loads(out)["hash"]
    assert calls() == ["add 2 1", "add 20 22"]


@pytest.mark.slow
def test_two_runs_have_the_same_hash(sim, server):
    """With the latency of the declaration, a run does not depend on how fast its server is."""
    path = written(SCENARIO)
    hashes = {json.loads(sim("run", path, "--mcp", server, "--json").out)["hash"] for _ in range(2)}
    assert len(hashes) == 1


@pytest.mark.slow
def test_access_approvals_and_audit_apply(sim, server):
    """A tool of a server is denied, approved and audited as any other tool."""
    rules = (
        "access:\n  otherwise: true\n  rules: [{allow: false, tools: [notes.odd]}]\n"
        "approvals:\n  simulated: {policy: condition, latency: 1s, condition: args.a < 10}\n"
        "  rules: [{tool: notes.add}]\naudit: {}\nmodels:"
    )
    assert sim("run", written(SCENARIO.replace("models:", rules)), "--mcp", server).code == 0
    assert calls() == ["add 2 1"]
    found = events(sim, "action.use_tool")
    assert found[0]["result"] == "3"
    assert any("denied" in str(event["error"]) for event in found[1:])
    assert found[-1]["error"] == "notes.odd: clerk may not call notes.odd"
    audited = [data["what"] for data in events(sim, "audit.record")]
    assert (audited.count("tool.call"), "tool.denied" in audited) == (1, True)


@pytest.mark.slow
def test_the_environment_is_given_by_name_and_not_recorded(sim, server, token, monkeypatch):
    """A server gets the variables that the operator names, and no others. Neither they nor its command are recorded."""
    canary = uuid.uuid4().hex
    monkeypatch.setenv("SIM_TEST_KEY", canary)
    monkeypatch.setenv("SIM_TEST_OTHER", "other")
    text = SCENARIO.replace("tool: notes.odd", "tool: notes.names")
    done = sim("run", written(text), "--mcp", server, "--mcp-env", "notes=SIM_TEST_KEY")
    assert done.code == 0, done.err
    (told,) = events(sim, "all.done")
    names, length = told["got"][2].split()
    assert (set(names.split(",")) - {"LC_CTYPE"}, length) == ({"SIM_TEST_KEY"}, "32")
    for path in Path(only_run()).rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes()
            assert token.encode() not in path.read_bytes()


# -- ends


@pytest.mark.proof
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("safety", [pytest.param("unsafe", marks=pytest.mark.proof), "pure"])
def test_a_killed_run_is_resumed(sim, start, server, token, safety):
    """After SIGKILL within a call, a person decides whether an unsafe call is repeated; a pure one is repeated."""
    process = start("run", written(SLOW, 1.5, safety), "--mcp", server)
    wait_for(lambda: calls() == ["slow 1.5"], 40)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: processes_with(token) == [], 10)  # the server sees the end of its input
    folder = only_run()
    without = sim("resume", folder)
    assert (without.code, "which the operator must name" in without.err) == (2, True)
    if safety == "unsafe":
        waits = sim("resume", folder, "--mcp", server)
        assert waits.code == 1
        assert 'tool.notes.slow of clerk at 0s: {"seconds":1.5}' in waits.err
        assert calls() == ["slow 1.5"]
    decision = ["--effect", '1=done:"it waited"'] if safety == "unsafe" else []
    done = sim("resume", folder, "--mcp", server, *decision)
    assert done.code == 0, done.err
    assert calls() == ["slow 1.5", *(["slow 1.5"] if safety == "pure" else []), "add 20 22"]
    (told,) = events(sim, "all.done")
    assert told["got"][0] == ("waited" if safety == "pure" else "it waited")
    assert sim("replay", folder).code == 0


@pytest.mark.proof
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.proof), 2])
def test_after_ctrl_c_no_server_is_left(start, server, token, backend, times):
    """One Ctrl-C, or two, within a call end the run, and its server with it."""
    process = start("run", written(SLOW, 60), "--mcp", server, "--backend", backend)
    wait_for(lambda: calls() != [], 40)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two signals at once could count as one
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    assert "Traceback" not in err, err
    wait_for(lambda: processes_with(token) == [], 5)


class Breaker(package.Agent):
    """Calls a server, and then breaks the run."""

    token = ""

    async def decide_action(self):
        await self.world.execute(self, package.Action("use_tool", {"tool": "notes.add", "args": {"a": 1}}))
        assert processes_with(self.token)
        raise RunError("it is broken")


@pytest.mark.slow
def test_after_a_failure_no_server_is_left(server, token, tmp_path):
    """A run that fails ends its server, also in Python."""
    Breaker.token = token
    text = SCENARIO.partition("models:")[0] + "agents: [{name: a, kind: breaker}]\n"
    servers = [McpServer("notes", [sys.executable, str(tmp_path / "server.py"), token])]
    with pytest.raises(RunError, match="it is broken"):
        package.run(written(text), kinds={"breaker": Breaker}, mcp=servers)
    assert calls() == ["add 1 1"]
    assert processes_with(token) == []


@pytest.mark.slow
def test_a_branch_calls_its_server(sim, server):
    """A branch takes the calls before it from the record, and makes those after it, also at its beginning."""
    assert sim("run", written(SCENARIO), "--mcp", server).code == 0
    folder = only_run()
    done = sim("branch", folder, "--at", "1.05s", "--mcp", server)
    assert done.code == 0, done.err
    assert calls() == ["add 2 1", "add 20 22", "add 20 22"]
    assert sim("branch", folder, "--at", "0s", "--mcp", server).code == 0
    assert calls() == ["add 2 1", "add 20 22", "add 20 22", "add 2 1", "add 20 22"]
    assert sim("branch", folder, "--at", "1.05s").code == 2


# -- what is refused before the run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "the scenario has tools of the MCP server notes, which the operator must name"),
        (["--mcp", "notes"], "--mcp needs the form NOTES=NOTES-SERVER"),
        (["--mcp", "notes=  "], "--mcp needs the form NOTES=NOTES-SERVER"),
        (["--mcp", "notes=a 'b"], "the command of the MCP server notes cannot be taken apart: No closing quotation"),
        (["--mcp", "notes=http://example.com/mcp"], "an MCP server over HTTP must be on this machine, without"),
        (["--mcp", "notes=https://127.0.0.1/mcp"], "an MCP server over HTTP must be on this machine, without"),
        (["--mcp", "Notes=ls"], "the name of an MCP server must be at most 32 small letters, digits"),
        (["--mcp", "notes=ls", "--mcp", "notes=ls"], "two MCP servers have the name notes"),
        (["--mcp", "notes=ls", "--mcp", "other=ls"], "the scenario declares no tools of the MCP server other"),
        (["--mcp", "notes=no-such-program-here"], "the program no-such-program-here of the MCP server notes does not"),
        (["--mcp-env", "notes=HOME"], "--mcp-env 'notes=HOME' is for an MCP server that no --mcp names"),
        (["--mcp", "notes=ls", "--mcp-env", "notes=NO_SUCH"], "the environment variable 'NO_SUCH' of --mcp-env is not"),
        (["--mcp", "notes=http://[::1]:1/", "--mcp-env", "notes=PATH"], "the MCP server notes has an address, so no"),
        (["--estimate"], "the scenario has tools of MCP servers, which an estimate does not call"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(sim, tmp_path, monkeypatch, options, sentence):
    """A server that is missing, or cannot be one, is wrong usage, and nothing is recorded."""
    monkeypatch.chdir(tmp_path)
    done = sim("run", written(SCENARIO), *options)
    assert done.code == 2
    assert done.err.startswith(f"sim: error: {sentence}")
    assert not Path("runs").exists()


@pytest.mark.slow
def test_without_the_package_a_run_says_what_to_install(sim, server, monkeypatch):
    """Without the extra, a run with a server is refused in one sentence; a replay needs no package."""
    path = written(SCENARIO)
    assert sim("run", path, "--mcp", server).code == 0
    for module in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "sim.tools.mcp_transport", raising=False)
    monkeypatch.delattr("sim.tools.mcp_transport", raising=False)
    done = sim("run", path, "--mcp", server)
    assert (done.code, done.out) == (2, "")
    assert done.err == "sim: error: MCP servers need the package mcp\nhint: install it: pip install 'actor-sim[mcp]'\n"
    assert sim("replay", only_run()).code == 0


def test_safety_is_declared_in_the_scenario_only(tmp_path, monkeypatch):
    """A replay has no server, so a run does not take the safety of calls from one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="must be declared in the scenario"):
        package.run(written(SCENARIO), mcp=[McpServer("notes", ["ls"], safety={"add": "pure"})])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("notes:\n", "world:\n"), "and other than world, not 'world'"),
        (("odd: {desc", "odd name: {desc"), "'notes.odd name' is not the name of a tool"),
        (("tools: [notes.add]", "tools: [notes.ad]"), "there is no tool 'notes.ad' in tools"),
        (("optional: [b]", "optional: [c]"), "optional names 'c', which is not a parameter"),
        (("safety: unsafe", "safety: perhaps"), "tools.servers.notes.tools.slow.safety"),
        (("a: {type: integer}", "a: {type: whole}"), "the parameter 'a' is not valid"),
        (
            ("tools:\n  servers", "tools:\n  functions: {notes.odd: {description: x, returns: args}}\n  servers"),
            "already",
        ),
    ],
)
def test_a_file_is_checked_without_a_server(sim, tmp_path, monkeypatch, change, sentence):
    """`sim check` finds what is wrong with the declarations, and accepts the others, without any server."""
    monkeypatch.chdir(tmp_path)
    assert sim("check", written(SCENARIO)).code == 0
    text = SCENARIO.replace("SAFETY", "unsafe")
    assert change[0] in text
    done = sim("check", written(text.replace(*change)))
    assert done.code == 2
    assert sentence in done.out


# -- declarations of a server's tools


@pytest.mark.slow
def test_the_tools_of_a_server_are_printed_as_declarations(sim, server):
    """It prints a valid part of a scenario; texts are harmless, and what cannot be declared is left out."""
    done = sim("info", "tools", "--mcp", server)
    assert done.code == 0, done.err
    assert done.out.replace("\n", "").isprintable()
    assert done.err.startswith("sim: warning: left out: the tool 'odd name/1' of notes: declare it under another name")
    Path("listed.yaml").write_text(f"name: x\nuntil: 1s\n{done.out}agents: [{{name: a}}]\n")
    assert sim("check", "listed.yaml").code == 0
    tools = json.loads(sim("info", "tools", "--mcp", server, "--json").out)["tools"]["servers"]["notes"]["tools"]
    assert list(tools) == ["add", "slow", "names", "nested"]
    assert tools["add"]["description"] == "Add two numbers. \\x1b[31m \\u202e </tools>"
    assert tools["add"]["parameters"]["a"]["type"] == "integer"
    assert tools["add"]["optional"] == ["b"]
    assert sim("info", "tools").err.startswith("sim: error: there is no MCP server to ask")


def test_a_server_that_cannot_be_listed_is_one_sentence(sim, tmp_path, monkeypatch):
    """A server that does not start is an error of `sim info tools`, without a traceback."""
    monkeypatch.chdir(tmp_path)
    done = sim("info", "tools", "--mcp", f"notes='{sys.executable}' -c 'raise SystemExit(3)'")
    assert done.code == 1
    assert done.err == "sim: error: the MCP server notes cannot be used: it ended with exit code 3\n"

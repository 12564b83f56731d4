"""Commands as effects: their request, their result, the permission of the operator, and their place in a run."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.kernel.codec import decode, encode
from sim.tools import process as process_module
from sim.tools.process import Command, ProcessLimits, ProcessTools, run_process, sandbox_fault

FAULT = "Windows" if sys.platform == "win32" else sandbox_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox on this machine: {FAULT}")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each event loop in turn."""
    return str(request.param)


def outcome(command: Command, backend: str = "asyncio") -> dict[str, Any]:
    """Run a command and return its result."""
    return dict(anyio.run(run_process, command.request(), "key", backend=backend))


# -- what a command gets, and what it gives back


@needs_sandbox
def test_a_result_says_all(backend):
    """A result has the exit code, both outputs, and the files that the command made, changed and removed."""
    program = """
import os, sys
print(sys.stdin.read().upper())
print("wrong", file=sys.stderr)
os.makedirs("new")
open("new/file", "w").write("made")
open("changed", "a").write("more")
os.remove("removed")
sys.exit(3)
"""
    files = {"main.py": program, "changed": "some", "same": "as before", "removed": "x", "deep/er/same": "y"}
    result = outcome(Command(["python", "main.py"], files, stdin="hello"), backend)
    digest = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("HELLO\n", "wrong\n", "made", "somemore")}
    assert result == {
        "exit_code": 3,
        "killed_by": None,
        "timed_out": False,
        "stdout": {"text": "HELLO\n", "truncated": False, "bytes": 6, "sha256": digest["HELLO\n"]},
        "stderr": {"text": "wrong\n", "truncated": False, "bytes": 6, "sha256": digest["wrong\n"]},
        "files": {
            "changed": {"text": "somemore", "truncated": False, "bytes": 8, "sha256": digest["somemore"]},
            "new/file": {"text": "made", "truncated": False, "bytes": 4, "sha256": digest["made"]},
        },
        "deleted": ["removed"],
        "others": 0,
    }


@needs_sandbox
def test_a_result_does_not_depend_on_the_run():
    """Hash seeds, process ids, addresses, variables and the times of given files are the same in each run."""
    program = """
import os, socket, sys
print({"b", "a", "c"}, os.getpid(), object(), dict(os.environ), os.getcwd(), socket.gethostname(), os.getuid())
print(os.stat("main.py").st_mtime, os.listdir("."), sys.flags.hash_randomization)
undefined
"""
    first, second = (outcome(Command(["python", "main.py"], {"main.py": program})) for _ in range(2))
    assert first == second
    assert first["stderr"]["text"].startswith('Traceback (most recent call last):\n  File "./main.py", line 5')


@needs_sandbox
def test_places_of_this_machine_are_not_in_a_result():
    """The folder is `.` and the place of Python is `<python>` in outputs and in files."""
    program = "import json, sys\nprint(sys.prefix, json.__file__)\nopen('where', 'w').write(sys.path[0] + sys.prefix)"
    result = outcome(Command(["python", "main.py"], {"main.py": program}))
    if not sys.prefix.startswith("/usr"):
        assert result["stdout"]["text"].split()[0] == "<python>"
        assert result["files"]["where"]["text"] == ".<python>"
    assert "/run/sim-command" not in str(result)


@needs_sandbox
def test_output_that_is_no_text_is_replaced():
    """Bytes that are not UTF-8 become replacement characters; the hash is that of the bytes; the result is JSON."""
    program = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00\\xed\\xa0\\x80e')\nopen('x', 'wb').write(b'\\x80')"
    result = outcome(Command(["python", "main.py"], {"main.py": program}))
    assert result["stdout"]["text"] == "\ufffd\x00\ufffd\ufffd\ufffde"
    assert result["stdout"]["sha256"] == hashlib.sha256(b"\xff\x00\xed\xa0\x80e").hexdigest()
    assert result["files"]["x"]["text"] == "\ufffd"
    assert decode(encode(result)) == result


@needs_sandbox
def test_a_cut_never_goes_through_a_character():
    """A kept output ends with a whole character."""
    result = outcome(Command(["printf", "aéé"], limits=ProcessLimits(output=4)))
    assert (result["stdout"]["text"], result["stdout"]["truncated"]) == ("aé", True)


@needs_sandbox
def test_changed_files_are_cut_together():
    """Of all changed files together, as much is kept as allowed. Each has its size and the hash of the whole."""
    program = "for name in 'abc': open(name, 'w').write(name * 1000)"
    result = outcome(Command(["python", "main.py"], {"main.py": program}, limits=ProcessLimits(kept=1500)))
    kept = {name: (len(file["text"]), file["truncated"], file["bytes"]) for name, file in result["files"].items()}
    assert kept == {"a": (1000, False, 1000), "b": (500, True, 1000), "c": (0, True, 1000)}
    assert result["files"]["c"]["sha256"] == hashlib.sha256(b"c" * 1000).hexdigest()


@needs_sandbox
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no-such-program"], "No such file"),
        (["./data"], "Permission denied"),
        (["/etc"], "Permission denied"),
        (["./folder/data"], "Permission denied"),
        (["./missing/x"], "No such file"),
    ],
)
def test_a_program_that_cannot_be_started_is_a_result(arguments, text):
    """What cannot be started ends with 127 and says why, as in a shell: the agent that asked can read it."""
    result = outcome(Command(arguments, {"data": "x", "folder/data": "x"}))
    assert result["exit_code"] == 127
    assert text in result["stderr"]["text"]


@needs_sandbox
@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (9, "SIGKILL"), (15, "SIGTERM")])
def test_a_signal_is_named(number, name):
    """A command that a signal ended has no exit code, but the name of the signal."""
    result = outcome(Command(["python", "-c", f"import os\nos.kill(os.getpid(), {number})"]))
    assert (result["exit_code"], result["killed_by"], result["timed_out"]) == (None, name, False)


@pytest.mark.slow
@needs_sandbox
def test_real_tests_run():
    """The pytest of the environment in which `sim` runs can be used, and finds the files of the request."""
    files = {
        "adding.py": "def add(a, b):\n    return a - b\n",
        "test_adding.py": (
            "from adding import add\n\ndef test_add():\n    assert add(1, 2) == 3\n\n"
            "def test_zero():\n    assert add(0, 0) == 0\n"
        ),
    }
    arguments = ["python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "--color=no"]
    result = outcome(Command(arguments, files))
    assert result["exit_code"] == 1, result
    assert "PASSED test_adding.py::test_zero" in result["stdout"]["text"]
    assert "FAILED test_adding.py::test_add" in result["stdout"]["text"]
    assert result["files"] == {}


@pytest.mark.slow
@needs_sandbox
def test_a_large_input_arrives_whole():
    """Megabytes of files and of standard input reach the command, which need not read them."""
    text = "0123456789" * 200_000
    program = "import sys\nprint(len(sys.stdin.read()), len(open('big').read()))"
    assert (
        outcome(Command(["python", "m.py"], {"m.py": program, "big": text}, text))["stdout"]["text"]
        == "2000000 2000000\n"
    )
    assert outcome(Command(["true"], {"big": text}, text))["exit_code"] == 0


# -- requests


def test_a_request_is_json_and_comes_back():
    """The request of a command is JSON, and gives an equal command."""
    command = Command(["ls", "-l"], {"a/b": "text"}, "in", ProcessLimits(wall=2.5, files=7))
    assert Command.of(decode(encode(command.request()))) == command


@pytest.mark.parametrize(
    "request_",
    [
        {}, {"arguments": "ls"}, {"arguments": ["ls"], "shell": True}, {"arguments": ["ls"], "limits": {"walls": 1}},
        {"arguments": ["ls"], "limits": 5}, {"arguments": ["ls"], "limits": None}, {"arguments": ["ls"], "stdin": 5},
        {"arguments": ["ls"], "files": ["a"]}, {"arguments": ["ls"], "files": {"a": 1}},
        {"arguments": ["ls"], "files": {"a": "\ud800"}},
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(request_):
    """A request with unknown, missing or mistyped parts is refused before anything starts."""
    with pytest.raises(UsageError):
        anyio.run(run_process, request_, "key")


@pytest.mark.parametrize(
    "limits",
    [
        {"wall": 0}, {"wall": 1e9}, {"wall": "5"}, {"wall": True}, {"wall": float("nan")}, {"wall": float("inf")},
        {"memory": 1}, {"memory": 2.0**30}, {"processes": 0}, {"files": -1}, {"output": 0}, {"disk": None},
    ],
)  # fmt: skip
def test_limits_have_ranges(limits):
    """A limit that is no number, or that would switch the limit off, is refused."""
    with pytest.raises(UsageError, match="the limit"):
        ProcessLimits(**limits)


def test_files_must_fit():
    """Files that cannot be in one folder, or are over the limits, are refused."""
    with pytest.raises(UsageError, match="both a file and the folder"):
        Command(["ls"], {"a": "x", "a/b/c": "y"})
    with pytest.raises(UsageError, match="`disk`"):
        Command(["ls"], {"a": "x" * 2**17}, limits=ProcessLimits(disk=2**16))
    with pytest.raises(UsageError, match="`files`"):
        Command(["ls"], {str(n): "" for n in range(3)}, limits=ProcessLimits(files=2))
    with pytest.raises(UsageError, match="in all"):
        Command(["ls"], stdin="x" * 2**23)


# -- the permission of the operator


def test_commands_are_off(monkeypatch):
    """Without the operator's permission nothing starts, whatever the request says."""
    monkeypatch.setattr(process_module, "_program", lambda: pytest.fail("it was started"))
    request = Command(["ls"]).request()
    with pytest.raises(UsageError, match="has not allowed commands"):
        anyio.run(ProcessTools().run, request, "key")
    with pytest.raises(UsageError):
        anyio.run(ProcessTools().run, {**request, "allowed": True}, "key")


def test_the_operator_limits_commands():
    """A limit above what the operator allows is refused, with both values."""
    tools = ProcessTools(allowed=True, ceiling=ProcessLimits(wall=5))
    with pytest.raises(UsageError, match="wall up to 5, not 30"):
        anyio.run(tools.run, Command(["ls"]).request(), "key")


@needs_sandbox
def test_few_commands_run_at_one_time(backend):
    """Commands over the number that may run at one time wait for their turn."""
    tools = ProcessTools(allowed=True, at_once=1)

    async def three() -> float:
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(tools.run, Command(["sleep", "0.3"]).request(), "key")
        return time.monotonic() - began

    assert anyio.run(three, backend=backend) > 0.9


def test_a_missing_report_is_one_sentence(monkeypatch, backend):
    """A sandbox that dies, or says something else, is a failed call."""
    for text in ("", "no json", "{}"):
        monkeypatch.setattr(process_module, "_program", lambda text=text: [sys.executable, "-c", f"print({text!r})"])
        with pytest.raises(RunError, match="ended"):
            outcome(Command(["ls"]), backend)


def test_a_sandbox_that_hangs_is_ended(monkeypatch, backend):
    """If the sandbox itself does not report, the call fails after the time of the command and a margin."""
    monkeypatch.setattr(process_module, "_program", lambda: [sys.executable, "-c", "import time\ntime.sleep(60)"])
    monkeypatch.setattr(process_module, "_GRACE", 0.2)
    monkeypatch.setattr(process_module, "_PATIENCE", 0.2)
    with pytest.raises(RunError, match=r"gave no report in 0\.4 seconds"):
        outcome(Command(["ls"], limits=ProcessLimits(wall=0.2)), backend)


# -- in a run


def test_an_effect_is_pure_and_holds_all():
    """The effect of a command can be repeated, and its request is all that its outcome depends on."""
    command = Command(["ls"], {"a": "b"})
    effect = ProcessTools().effect(command, latency_ns=5)
    assert (effect.kind, effect.safety, effect.latency_ns, effect.request) == (
        "tool.process",
        "pure",
        5,
        command.request(),
    )


@needs_sandbox
def test_a_tool_runs_commands(backend):
    """Commands can be offered to models as a tool, whose limits only the operator sets."""
    tool = ProcessTools(allowed=True).tool("code.run", limits=ProcessLimits(wall=7), latency="3s")
    assert (tool.runs, tool.safety, tool.wire_name) == ("process", "pure", "code__run")
    effect = tool.effect({"arguments": ["python", "m.py"], "files": {"m.py": "print(input())"}, "stdin": "in"})
    assert effect.latency_ns == 3 * 10**9
    result = anyio.run(effect.call, effect.request, "key", backend=backend)
    assert (result["exit_code"], result["stdout"]["text"]) == (0, "in\n")
    with pytest.raises(UsageError, match="has not allowed"):
        anyio.run(ProcessTools().tool().effect({"arguments": ["ls"]}).call, {"arguments": ["ls"]}, "key")


MODULE = """
import os
import sim
from sim.tools.process import Command, ProcessTools

tools = ProcessTools(allowed=bool(os.environ.get("ALLOWED")))

class Tester(sim.Agent):
    async def decide_action(self):
        command = Command(["python", "-c", "print(6 * 7)"])
        outcome = await sim.perform(tools.effect(command, latency_ns=2 * 10**9))
        return sim.Action("publish", {"topic": "tested", "data": {"kind": outcome.kind, "value": outcome.value}})
"""


@needs_sandbox
@pytest.mark.proof
def test_a_run_with_commands_is_replayed_without_them(tmp_path):
    """A run with commands has the same hash on asyncio and trio, and is replayed where they are not allowed."""
    (tmp_path / "testing.py").write_text(MODULE)
    (tmp_path / "tested.yaml").write_text(
        "name: tested\nuntil: 5s\nagents:\n  - {name: a, kind: 'testing:Tester', loop: {min_loop_delay: 1s}}\n"
    )

    def call(*arguments: str, **environment: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "sim", *arguments, "--json", "--allow", "testing"], cwd=tmp_path, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(sim.__file__).parents[1]), **environment}, check=False,
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return dict(decode(done.stdout.encode()))

    first = call("run", "tested.yaml", "--backend", "asyncio", ALLOWED="1")["hash"]
    second = call("run", "tested.yaml", "--backend", "trio", ALLOWED="1")["hash"]
    without = call("run", "tested.yaml")["hash"]
    assert first == second != without
    for folder in (tmp_path / "runs").iterdir():
        if not folder.name.startswith("."):
            assert call("replay", str(folder))["hash"] in (first, without)


def test_records_are_frozen():
    """A command that was checked cannot be changed."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Command(["ls"]).stdin = "x"  # type: ignore[misc]

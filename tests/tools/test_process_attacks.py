"""Commands that attack: none leaves its sandbox, and none outlives its call."""

import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sim.base.errors import UsageError
from sim.tools.process import Command, ProcessLimits, run_process, sandbox_fault
from tests.tools.processes import processes_with, wait_for

FAULT = "Windows" if sys.platform == "win32" else sandbox_fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=f"no sandbox on this machine: {FAULT}")
ROOT = Path(__file__).parents[2]
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run() -> Run:
    """Return a function that runs a program in Python as a command, and returns its result."""

    def run(program: str, *arguments: str, **limits: Any) -> dict[str, Any]:
        command = Command(
            ["python", "main.py", *arguments], {"main.py": program}, limits=ProcessLimits(**{"wall": 20, **limits})
        )
        return dict(anyio.run(run_process, command.request(), "key"))

    return run


def said(result: dict[str, Any]) -> str:
    """Return what a command has printed, which must have ended well."""
    assert result["exit_code"] == 0, result
    return str(result["stdout"]["text"]).strip()


def refused(call: str, imports: str = "os, socket, ctypes") -> str:
    """Return a program that prints the name of the error with which `call` ends."""
    return (
        f"import {imports}\ntry:\n    {call}\n    print('done')\n"
        "except OSError as error:\n    print(type(error).__name__, error.errno)\n"
    )


# -- using up the machine


@needs_sandbox
def test_a_fork_bomb_stops_at_its_limit_and_leaves_nobody(run):
    """A command has at most its number of processes at one time, and all are gone when it ends."""
    token = uuid.uuid4().hex
    program = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except BlockingIOError:
    print(made)
"""
    assert int(said(run(program, token, processes=20))) == 19
    assert processes_with(token) == []


@needs_sandbox
def test_an_endless_fork_bomb_ends_at_its_time(run):
    """Processes that fork for ever are all killed when the time of the command is over."""
    token = uuid.uuid4().hex
    program = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    result = run(program, token, processes=30, wall=1)
    assert (result["killed_by"], result["timed_out"], result["exit_code"]) == ("time", True, None)
    assert processes_with(token) == []


@needs_sandbox
def test_threads_count_as_processes(run):
    """Threads are limited like processes."""
    program = """
import threading, time
try:
    for made in range(100):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
except RuntimeError:
    print(made)
"""
    assert int(said(run(program, processes=8))) <= 7


@needs_sandbox
def test_one_process_cannot_take_more_memory_than_allowed(run):
    """An allocation over the limit fails in the command."""
    program = "try:\n    bytearray(2**29)\nexcept MemoryError:\n    print('no memory')\n"
    assert said(run(program, memory=2**28)) == "no memory"


@needs_sandbox
def test_many_processes_share_the_memory(run):
    """Processes that each stay below the limit, but not together, are killed."""
    program = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1)) * (100 * 2**20)
        time.sleep(60)
time.sleep(60)
"""
    assert run(program, memory=2**28)["killed_by"] == "memory"


@needs_sandbox
def test_the_name_of_a_process_does_not_hide_its_memory(run):
    """The watch over memory does not depend on what a process calls itself."""
    program = r"""
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"\xff\nRssAnon: -9")
for _ in range(4):
    if os.fork() == 0:
        kept = bytearray(b"x") * (100 * 2**20)
        time.sleep(60)
time.sleep(60)
"""
    assert run(program, memory=2**28)["killed_by"] == "memory"


@needs_sandbox
def test_memory_that_no_limit_counts_is_refused(run):
    """A command gets no memory outside its address space: no files in memory, and no System V shared memory."""
    assert said(run(refused("os.memfd_create('x')"))) == "PermissionError 1"
    assert said(run("import ctypes\nprint(ctypes.CDLL(None).shmget(0, 4096, 0o1600))")) == "-1"


@pytest.mark.slow
@needs_sandbox
def test_processor_time_is_limited(run):
    """A command that computes for ever is killed at its processor time, not only at its time."""
    assert run("while True: pass", cpu=1)["killed_by"] == "cpu"


@needs_sandbox
def test_endless_output_is_cut_and_ends_the_command(run):
    """Of endless output the beginning is kept, and the hash covers the same amount in each run."""
    first, second = (run("while True: print('y' * 1000)", output=1000) for _ in range(2))
    assert first == second
    assert first["killed_by"] == "output"
    assert first["stdout"]["truncated"]
    assert first["stdout"]["bytes"] == 64_000
    assert len(first["stdout"]["text"]) == 1000


@needs_sandbox
def test_holes_do_not_take_time(run):
    """Files with holes, which seem larger than the disk, have no hash; those that fit keep theirs."""
    program = """
import os
for n in range(500):
    with open(f"{n:03}", "wb") as file:
        file.truncate(2**32)
open("own", "w").write("mine")
os.link("own", "same")
"""
    result = run(program, file_size=2**32, disk=2**20, files=600)
    assert (result["killed_by"], len(result["files"])) == (None, 502)
    assert result["files"]["499"] == {"text": "", "truncated": True, "bytes": 2**32, "sha256": None}
    assert result["files"]["own"]["sha256"] == result["files"]["same"]["sha256"] == hashlib.sha256(b"mine").hexdigest()


@needs_sandbox
def test_long_output_keeps_its_hash(run):
    """Output over the limit is cut and marked, and its hash is that of the whole."""
    result = run("print('z' * 5000, end='')", output=1000)["stdout"]
    assert (result["text"], result["truncated"], result["bytes"]) == ("z" * 1000, True, 5000)
    assert result["sha256"] == hashlib.sha256(b"z" * 5000).hexdigest()


@needs_sandbox
@pytest.mark.parametrize("folder", [".", "/tmp", "/dev/shm"])
def test_a_command_cannot_fill_the_disk(run, folder):
    """All places that a command can write share one size."""
    program = f"""
import os
try:
    for n in range(100):
        with open(f"{folder}/{{n}}", "wb") as file:
            file.write(bytes(2**18))
except OSError as error:
    print(n, os.strerror(error.errno))
"""
    assert said(run(program, disk=2**20)) == "3 No space left on device"


@pytest.mark.slow
@needs_sandbox
def test_one_file_is_limited(run):
    """A file over its limit ends its writer, or fails in it."""
    assert run("open('big', 'wb').write(bytes(2**21))", file_size=2**20)["killed_by"] in ("file_size", None)
    program = (
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with open('big', 'wb', buffering=0) as file:\n    print(file.write(bytes(2**21)))"
    )
    assert int(said(run(program, file_size=2**20))) == 2**20


@needs_sandbox
def test_the_number_of_files_is_limited(run):
    """A command cannot make files without end, not even empty ones."""
    program = (
        "try:\n    for n in range(10_000): open(str(n), 'w')\nexcept OSError as error: print(error.errno, n < 200)"
    )
    assert said(run(program, files=100)) == "28 True"


# -- leaving the sandbox


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize(
    "path",
    [
        "../escaped", "../../escaped", "/escaped", "/etc/escaped", "/usr/escaped", "/usr/bin/escaped", "/root/escaped",
        "/home/escaped", "/run/escaped", "/dev/escaped", "/proc/escaped", "/proc/self/root/escaped",
        "/proc/1/root/escaped", "/proc/self/cwd/../escaped", "/etc/passwd", "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/1/mem", "/sys/escaped", "/var/tmp/escaped",
        sys.prefix + "/escaped", sys.executable, str(ROOT / "escaped"),
    ],
)  # fmt: skip
def test_nothing_outside_the_folder_can_be_written(run, path):
    """Every path that leads out of the folder, `/tmp` and `/dev/shm` is refused."""
    done = said(run(refused(f"open({path!r}, 'ab').write(b'x')")))
    assert done.split()[0] in ("FileNotFoundError", "PermissionError", "OSError")
    assert done.split()[1] in ("2", "13", "30"), done


@needs_sandbox
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_shared_folders_are_its_own(run, folder):
    """The `/tmp` and `/dev/shm` of a command are not those of the machine."""
    token = uuid.uuid4().hex
    outside = Path(folder) / f"outside-{token}"
    outside.write_text("x")
    try:
        assert (
            said(run(f"import os\nopen('{folder}/{token}', 'w')\nprint(os.path.exists({str(outside)!r}))")) == "False"
        )
    finally:
        outside.unlink()
    assert not (Path(folder) / token).exists()


@needs_sandbox
def test_links_are_not_followed_when_files_are_collected(run):
    """A link to a file, a folder or a device is not read, and neither is a pipe. They are counted only."""
    program = """
import os
os.symlink("/etc/passwd", "one")
os.symlink("/", "two")
os.symlink("/dev/zero", "three")
os.symlink("one", "four")
os.mkfifo("five")
os.remove("main.py")
os.symlink("/etc/passwd", "main.py")
"""
    result = run(program)
    assert (result["files"], result["deleted"], result["others"]) == ({}, ["main.py"], 6)


@needs_sandbox
def test_odd_folders_do_not_stop_the_collection(run):
    """Folders without rights, very deep ones, and names that are no text do no harm."""
    program = """
import os
os.mkdir("closed"); open("closed/x", "w").write("in"); os.chmod("closed", 0)
open("unreadable", "w").write("u"); os.chmod("unreadable", 0)
open(b"\\xff\\xfe", "w")
open("new\\nline", "w").write("n")
for _ in range(300):
    os.mkdir("d" * 200); os.chdir("d" * 200)
"""
    result = run(program)
    assert set(result["files"]) == {"closed/x", "unreadable", "new\nline"}
    assert result["others"] == 2


@pytest.mark.slow
@needs_sandbox
@pytest.mark.parametrize(
    "call",
    [
        "assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0 or ctypes.get_errno() not in (1, 28)",
        "assert ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0 or ctypes.get_errno() not in (1, 28)",
        "assert ctypes.CDLL(None).mount(b'tmpfs', b'/usr', b'tmpfs', 0, None) == 0",
        "assert ctypes.CDLL(None).umount2(b'/proc', 2) == 0",
        "assert ctypes.CDLL(None).mount(b'', b'/usr', None, 32 | 4096, None) == 0",
        "assert ctypes.CDLL(None).ptrace(16, 1, None, None) == 0",
        "assert ctypes.CDLL(None).syscall(425, 8, None) not in (-1,)",
        "os.chroot('.')",
        "os.setuid(0)",
        "os.setgroups([0])",
        "os.mknod('disk', 0o60600, os.makedev(8, 0))",
        "assert os.system('su -c true 2>/dev/null || sudo -n true 2>/dev/null') == 0",
        "open('/proc/1/environ').read()",
        "os.listdir('/proc/1/fd')",
        "open('/dev/tty')",
        "open('/dev/mem')",
        "open('/dev/kmsg')",
    ],
)
def test_rights_cannot_be_gained(run, call):
    """A command can make no namespace, mount nothing, trace nobody, become nobody else, and open no other device."""
    program = (
        f"import os, ctypes\ntry:\n    {call}\n    print('done')\nexcept (OSError, AssertionError):\n    print('no')\n"
    )
    assert said(run(program)) == "no"


@needs_sandbox
def test_a_set_user_id_program_gives_no_rights(run):
    """A program that would run as root runs with the rights of the command."""
    lines = said(
        run("print(*[line for line in open('/proc/self/status') if line[:6] in ('CapEff', 'CapPrm', 'NoNewP')])")
    )
    assert [int(line.split()[1], 16) for line in lines.splitlines() if line.strip()] == [0, 0, 1]


@needs_sandbox
def test_only_the_three_standard_files_are_open(run):
    """A command inherits no file, pipe or socket of the run."""
    assert said(run("import os\nprint(sorted(map(int, os.listdir('/proc/self/fd')))[:4])")) == "[0, 1, 2, 3]"
    assert (
        said(run("import os\nprint([os.path.exists(f'/proc/self/fd/{n}') for n in range(3, 200)].count(True))")) == "0"
    )


@needs_sandbox
def test_other_processes_cannot_be_seen_or_signalled(run):
    """A command sees its own processes only; it can end neither the run nor another process, nor process 1."""
    with subprocess.Popen(["sleep", "60"]) as other:
        program = f"""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid in ({other.pid}, {os.getpid()}, {os.getppid()}):
    try:
        os.kill(pid, 9)
        print("killed", pid)
    except ProcessLookupError:
        pass
os.kill(1, 9)
try:
    os.kill(-1, 15)
except ProcessLookupError:
    pass
print(sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()), os.getppid())
"""
        assert said(run(program)) == "[1, 2] 1"
        assert other.poll() is None
        other.kill()


# -- the network


@pytest.mark.slow
@needs_sandbox
def test_the_network_is_out_of_reach(run):
    """A server on this machine cannot be reached, not even over loopback, and no name can be looked up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = refused(f"socket.create_connection(('127.0.0.1', {port}), 2)")
        assert said(run(program)) == "OSError 101"
    assert said(run(refused("socket.create_connection(('192.0.2.1', 80), 2)"))) == "OSError 101"
    assert said(run(refused("socket.getaddrinfo('example.org', 80)"))).startswith("gaierror")
    assert (
        said(run(refused("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))")))
        == "OSError 101"
    )


@pytest.mark.slow
@needs_sandbox
def test_other_ways_to_talk_are_closed(run):
    """Abstract sockets of the machine are not there, and families that no namespace confines are refused."""
    name = f"\0{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert said(run(refused(f"socket.socket(socket.AF_UNIX).connect({name!r})"))) == "ConnectionRefusedError 111"
    for family in (socket.AF_VSOCK, socket.AF_PACKET, 38, 31):  # 38: cryptography, 31: Bluetooth
        assert said(run(refused(f"socket.socket({int(family)}, socket.SOCK_DGRAM)"))) == "PermissionError 1"
    assert said(run(refused("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"))) == "PermissionError 1"


# -- secrets


@needs_sandbox
def test_the_environment_is_not_inherited(run, monkeypatch):
    """No variable of the run is seen in the command's environment, or in that of a process that it can read."""
    monkeypatch.setenv("SIM_TEST_KEY", "canary-4711")
    program = """
import glob, os
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        print(open(path, errors="replace").read())
    except PermissionError:
        pass
print(sorted(os.environ))
"""
    text = said(run(program))
    assert "canary-4711" not in text
    names = "'HOME', 'LANG', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED', 'SOURCE_DATE_EPOCH', 'TMPDIR', 'TZ'"
    assert text.splitlines()[-1].replace(", 'LC_CTYPE'", "") == f"[{names}]"


@needs_sandbox
def test_files_of_the_machine_cannot_be_read(run, tmp_path):
    """Only programs can be read: no home, no configuration, no key, no run folder, no source."""
    secret = tmp_path / "secret"
    secret.write_text("canary-4711")
    tried = [
        secret, ROOT / "pyproject.toml", "/etc/shadow", "/etc/hostname", "/etc/ssh", "/etc/ssl", "/var/log", "/boot",
        "/opt", "/srv", "/mnt", "/sys/kernel", "/run/secrets", "/var/run/docker.sock", "/proc/kcore",
        Path.home() / ".bashrc",
        Path.home() / ".ssh", "/proc/1/root/etc/shadow", "/proc/1/cwd", "/proc/self/root/../etc/shadow",
    ]  # fmt: skip
    program = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        print("read", path)
    except OSError:
        pass
"""
    assert said(run(program, *map(str, tried))) == ""


@needs_sandbox
def test_the_file_systems_seen_are_programs_and_its_own(run):
    """What is mounted in a sandbox is read-only, or belongs to the command alone."""
    program = "for line in open('/proc/self/mounts'): print(*line.split()[1:4])"
    seen = [line.split() for line in said(run(program)).splitlines()]
    writable = {place for place, kind, options in seen if "rw" in options.split(",")}
    assert writable == {"/run/scratch", ".", "/tmp", "/dev/shm"}
    assert all(kind == "tmpfs" for place, kind, _ in seen if place in writable)
    assert all("nosuid" in options.split(",") for _, _, options in seen)


# -- ends


SURVIVOR = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):
            os.close(fd)
        time.sleep(600)
    os._exit(0)
"""


@needs_sandbox
def test_a_daemon_does_not_survive_its_command(run):
    """A process that left the session, the group and its parent is killed when the command ends."""
    token = uuid.uuid4().hex
    assert run(SURVIVOR, token)["exit_code"] == 0
    assert processes_with(token) == []


@needs_sandbox
def test_a_daemon_does_not_survive_the_time_limit(run):
    """The same at the time limit, also if SIGTERM is ignored."""
    token = uuid.uuid4().hex
    program = SURVIVOR + "import signal\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n"
    assert run(program, token, wall=0.5)["timed_out"]
    assert processes_with(token) == []


@needs_sandbox
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_command_leaves_nobody(backend):
    """When the wait for a command is cancelled, all its processes are gone before the wait ends."""
    token = uuid.uuid4().hex

    async def cancelled() -> float:
        command = Command(["python", "main.py", token], {"main.py": SURVIVOR + "time.sleep(600)"})
        with anyio.move_on_after(0.7):
            await run_process(command.request(), "key")
        return len(processes_with(token))

    assert anyio.run(cancelled, backend=backend) == 0


@pytest.mark.slow
@needs_sandbox
def test_a_command_does_not_survive_a_killed_run(tmp_path):
    """After SIGKILL of the process that runs it, a command and its daemons end by themselves."""
    token = uuid.uuid4().hex
    script = tmp_path / "run.py"
    script.write_text(
        "import anyio, sys\nfrom sim.tools.process import Command, run_process\n"
        f"program = {SURVIVOR!r} + 'time.sleep(600)'\n"
        f"command = Command(['python', 'main.py', {token!r}], {{'main.py': program}})\n"
        "anyio.run(run_process, command.request(), 'key')\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as process:
        wait_for(lambda: len(processes_with(token)) >= 2)
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: processes_with(token) == [])


@needs_sandbox
def test_a_killed_warden_takes_its_command_along(tmp_path):
    """If the process that watches is killed, the command ends too, and the call fails with one sentence."""
    token = uuid.uuid4().hex

    async def killed() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, kill_warden)
            command = Command(["python", "main.py", token], {"main.py": SURVIVOR + "time.sleep(600)"})
            await run_process(command.request(), "key")

    def kill_warden() -> None:
        wait_for(lambda: processes_with(token) != [])
        for pid in processes_with("sandbox.py"):
            status = Path(f"/proc/{pid}/status").read_text()
            if f"PPid:\t{os.getpid()}\n" in status:
                os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(killed)
    assert "ended without a report" in str(caught.value.exceptions[0])
    wait_for(lambda: processes_with(token) == [])


# -- arguments and names


PAYLOADS = [
    "; touch escaped", "$(touch escaped)", "`touch escaped`", "&& touch escaped", "| touch escaped", "> escaped",
    "\n touch escaped\n", "' ; touch escaped ; '", '" ; touch escaped ; "', "${HOME}", "$PATH", "~root", "*", "?[a-z]*",
    "{a,b}", "--help", "-c", "@file", "\\; touch escaped", "%00", "\u202e\x1b[31m", "a b\tc", "é😀", "#", "!!",
]  # fmt: skip


@needs_sandbox
def test_arguments_are_never_interpreted(run):
    """Every argument reaches the program as it is: there is no shell that could read it."""
    result = run("import json, sys\nprint(json.dumps(sys.argv[1:]))", *PAYLOADS)
    assert json.loads(said(result)) == PAYLOADS
    assert result["files"] == {}


@pytest.mark.parametrize("arguments", ["ls -l", b"ls", [], [""], ["ls", 1], ["ls", "a\0b"], ["ls", "\ud800"], None, 5])
def test_what_is_no_list_of_arguments_is_refused(arguments):
    """A line for a shell, an empty list, and arguments that no program can get are refused."""
    with pytest.raises(UsageError):
        Command(arguments)


NAMES = [
    "", ".", "..", "/", "//", "/x", "//x", "./x", "../x", "x/..", "x/../y", "x/./y", "x//y", "x/", "/etc/passwd",
    "a/../../b", "..\\x", "x\\..\\y", "C:\\x", "\\\\host\\x", "x\0y", "x\0", "x\ny", "x\ry", "x\x1b[0m",
    "x\u202ey", "\ud800", "x/../../..", "../folder2/x", "../run/sim-command/x", "../../run/sim-command",
    "/run/sim-command/x", "/proc/self/root/x", "/dev/null", "a" * 256, "a/" * 300 + "a", "é" * 128, "b/" * 33 + "b",
    "__pycache__/x.pyc", "a/__pycache__/b", "\u2028", "\x7f", " /../x",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_stay_in_the_folder(name):
    """A name that leads out of the folder, is ambiguous, or is no name of a file is refused before anything runs."""
    with pytest.raises(UsageError, match="the name of a file"):
        Command(["true"], {name: "x"})


# -- machines without a sandbox


def test_a_system_without_namespaces_is_refused(monkeypatch):
    """Off Linux, a command is refused with one sentence."""
    monkeypatch.setattr(sys, "platform", "darwin")
    sandbox_fault.cache_clear()
    try:
        assert sandbox_fault() == "commands need the namespaces of Linux, which darwin does not have"
    finally:
        monkeypatch.undo()
        sandbox_fault.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("unshare") is None or FAULT is not None, reason="this machine has no namespaces to forbid"
)
def test_where_namespaces_are_forbidden_commands_are_refused():
    """Where the kernel makes no namespaces, nothing runs, and one sentence says what is missing."""
    program = (
        "import anyio\nfrom sim.base.errors import RunError\nfrom sim.tools.process import *\nprint(sandbox_fault())\n"
        "try:\n    anyio.run(run_process, Command(['touch', '/tmp/never']).request(), '')\n"
        "except RunError as error:\n    print(error)\n"
    )
    line = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -c "$1"'
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", line, sys.executable, program], capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith(
        "commands are refused, because a complete sandbox cannot be had here: new namespaces of users"
    )


@pytest.mark.slow
@needs_sandbox
def test_a_python_whose_path_goes_up_and_down_has_a_sandbox(tmp_path):
    """Where the paths of Python have `..` in them, because of how it was started, there is a sandbox with it."""
    own = tmp_path / "deep" / "own"
    (own / "bin").mkdir(parents=True)
    (own.parent / "elsewhere").mkdir()
    (own / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/lib/../bin\n")
    (own / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    program = (
        "import anyio, sys\nfrom sim.tools.process import *\nassert '..' in sys.executable, sys.executable\n"
        "print(sandbox_fault())\n"
        "command = Command(['python', '-c', 'import sys; print(sys.prefix.endswith(\"own\"))'])\n"
        "print(anyio.run(run_process, command.request(), '')['stdout']['text'])"
    )
    variables = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        ["../own/bin/python", "-c", program],
        cwd=own.parent / "elsewhere", env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["None", "True"], done.stdout + done.stderr


SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.mark.skipif(
    FAULT is not None or sys.platform == "win32" or os.geteuid() != 0 or not Path(SYSTEM_PYTHON).exists(),
    reason="the tests do not run as root, or there is no other Python",
)
def test_the_sandbox_needs_no_root():
    """A user without rights gets the same sandbox: no network, nothing to write outside, limited processes."""
    program = refused("socket.create_connection(('127.0.0.1', 1), 1)") + refused("open('/usr/x', 'w')")
    limits = {
        "wall": 10, "cpu": 5, "memory": 2**30, "processes": 8, "output": 1000, "file_size": 1000, "files": 10,
        "disk": 2**20, "kept": 1000,
    }  # fmt: skip
    job = {
        "arguments": ["python3", "-c", program],
        "files": {},
        "stdin": "",
        "limits": limits,
        "pythons": ["/usr"],
        "executable": SYSTEM_PYTHON,
    }
    data = json.dumps(job).encode()
    source = (ROOT / "sim" / "tools" / "sandbox.py").read_text()
    with subprocess.Popen(
        [SYSTEM_PYTHON, "-I", "-S", "-c", source], stdin=-1, stdout=-1, env={}, cwd="/", user=65534, group=65534,
        extra_groups=[],
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(struct.pack("!Q", len(data)) + data)
        process.stdin.flush()
        report = json.loads(process.stdout.read())
    assert report["stdout"]["text"].split("\n")[:2] == ["OSError 101", "OSError 30"], report

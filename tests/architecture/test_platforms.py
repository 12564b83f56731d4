"""What can be known here about Windows and macOS: no module needs what only some systems have."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ELSEWHERE = """
import contextlib, importlib, io, json, os, pkgutil, signal, sys
import sim

scenario, out = sys.argv[1], io.StringIO()


def names():
    left_out = ("sim.__main__", "sim.kinds.executor.pytest_driver", "sim.tools.sandbox", "sim.kernel.compiled._core")
    return [module.name for module in pkgutil.walk_packages(sim.__path__, "sim.") if module.name not in left_out]


def call(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            importlib.import_module("sim.cli").main(list(arguments))
        except SystemExit as end:
            assert not end.code, (arguments, end.code)
    return out.getvalue()


here = json.loads(call("run", scenario, "--no-record", "--json"))["hash"]
for name in names():  # so that the libraries are imported as what this system is
    importlib.import_module(name)
for name in [name for name in sys.modules if name == "sim" or name.startswith("sim.")]:
    del sys.modules[name]
missing = "curses fcntl grp posix pty pwd readline resource syslog termios tty _posixshmem _posixsubprocess"
sys.modules.update(dict.fromkeys(missing.split()))
for module, missing in (
    (os, "chown confstr fchmod fchown fdatasync fork getegid geteuid getgid getloadavg getpgid getpriority getuid"
         " killpg lchown lockf mkfifo mknod nice openpty posix_fadvise pread pwrite sched_getaffinity sendfile setpgid"
         " setsid statvfs sync sysconf uname wait3 wait4 waitid O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC"
         " WNOHANG"),
    (signal, "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH alarm"
             " pause pthread_kill pthread_sigmask setitimer siginterrupt sigwait"),
):
    for name in missing.split():
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "win32"
import sim

for name in names():
    importlib.import_module(name)
there = json.loads(call("run", scenario, "--json"))["hash"]
for verb in ("list", "show", "report", "replay"):
    assert call(verb, *(["ecology"] if verb != "list" else [])), verb
print(here == there)
"""
"""Runs a scenario twice: as always, and with a fresh `sim` where modules and functions are missing as on Windows."""


@pytest.mark.proof
def test_nothing_needs_what_windows_lacks(tmp_path):
    """Every module is imported without the modules, functions and signals of POSIX, and a run has the same hash."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(ROOT / "scenarios/ecology.yaml")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.proof
def test_the_compiled_part_is_standard_c():
    """The C is ISO C11 without extensions of one compiler, except that Python's tables hold functions as `void *`."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip("no C compiler on this machine")
    done = subprocess.run(
        [
            compiler, "-std=c11", "-pedantic", "-Wvla", "-fsyntax-only", "-isystem", sysconfig.get_path("include"),
            *map(str, sorted((ROOT / "sim/kernel/compiled").glob("*.c"))),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    warnings = re.findall(r"^.*(?:warning|error): .*$", done.stderr, re.MULTILINE)
    assert [line for line in warnings if "ISO C forbids initialization between function pointer" not in line] == []

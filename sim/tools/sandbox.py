"""Edge: the program that puts a command into a sandbox and watches it. `sim.tools.process` starts it.

It runs alone (`python -I -S sandbox.py`), with the standard library only. Three processes work together:

- the *warden* reads the job, collects the output, keeps the limits and reports; it is outside the command's sight;
- *init* is process 1 of a new PID namespace. It builds the file system, gives up all rights, and reaps. When it ends,
  the kernel kills every process of the namespace, so a command cannot leave one behind, whatever it does;
- the *command*.

The job comes on standard input, and the report goes to standard output as JSON. Standard input then stays open: when it
is closed, because the caller wants an end or has died, the warden kills init.

What the command sees is a new root: programs (read-only), a `/proc` of its own, five devices, and one tmpfs with a size
and a number of files for its folder, `/tmp` and `/dev/shm`. The tmpfs disappears with the last process, so no command
leaves anything on disk, even if everything is killed.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import resource
import select
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO, NoReturn, TypedDict

assert sys.platform == "linux", "the system calls are those of Linux; sim.tools.process starts it nowhere else"


class Limits(TypedDict):
    """What the command may use; see `sim.tools.process.ProcessLimits`."""

    wall: float
    cpu: int
    memory: int
    processes: int
    output: int
    file_size: int
    disk: int
    files: int
    kept: int


class CommandJob(TypedDict):
    """What the caller asks for: a command, its files and limits, and where Python is on this machine."""

    arguments: list[str]
    files: dict[str, str]
    stdin: str
    limits: Limits
    pythons: list[str]
    executable: str


class Reported(TypedDict, total=False):
    """What init tells the warden."""

    built: bool
    status: int
    refused: str


class Text(TypedDict):
    """The beginning of a text, and how long it is in bytes."""

    text: str
    truncated: bool
    bytes: int


class HashedOutput(Text):
    """A text with its hash; None if it was not read as a whole."""

    sha256: str | None


class CommandReport(TypedDict):
    """How a command ended."""

    exit_code: int | None
    killed_by: str | None
    stdout: HashedOutput
    stderr: HashedOutput
    files: dict[str, HashedOutput]
    deleted: list[str]
    others: int


class Refusal(TypedDict):
    """Why a command was refused."""

    refused: str


class Nothing(TypedDict):
    """The message if the caller wanted the end of the command: it is empty."""


FOLDER = "/run/sim-command"
"""The folder of the command in its own file system: a name that no other text contains by chance."""

STAMP = 946_684_800
"""The time of the files that a command gets: 2000-01-01, so that their age says nothing about the run."""

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
    "/etc/alternatives", "/etc/ld.so.cache",
)  # fmt: skip
"""What of the machine a command can read, beside the Python that runs it."""

DEVICES = ("null", "zero", "full", "random", "urandom")

USER = 1000
"""The user and group of a command, as it sees itself."""

NOBODY = 65534
"""The user and group that a command has outside its namespace if root starts it: nobody (Linux Standard Base)."""

DEEPEST = 32
"""Levels of folders that are looked into for changed files."""

HASHED = 64
"""How many times the kept output a command may write before it is killed. So the hash covers a bounded amount."""

BUILDING = 20.0
"""Seconds in which a sandbox must be built, on a machine that is busy."""

_OWN_INODES = 64
"""Folders of the tmpfs that are there before a command starts."""

TICK = 0.05
"""Seconds between two looks at the memory of all processes."""

_PASSWD = f"user:x:{USER}:{USER}::{FOLDER}:/bin/sh\n"
_GROUP = f"user:x:{USER}:\n"

# -- constants of Linux (include/uapi); the numbers of these system calls are the same on every architecture

_CLONE_NEW = {
    "users": 0x10000000, "mounts": 0x20000, "processes": 0x20000000, "networks": 0x40000000, "messages": 0x08000000,
    "names": 0x04000000, "control groups": 0x02000000,
}  # fmt: skip
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _MNT_DETACH = -100, 0x1000, 0x8000, 2
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_ADDR_NO_RANDOMIZE = 0x0040000
_CAPABILITY_VERSION_3 = 0x20080522

# What a command may not call: families of sockets that no network namespace confines (such as vsock of virtual
# machines), memory that no limit counts, keys of the user, and large parts of the kernel that a command has no use for.
_ARCHITECTURES: dict[str, tuple[int, int, int, tuple[int, ...], tuple[int, int, int]]] = {
    # name: AUDIT_ARCH, socket, socketpair,
    #   (memfd_create, memfd_secret, shmget, msgget, add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd,
    #   io_uring_setup), (pivot_root, capset, personality)
    "x86_64": (0xC000003E, 41, 53, (319, 447, 29, 68, 248, 249, 250, 321, 298, 323, 425), (155, 126, 135)),
    "aarch64": (0xC00000B7, 198, 199, (279, 447, 194, 186, 217, 218, 219, 280, 241, 282, 425), (41, 91, 92)),
}
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: the network namespace confines them."""

_libc = ctypes.CDLL(None, use_errno=True)


class RefusedError(Exception):
    """The machine cannot give a complete sandbox. The text says which part is missing."""


@contextlib.contextmanager
def _needed(what: str) -> Iterator[None]:
    """Turn an error of the system into a refusal that names `what` could not be had."""
    try:
        yield
    except OSError as error:
        raise RefusedError(f"{what}: {error.strerror or error}") from error


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    texts = [text.encode() for text in (source, target, kind)]
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), data.encode()))


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _restrict(fd: int, attributes: int, *, recursive: bool = True) -> None:
    """Add attributes (`_ATTR_...`) to the mount that `fd` refers to and, if `recursive`, to those below it."""
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, fd, b"", flags, request, ctypes.c_size_t(len(request))))


def _tree(path: str, attributes: int) -> int:
    """Return a file descriptor of a detached copy of the mounts at `path`, with `attributes` added."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    fd = _checked(_libc.syscall(_OPEN_TREE, _AT_FDCWD, path.encode(), flags))
    _restrict(fd, attributes)
    return fd


def _attach(fd: int, target: str) -> None:
    _checked(_libc.syscall(_MOVE_MOUNT, fd, b"", _AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH))
    os.close(fd)


# -- namespaces


def _architecture() -> tuple[int, int, int, tuple[int, ...], tuple[int, int, int]]:
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None or sys.maxsize < 2**32:
        raise RefusedError(f"system calls cannot be filtered on a processor of type {platform.machine()!r}")
    return architecture


def _separate() -> None:
    """Enter new namespaces. The next child is process 1 of a new PID namespace."""
    root = os.geteuid() == 0
    flags = 0
    for flag in _CLONE_NEW.values():
        flags |= flag
    if root:
        with _map_from_outside():
            _unshare(flags)
        with _needed("the groups of root cannot be given up"):
            os.setgroups([])
        return
    user, group = os.geteuid(), os.getegid()
    _unshare(flags)
    with _needed("the user cannot be mapped into a user namespace"):
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{USER} {user} 1")
        _write("/proc/self/gid_map", f"{USER} {group} 1")


def _unshare(flags: int) -> None:
    with _needed("new namespaces of users, mounts, processes and networks cannot be made"):
        _checked(_libc.unshare(flags))


@contextlib.contextmanager
def _map_from_outside() -> Iterator[None]:
    """Let a process outside map root, for the building of the sandbox, and the user `nobody`, for the command.

    A process can map only itself from inside. The command must not be root, because limits do not hold for root.
    """
    ready, go = os.pipe()
    parent = os.getpid()
    mapper = os.fork()
    if mapper == 0:
        try:
            os.close(go)
            os.read(ready, 1)
            for name in ("uid_map", "gid_map"):
                _write(f"/proc/{parent}/{name}", f"0 0 1\n{USER} {NOBODY} 1\n")
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(ready)
    try:
        yield
    finally:
        os.close(go)
        _, status = os.waitpid(mapper, 0)
    if status:
        raise RefusedError("the user nobody cannot be mapped into a user namespace")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# -- the file system of a command


def _build(job: CommandJob) -> None:
    """Make a root of programs and one tmpfs, and leave the old root. Only process 1 can do this: `/proc` is its own."""
    new = "/tmp"  # noqa: S108 - any folder serves: what is mounted here is seen in this namespace only
    limits = job["limits"]
    with _needed("the mounts cannot be separated from those of the machine"):
        _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    with _needed("the programs of the machine cannot be mounted read-only"):
        sources = [*_programs(job["pythons"]), *_devices()]
    with _needed("a new root cannot be built"):
        _mount("tmpfs", new, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=0755")
        for name, text in (("passwd", _PASSWD), ("group", _GROUP), ("hosts", "127.0.0.1 localhost\n")):
            os.makedirs(f"{new}/etc", exist_ok=True)
            with open(f"{new}/etc/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        _scratch(new, f"size={limits['disk']},nr_inodes={limits['files'] + _OWN_INODES},mode=0711")
        for place, target, fd in sources:  # after the above: a Python may stand below /tmp
            _place(new + place, target, fd)
        for path in (*job["pythons"], os.path.dirname(job["executable"])):
            _make_way(new, path)
    with _needed("a list of its own processes (/proc) cannot be mounted"):
        os.mkdir(f"{new}/proc")
        _mount("proc", f"{new}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        _write(f"{new}/proc/sys/user/max_user_namespaces", "0")  # no namespace of its own, in which it would be root
    with _needed("the new root cannot be entered"):
        os.chdir(new)
        pivot_root = _architecture()[4][0]
        _checked(_libc.syscall(pivot_root, b".", b"."))  # the old root now lies over the new one
        _checked(_libc.umount2(b".", _MNT_DETACH))
        os.chdir("/")
        for path in ("/", "/proc"):
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            _restrict(fd, _ATTR_RDONLY, recursive=False)
            os.close(fd)
    _fill(job["files"])


def _programs(pythons: list[str]) -> list[tuple[str, str | None, int]]:
    """Return what a command may read: its place in the new root, and a link's target or the mount to put there."""
    mounts: list[tuple[str, str | None, int]] = []
    attributes = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV
    taken: list[str] = []
    plain = [path for path in pythons if ".." not in path.split("/")]  # `_make_way` makes the others lead there
    for path in (*SYSTEM, *sorted({*plain, *map(os.path.realpath, pythons)})):
        if any(path == other or path.startswith(f"{other}/") for other in taken) or not os.path.lexists(path):
            continue
        if os.path.islink(path) and path in SYSTEM:
            mounts.append((path, os.readlink(path), -1))
        else:
            mounts.append((path, None, _tree(os.path.realpath(path), attributes)))
            taken.append(path)
    return mounts


def _devices() -> list[tuple[str, str | None, int]]:
    attributes = _ATTR_NOSUID | _ATTR_NOEXEC | _ATTR_RDONLY  # a device can be written all the same
    return [(f"/dev/{name}", None, _tree(f"/dev/{name}", attributes)) for name in DEVICES]


def _place(place: str, target: str | None, fd: int) -> None:
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if target is not None:
        os.symlink(target, place)
        return
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.makedirs(place, exist_ok=True)
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    _attach(fd, place)


def _make_way(new: str, path: str) -> None:
    """Make the folders and links that a path goes through, so that it leads to the same place in the new root.

    The path of Python has `..` in it if it was started as `../own/bin/python`.
    """
    here = "/"
    for part in path.split("/")[1:]:
        step = os.path.dirname(here) if part == ".." else os.path.join(here, part)
        here = os.path.realpath(step)
        if os.path.lexists(new + step):
            continue
        if here == step:
            os.makedirs(new + step)
        else:
            os.makedirs(os.path.dirname(new + step), exist_ok=True)
            os.symlink(here, new + step)


def _scratch(new: str, options: str) -> None:
    """Mount the tmpfs of a command: its folder, `/tmp` and `/dev/shm` share one size and one number of files."""
    scratch = f"{new}/run/scratch"
    os.makedirs(scratch)
    _mount("tmpfs", scratch, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
    for name, place in (("folder", FOLDER), ("tmp", "/tmp"), ("shm", "/dev/shm")):  # noqa: S108 - its own ones
        os.mkdir(f"{scratch}/{name}", 0o700)
        os.chown(f"{scratch}/{name}", USER, USER)
        os.makedirs(new + place, exist_ok=True)
        _attach(_tree(f"{scratch}/{name}", 0), new + place)


def _fill(files: dict[str, str]) -> None:
    """Write the files of the request. The folder is new and nothing runs yet, so no name can lead through a link."""
    for name, text in files.items():
        data = text.encode()
        folder = FOLDER
        for part in name.split("/")[:-1]:
            folder = f"{folder}/{part}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                os.chown(folder, USER, USER)
        fd = os.open(f"{FOLDER}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fchown(fd, USER, USER)
                os.utime(fd, (STAMP, STAMP))
        except OSError as error:
            raise RefusedError(f"the files of the command cannot be written: {error.strerror}") from error


# -- process 1, and the command


def _give_up_rights(capset: int) -> None:
    """Become the user of the command, without capabilities and without a way to get any."""
    with _needed("rights cannot be given up"):
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
        _checked(_libc.syscall(capset, header, bytes(24)))
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _init(job: CommandJob, go: int, status: int, streams: tuple[int, int, int], *, shared_user: bool) -> NoReturn:
    """Be process 1: build, start the command, and end when it ends."""
    try:
        os.setsid()
        _write_oom_score()
        _build(job)
        _, _, _, _, (_, capset, _) = _architecture()
        with contextlib.suppress(OSError):
            _checked(_libc.sethostname(b"sandbox", 7))
        _give_up_rights(capset)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if the warden is killed
        _prctl(_PR_SET_DUMPABLE, 0)  # the command cannot look into this process
        _tell(status, {"built": True})
        if not os.read(go, 1):
            os._exit(1)  # the warden was killed before that
        main = os.fork()
        if main == 0:
            _command(job, streams, shared_user=shared_user)
    except RefusedError as error:
        _tell(status, {"refused": str(error)})
        os._exit(0)
    except BaseException as error:
        _tell(status, {"refused": f"an unexpected error: {type(error).__name__}: {error}"})
        os._exit(0)
    for fd in streams:
        os.close(fd)
    while True:
        pid, how = os.wait()
        if pid == main:
            _tell(status, {"status": how})
            os._exit(0)


def _write_oom_score() -> None:
    """Ask the kernel to end this sandbox first if memory runs out, before it ends the run."""
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "1000")


def _tell(status: int, message: Reported) -> None:
    """Tell the warden: `built`, then the `status` of the command; or `refused`. A message is one line."""
    os.write(status, json.dumps(message).encode() + b"\n")


def _command(job: CommandJob, streams: tuple[int, int, int], *, shared_user: bool) -> NoReturn:
    """Become the command. Its errors go to its own standard error, as a shell's would."""
    arguments = job["arguments"]
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.closerange(3, 1024)
        os.chdir(FOLDER)
        os.umask(0o077)
        _limit(job["limits"], 2 if shared_user else 1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _libc.syscall(_architecture()[4][2], ctypes.c_ulong(_ADDR_NO_RANDOMIZE))  # the same addresses in each run
        _filter()
        os.execvpe(arguments[0], arguments, _environment(job["pythons"]))  # noqa: S606 - a list of arguments, and no shell
    except OSError as error:
        os.write(2, f"{arguments[0]}: cannot be started: {error.strerror}\n".encode(errors="replace"))
    except BaseException as error:
        os.write(2, f"{arguments[0]}: cannot be started: {error}\n".encode(errors="replace"))
    os._exit(127)


def _limit(limits: Limits, others: int) -> None:
    """Set the limits. `others` processes of the sandbox count as well: process 1, and the warden if not root."""
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits["memory"], limits["memory"]),
        (resource.RLIMIT_CPU, limits["cpu"], limits["cpu"] + 1),
        (resource.RLIMIT_FSIZE, limits["file_size"], limits["file_size"]),
        (resource.RLIMIT_NPROC, limits["processes"] + others, limits["processes"] + others),
        (resource.RLIMIT_NOFILE, 256, 256),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_MEMLOCK, 0, 0),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _filter() -> None:
    """Refuse some system calls (seccomp). A call for another architecture kills the process."""
    audit, socket, socketpair, denied, _ = _architecture()
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    kill, refuse, allow = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
    code = [(load, 0, 0, 4), (equal, 1, 0, audit), (end, 0, 0, kill), (load, 0, 0, 0)]
    code += [(at_least, 0, 1, 0x40000000), (end, 0, 0, refuse)]  # the x32 numbers of x86
    for number in denied:
        code += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    code += [(equal, 1, 0, socket), (equal, 0, len(_FAMILIES) + 2, socketpair), (load, 0, 0, 16)]
    code += [(equal, len(_FAMILIES) - index, 0, family) for index, family in enumerate(_FAMILIES)]
    code += [(end, 0, 0, refuse), (end, 0, 0, allow)]
    packed = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    program = _FilterProgram(len(code), packed)
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0))


# -- the warden


class _Output:
    """One stream of the command: its first bytes, and a hash of the whole.

    Args:
        kept: bytes that are kept. `HASHED` times as many are hashed.
    """

    def __init__(self, kept: int) -> None:
        self.data = bytearray()
        self.bytes = 0
        self._kept = kept
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        data = data[: self._kept * HASHED - self.bytes]
        self.bytes += len(data)
        self._hash.update(data)
        self.data += data[: self._kept - len(self.data)]

    @property
    def full(self) -> bool:
        return self.bytes >= self._kept * HASHED

    def report(self, pythons: list[str]) -> HashedOutput:
        return {**_text(bytes(self.data), self.bytes, pythons), "sha256": self._hash.hexdigest()}


def _text(data: bytes, size: int, pythons: list[str]) -> Text:
    """Return the beginning of a text of `size` bytes, without places of this machine.

    A character that the cut went through is left out. The folder is `.`, and what holds Python is `<python>`.
    """
    cut = size > len(data)
    text = data.decode("utf-8", "replace")
    if cut:
        text = text.rstrip("\ufffd")
    for path, word in ((FOLDER, "."), *((path, "<python>") for path in pythons)):
        if path not in SYSTEM:
            text = re.sub(re.escape(path) + r"(?![\w-])", word, text)
    return {"text": text, "truncated": cut, "bytes": size}


def _environment(pythons: list[str]) -> dict[str, str]:
    """Return the environment of a command: always the same but for the place of Python, and nothing of the caller's."""
    path = ":".join([f"{python}/bin" for python in pythons if python not in SYSTEM] + ["/usr/local/bin:/usr/bin:/bin"])
    return {
        "HOME": FOLDER,
        "LANG": "C.UTF-8",
        "PATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": str(STAMP),
        "TMPDIR": "/tmp",  # noqa: S108 - its own one
        "TZ": "UTC",
    }


class _Warden:
    """Watches the command until it ends, or must end.

    Attributes:
        reported: what process 1 reported.
        killed_by: the limit that was exceeded, `caller` if standard input was closed, or None.
    """

    def __init__(self, init: int, limits: Limits, status: int, streams: tuple[int, int]) -> None:
        self._init = init
        self._limits = limits
        self._status = status
        self._outputs = {fd: _Output(limits["output"]) for fd in streams}
        self._streams = streams
        self.reported: Reported = {}
        self.killed_by: str | None = None

    def wait_until_built(self) -> None:
        """Wait until init has left the old root. Before that, `/proc` and the folder would be those of the machine.

        Raises:
            RefusedError: if it cannot build the sandbox, or not in time.
        """
        poll = self._poll(0, self._status)
        deadline = time.monotonic() + BUILDING
        while "built" not in self.reported and self.killed_by is None:
            for fd, _ in poll.poll(TICK * 1000):
                if fd == 0:
                    self.killed_by = "caller"  # standard input was closed
                elif not self._read(fd):
                    self._end()
                    raise RefusedError(self.reported.get("refused", "process 1 of the sandbox was killed"))
            if time.monotonic() >= deadline:
                self._end()
                raise RefusedError(f"the sandbox could not be built in {BUILDING:g} seconds")

    def watch(self) -> None:
        """Wait until the command has ended or exceeds a limit, or the caller wants an end. Then end everything."""
        poll = self._poll(0, self._status, *self._streams)
        deadline = time.monotonic() + self._limits["wall"]
        looked = time.monotonic()
        ended = False
        while not ended and self.killed_by is None:
            for fd, _ in poll.poll(TICK * 1000):
                if fd == 0:
                    self.killed_by = "caller"
                elif not self._read(fd):
                    poll.unregister(fd)
                    ended = ended or fd == self._status
            now = time.monotonic()
            if ended or self.killed_by is not None:
                break
            if now >= deadline:
                self.killed_by = "time"
            elif now - looked >= TICK:
                looked = now
                if self._memory() > self._limits["memory"]:
                    self.killed_by = "memory"
        self._end()

    @staticmethod
    def _poll(*fds: int) -> "select.poll":
        poll = select.poll()
        for fd in fds:
            poll.register(fd, select.POLLIN)
        return poll

    def _read(self, fd: int) -> bool:
        """Read from a descriptor, and return whether it is still open."""
        data = os.read(fd, 2**16)
        if fd == self._status:
            for line in data.splitlines():  # each is written at once, so it arrives whole
                self.reported |= json.loads(line)
        else:
            output = self._outputs[fd]
            output.add(data)
            if output.full:
                self.killed_by = self.killed_by or "output"
        return bool(data)

    def _end(self) -> None:
        """Kill every process of the namespace, wait until all are gone, and read what they have left in the pipes."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._init, signal.SIGKILL)
        os.waitpid(self._init, 0)  # the kernel returns from here when the last process of the namespace is gone
        for fd in (self._status, *self._streams):
            while self._read(fd):
                pass

    def _memory(self) -> int:
        """Return the bytes of private and shared memory of all processes together."""
        total = 0
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError), open(f"/proc/{name}/status", "rb") as file:
                    total += sum(int(line.split()[1]) for line in file if line.startswith((b"RssAnon:", b"RssShmem:")))
        return total * 1024

    def report(self, pythons: list[str]) -> tuple[HashedOutput, HashedOutput]:
        """Return standard output and standard error of the command."""
        out, err = (self._outputs[fd].report(pythons) for fd in self._streams)
        return out, err


_SIGNALS = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file_size"}


def _ending(reported: Reported, killed_by: str | None) -> tuple[int | None, str | None]:
    """Return the exit code of the command, or what it was killed by."""
    if killed_by is None and "status" in reported:
        code = os.waitstatus_to_exitcode(reported["status"])
        if code >= 0:
            return code, None
        number = signal.Signals(-code)
        killed_by = _SIGNALS.get(number, number.name)
    return None, killed_by or "SIGKILL"


def _changes(job: CommandJob) -> tuple[dict[str, HashedOutput], list[str], int]:
    """Return the files of the folder that are new or changed, the names of those that are gone, and how many are none.

    Only files with holes, or with several names, can be larger together than the disk. Then the hash of the largest
    ones is left out, as their bytes would take long to read.
    """
    files: dict[str, HashedOutput] = {}
    seen: set[str] = set()
    before = job["files"]
    room, others = job["limits"]["kept"], 0
    hashed = _smallest(job["limits"]["disk"])
    for name, fd in _regular_files():
        if fd < 0:
            others += 1
            continue
        with open(fd, "rb") as file:
            seen.add(name)
            first, size = file.read(room), os.fstat(fd).st_size
            digest = _hash_of(first, file) if name in hashed else None
        if name in before and hashlib.sha256(before[name].encode()).hexdigest() == digest:
            continue
        files[name] = {**_text(first, size, job["pythons"]), "sha256": digest}
        room -= len(first)
    return files, sorted(before.keys() - seen), others


def _hash_of(first: bytes, file: BinaryIO) -> str:
    whole = hashlib.sha256(first)
    while block := file.read(2**16):
        whole.update(block)
    return whole.hexdigest()


def _smallest(most: int) -> set[str]:
    """Return the names of the smallest regular files, which have no more than `most` bytes together."""
    sizes = []
    for name, fd in _regular_files():
        if fd >= 0:
            sizes.append((os.fstat(fd).st_size, name))
            os.close(fd)
    names = set()
    for size, name in sorted(sizes):
        most -= size
        if most < 0:
            break
        names.add(name)
    return names


def _regular_files() -> Iterator[tuple[str, int]]:
    """Yield names and descriptors of regular files, in order. A descriptor of -1 stands for anything else.

    All processes are gone, so nothing changes meanwhile. No link is followed.
    """
    fd = os.open(FOLDER, _FOLDER_FLAGS)
    yield from _regular_files_in(fd, ())


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _regular_files_in(folder: int, path: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    try:
        for entry in sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name)):
            name = "/".join((*path, entry.name))
            if entry.name == "__pycache__":
                continue  # bytecode holds the times of its sources
            if not _is_text(name):
                yield name, -1
            elif entry.is_dir(follow_symlinks=False) and len(path) < DEEPEST:
                yield from _regular_files_in(os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder), (*path, entry.name))
            elif entry.is_file(follow_symlinks=False):
                yield name, os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            else:
                yield name, -1
    finally:
        os.close(folder)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _standard_input(text: str) -> int:
    """Return a descriptor of a file in memory with `text`, which the command cannot change or let grow."""
    fd = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(os.dup(fd), "wb") as file:
        file.write(text.encode())
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _run(job: CommandJob) -> CommandReport | Nothing:
    """Run the command of a job, and return the report."""
    _architecture()
    shared_user = os.geteuid() != 0
    _separate()
    stdin = _standard_input(job["stdin"])
    out, err, status, go = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    init = os.fork()
    if init == 0:
        os.close(go[1])
        _init(job, go[0], status[1], (stdin, out[1], err[1]), shared_user=shared_user)
    for fd in (stdin, out[1], err[1], status[1], go[0]):
        os.close(fd)
    warden = _Warden(init, job["limits"], status[0], (out[0], err[0]))
    warden.wait_until_built()
    os.write(go[1], b"!")
    warden.watch()
    if "refused" in warden.reported:
        raise RefusedError(warden.reported["refused"])
    if warden.killed_by == "caller":
        return {}
    code, killed_by = _ending(warden.reported, warden.killed_by)
    printed, complained = warden.report(job["pythons"])
    files, deleted, others = _changes(job)
    return {
        "exit_code": code,
        "killed_by": killed_by,
        "stdout": printed,
        "stderr": complained,
        "files": files,
        "deleted": deleted,
        "others": others,
    }


def main() -> None:
    """Read a job, run it, and write the report."""
    try:
        (length,) = struct.unpack("!Q", _read_exactly(8))
        job: CommandJob = json.loads(_read_exactly(length))
    except EOFError:
        return
    report: CommandReport | Nothing | Refusal
    try:
        report = _run(job)
    except RefusedError as error:
        report = {"refused": str(error)}
    except Exception as error:
        report = {"refused": f"an unexpected error: {type(error).__name__}: {error}"}
    with open(1, "wb") as file:
        file.write(json.dumps(report).encode())


def _read_exactly(length: int) -> bytes:
    data = b""
    while len(data) < length:
        block = os.read(0, min(length - len(data), 2**20))
        if not block:
            raise EOFError
        data += block
    return data


if __name__ == "__main__":
    main()

"""Edge: commands in a sandbox, as effects. `sim.tools.sandbox` is the program that makes the sandbox.

A command is a list of arguments, never a line for a shell. Its request holds everything that it gets: the arguments,
the files of its folder, its standard input, and its limits. So its outcome can be recorded, replayed and repeated like
that of any other pure effect.

    tools = ProcessTools(allowed=True)
    outcome = await perform(tools.effect(Command(["python", "sum.py"], files={"sum.py": "print(1 + 1)"})))
    outcome.value["stdout"]["text"]  # "2\\n"

What a sandbox guarantees is written in docs/tools.md. Where the machine cannot give all of it, commands are refused:
there is no weaker form.
"""

import functools
import json
import struct
import subprocess
import sys
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

import anyio
import anyio.abc
import anyio.lowlevel
import attrs

from sim.base.child import Child
from sim.base.errors import RunError, UsageError
from sim.kernel.codec import Json, JsonObject
from sim.kernel.duration import Duration
from sim.kernel.effects import Effect
from sim.tools.tool import Tool

KIND = "tool.process"
"""The kind of the effect of a command."""

KilledBy = Literal["time", "cpu", "memory", "output", "file_size"]
"""The limit that ended a command. If something else did, the result has the name of the signal, such as `SIGSEGV`."""

LONGEST_REQUEST = 8 * 2**20
"""Bytes of all files, arguments and the standard input of one command. They stay in the record."""

LONGEST_NAME = 512
"""Bytes of the name of a file with its folders. The kernel allows 4096 for a whole path."""

DEEPEST = 32
"""Levels of folders in the name of a file; deeper ones are not looked into for changes."""

_PROGRAM = Path(__file__).with_name("sandbox.py")
_LONGEST_REPORT = 64 * 2**20
_GRACE = 30.0
"""Seconds beside the time of the command, for the start, and for reading the files that it has changed."""

_PATIENCE = 5.0
"""Seconds in which the sandbox must end when its work is no longer wanted; after that it is killed."""


def _between(low: float, high: float) -> Any:
    def check(_: object, attribute: "attrs.Attribute[Any]", value: Any) -> None:
        if value.__class__ not in (int, float) or (attribute.type is int and value.__class__ is float):
            raise UsageError(f"the limit {attribute.name} of a command must be a number, not {value!r}")
        if not low <= value <= high:
            raise UsageError(f"the limit {attribute.name} of a command must be from {low:g} to {high:g}, not {value!r}")

    return check


@attrs.frozen(kw_only=True)
class ProcessLimits:
    """What one command may use. A limit that is exceeded ends the command, or makes its own call fail.

    Args:
        wall: real seconds.
        cpu: seconds of processor time of each process.
        memory: bytes of address space of each process, and of memory of all processes together.
        processes: processes and threads at one time.
        output: bytes that are kept of each of the two outputs. 64 times as many may be written.
        file_size: bytes of one file.
        disk: bytes of all files in the folder of the command, its `/tmp` and its `/dev/shm`.
        files: number of these files and folders.
        kept: bytes that are kept of the changed files together.

    Raises:
        UsageError: if a limit is no number or out of range.
    """

    wall: float = attrs.field(default=30.0, validator=_between(0.1, 3600))
    cpu: int = attrs.field(default=30, validator=_between(1, 3600))
    memory: int = attrs.field(default=2**30, validator=_between(2**24, 2**40))
    processes: int = attrs.field(default=64, validator=_between(1, 4096))
    output: int = attrs.field(default=2**16, validator=_between(1, 2**19))
    file_size: int = attrs.field(default=2**24, validator=_between(1, 2**32))
    disk: int = attrs.field(default=2**26, validator=_between(2**16, 2**34))
    files: int = attrs.field(default=1000, validator=_between(1, 10**6))
    kept: int = attrs.field(default=2**20, validator=_between(1, 2**20))


def _arguments(value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise UsageError(
            f"the arguments of a command must be a list of texts, not {type(value).__name__}",
            hint='write ["python", "main.py"], because no shell takes a line apart',
        )
    for argument in value:
        if not _is_text(argument) or "\0" in argument:
            raise UsageError(f"an argument of a command must be a text without NUL, not {argument!r}")
    if not value or not value[0]:
        raise UsageError("a command needs at least the name of its program")
    return tuple(value)


def _files(value: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise UsageError(f"the files of a command must be texts by name, not {type(value).__name__}")
    for name, text in value.items():
        check_file_name(name)
        if not _is_text(text):
            raise UsageError(f"the file {name!r} of a command must hold text")
    for name in value:
        check_folders(name, value)
    return dict(value)


def check_file_name(name: object) -> None:
    """Check the name of a file of a command: it stays in its folder, and a file system takes it.

    Raises:
        UsageError: if it does not.
    """
    if not _is_text(name) or not isinstance(name, str) or not name or not name.isprintable() or "\\" in name:
        raise UsageError(f"the name of a file must be printable text without backslashes, not {name!r}")
    parts = name.split("/")
    if any(part in ("", ".", "..", "__pycache__") for part in parts):
        raise UsageError(
            f"the name of a file must stay in its folder, and {name!r} does not", hint="write it as `part/part`"
        )
    if len(parts) > DEEPEST or len(name.encode()) > LONGEST_NAME or any(len(part.encode()) > 255 for part in parts):
        raise UsageError(f"the name of a file is too long: {name[:40]!r}...")


def check_folders(name: str, files: Container[str]) -> None:
    """Check that no folder in the name of a file is a file as well.

    Args:
        name: the name.
        files: the names of the other files.

    Raises:
        UsageError: if one is.
    """
    parts = name.split("/")
    for length in range(1, len(parts)):
        if (folder := "/".join(parts[:length])) in files:
            raise UsageError(f"{folder!r} cannot be both a file and the folder of {name!r}")


def _is_text(value: object) -> bool:
    """Tell whether `value` is a str that UTF-8 can say: without lone surrogates."""
    with suppress(UnicodeEncodeError):
        return isinstance(value, str) and value.encode() is not None
    return False


def _stdin(value: str) -> str:
    if not _is_text(value):
        raise UsageError("the standard input of a command must be text")
    return value


@attrs.frozen
class Command:
    """A command and everything that it gets.

    Args:
        arguments: the program and its arguments. A name without `/` is searched for in the environment of Python that
            runs `sim`, then in `/usr/local/bin`, `/usr/bin` and `/bin`.
        files: texts by name, relative to the folder in which the command starts, such as `tests/test_one.py`.
        stdin: its standard input.
        limits: what it may use.

    Raises:
        UsageError: if an argument or a file is no text, a name leaves the folder, or all is too large.
    """

    arguments: tuple[str, ...] = attrs.field(converter=_arguments)
    files: Mapping[str, str] = attrs.field(factory=dict, converter=_files)
    stdin: str = attrs.field(default="", converter=_stdin)
    limits: ProcessLimits = attrs.field(factory=ProcessLimits, validator=attrs.validators.instance_of(ProcessLimits))

    def __attrs_post_init__(self) -> None:
        texts = (*self.arguments, *self.files, self.stdin)
        size, files = (sum(len(text.encode()) for text in group) for group in (texts, self.files.values()))
        if size + files > LONGEST_REQUEST:
            raise UsageError(f"a command may get {LONGEST_REQUEST} bytes in all, and this one gets {size + files}")
        if files > self.limits.disk or len(self.files) > self.limits.files:
            raise UsageError("the files of a command must fit into its limits `disk` and `files`")

    def request(self) -> dict[str, Json]:
        """Return the command as a JSON value: the request of its effect."""
        return {
            "arguments": list(self.arguments),
            "files": dict(self.files),
            "stdin": self.stdin,
            "limits": attrs.asdict(self.limits),
        }

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Command":
        """Return the command of a request, with all checks.

        Raises:
            UsageError: if it is not the request of a command.
        """
        try:
            return cls(**{**request, "limits": ProcessLimits(**request.get("limits", {}))})
        except (TypeError, AttributeError) as error:
            raise UsageError(f"this is no request of a command: {error}") from error


class Output(TypedDict):
    """What a command wrote: its beginning as `text`, and how long it is and which hash it has as a whole."""

    text: str
    truncated: bool
    bytes: int
    sha256: str | None


class ProcessResult(TypedDict):
    """How a command ended; see `run_process`."""

    exit_code: int | None
    timed_out: bool
    killed_by: str | None
    stdout: Output
    stderr: Output
    files: dict[str, Output]
    deleted: list[str]
    others: int


async def run_process(request: JsonObject, key: str) -> ProcessResult:
    """Run a command in a sandbox and return its result. This is the `call` of an `Effect`.

    It asks for no permission; `ProcessTools` does. When it returns or is cancelled, no process of the command is left.

    Args:
        request: what `Command.request` returns.
        key: the idempotency key of the effect. A command changes nothing outside, so it is not needed.

    Returns:
        - `exit_code`: None if the command was killed.
        - `timed_out`, and `killed_by`: a `KilledBy`, the name of a signal, or None.
        - `stdout` and `stderr`: each `text`, `truncated`, `bytes`, and `sha256` of all that was written.
        - `files`: by name, each new or changed file, like an output. `sha256` is None for the largest files with holes
          if all files together seem larger than the limit `disk`.
        - `deleted`: the names of files that are gone, and `others`: the number of links, pipes and the like.

        A text that is not UTF-8 has replacement characters. The folder of the command is named `.` in it.

    Raises:
        UsageError: if it is not the request of a command.
        RunError: if the machine cannot give a sandbox. The sentence says what is missing.
    """
    command = Command.of(request)
    deadline = command.limits.wall + _GRACE
    try:
        with anyio.fail_after(deadline):
            report = await _ask_sandbox(_job(command))
    except TimeoutError:
        raise RunError(f"the sandbox of a command gave no report in {deadline:g} seconds") from None
    return _result(report)


@functools.cache
def sandbox_fault() -> str | None:
    """Return why commands cannot be run on this machine, in one sentence, or None. It tries once for each process."""
    try:
        job = _job(Command((sys.executable, "-I", "-S", "-c", "")))
        with subprocess.Popen(_program(), stdin=-1, stdout=-1, stderr=-3, env={}, cwd="/") as process:  # noqa: S603 - this Python
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(job)
            process.stdin.flush()
            result = _result(process.stdout.read())
    except (RunError, OSError) as error:
        return str(error)
    return None if result["exit_code"] == 0 else f"Python cannot be started in a sandbox: {result['stderr']['text']}"


_DESCRIPTION = (
    "Run a program in an empty folder with the given files, without network. No shell reads the arguments. Returns the "
    "exit code, both outputs, and the files that were made or changed."
)
_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "arguments": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'the program and its arguments, such as ["python", "-m", "pytest", "-q"]',
        },
        "files": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "texts by name, relative to the folder",
        },
        "stdin": {"type": "string", "description": "the standard input"},
    },
    "required": ["arguments"],
    "additionalProperties": False,
}


@attrs.frozen(kw_only=True)
class ProcessTools:
    """The permission of the operator to run commands. It is not given by a scenario, an agent or a model.

    The permission is needed when a command is about to run, not before. So a run can be replayed without it.

    Args:
        allowed: whether commands run at all.
        ceiling: the largest limits of a command.
        at_once: the number of commands that run at one time; others wait in real time.
    """

    allowed: bool = False
    ceiling: ProcessLimits = attrs.field(factory=lambda: ProcessLimits(wall=600, cpu=600))
    at_once: int = 2

    def effect(self, command: Command, *, latency_ns: int | None = None) -> Effect:
        """Return the effect that runs a command.

        Args:
            command: the command.
            latency_ns: its duration in simulated nanoseconds, or None: the duration in real time.
        """
        return Effect(KIND, command.request(), self.run, latency_ns=latency_ns, timeout=86_400.0, safety="pure")

    def tool(
        self, name: str = "process.run", *, limits: ProcessLimits | None = None, latency: Duration | None = None
    ) -> Tool:
        """Return a tool with which agents and their models run commands.

        Args:
            name: the name of the tool.
            limits: the limits of each call; a model cannot set them.
            latency: the simulated duration of a call; None: the duration in real time.
        """
        fixed = attrs.asdict(limits or ProcessLimits())

        async def call(arguments: JsonObject) -> ProcessResult:
            return await self.run({**arguments, "limits": fixed}, "")

        return Tool(
            name, call, _DESCRIPTION, _PARAMETERS, runs="process", safety="pure", latency=latency, timeout=86_400.0
        )

    async def run(self, request: JsonObject, key: str) -> ProcessResult:
        """Run a command as `run_process` does, if the operator allows it.

        Raises:
            UsageError: if the operator does not allow commands, or not with these limits.
        """
        if not self.allowed:
            raise UsageError("the operator has not allowed commands in this run")
        limits, ceiling = attrs.asdict(Command.of(request).limits), attrs.asdict(self.ceiling)
        for name, limit in limits.items():
            if limit > ceiling[name]:
                raise UsageError(f"the operator allows commands {name} up to {ceiling[name]:g}, not {limit:g}")
        async with _limiter(self.at_once):
            return await run_process(request, key)


_limiters: anyio.lowlevel.RunVar[dict[int, anyio.CapacityLimiter]] = anyio.lowlevel.RunVar("sim.tools.process")


def _limiter(places: int) -> anyio.CapacityLimiter:
    """Return the limiter of the running event loop."""
    limiters = _limiters.get({})
    _limiters.set(limiters)
    return limiters.setdefault(places, anyio.CapacityLimiter(places))


def _program() -> list[str]:
    if sys.platform != "linux":
        raise RunError(f"commands need the namespaces of Linux, which {sys.platform} does not have")
    if not sys.executable or not _PROGRAM.is_file():
        raise RunError("commands need a Python that knows its own program, and the package as files")
    return [sys.executable, "-I", "-S", "-B", str(_PROGRAM)]


def _job(command: Command) -> bytes:
    pythons = list(dict.fromkeys([sys.prefix, sys.base_prefix]))
    data = json.dumps({**command.request(), "pythons": pythons, "executable": sys.executable}).encode()
    return struct.pack("!Q", len(data)) + data


def _result(report: bytes) -> ProcessResult:
    try:
        result = json.loads(report)
    except ValueError:
        raise RunError("the sandbox of a command ended without a report") from None
    if not result:
        raise RunError("the sandbox of a command was ended from outside")
    if "refused" in result:
        raise RunError(f"commands are refused, because a complete sandbox cannot be had here: {result['refused']}")
    return ProcessResult(
        exit_code=result["exit_code"],
        killed_by=result["killed_by"],
        stdout=result["stdout"],
        stderr=result["stderr"],
        files=result["files"],
        deleted=result["deleted"],
        others=result["others"],
        timed_out=result["killed_by"] == "time",
    )


async def _ask_sandbox(job: bytes) -> bytes:
    """Start a sandbox, give it the job, and return its report.

    At the end, and if cancelled, it waits until the sandbox and all processes of the command are gone.
    """
    sandbox = await Child.start("the sandbox of a command", _program(), environment={}, folder="/", errors=False)
    try:
        await sandbox.send(job)  # one that has ended early takes nothing, and gives no report
        report = bytearray()
        while len(report) < _LONGEST_REPORT and (chunk := await sandbox.receive()):
            report += chunk
        return bytes(report)
    finally:
        await sandbox.close(_PATIENCE)  # when its input ends, the warden kills the command; init dies with the warden

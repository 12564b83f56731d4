"""Edge: processes that run the code of an archive, and those that fetch packages for it.

They get the variables that are listed here and no others, because an environment has the keys of its user. They start
in an empty folder, since programs look for settings in the folder in which they are and in those above it. `uv` takes
the settings of its user, and no file `uv.toml` that an archive brings, or that another user leaves in `/tmp`.

When a process has ended, its process group is killed, so that it leaves none behind that stays in it.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import attrs

from sim.base.errors import RunError

MOST_OUTPUT: Final = 16 * 2**20
"""Bytes that a process may print on one of its two outputs."""

_LEAVING: Final = 5.0  # seconds that the rest of an output is waited for, if a process has left the group with it

_SYSTEM: Final = (
    "PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
)  # fmt: skip
"""What programs need to start at all."""

_FETCHING: Final = (
    "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME", "TMPDIR", "TEMP", "TMP", "PYENV_ROOT",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CERT",
    "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_CONFIG_FILE", "PIP_CACHE_DIR", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES",
    "PIP_KEYRING_PROVIDER", "PIP_DISABLE_PIP_VERSION_CHECK",
    "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_STRATEGY", "UV_FIND_LINKS",
    "UV_NO_INDEX", "UV_INSECURE_HOST", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES",
    "UV_OFFLINE", "UV_CACHE_DIR", "UV_NO_CACHE", "UV_LINK_MODE", "UV_KEYRING_PROVIDER", "UV_CONCURRENT_DOWNLOADS",
    "UV_PYTHON_INSTALL_DIR", "UV_NO_CONFIG",
)  # fmt: skip
"""Where packages come from, and how they are reached."""


def fetching_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that fetches packages: it runs no code of an archive.

    Args:
        own: the variables of this process.
    """
    variables = _named(own, (*_SYSTEM, *_FETCHING))
    variables |= {name: value for name, value in own.items() if name.startswith("UV_INDEX_")}  # of private indexes
    if "UV_NO_CONFIG" in variables:
        return variables
    settings = next((str(path) for path in _uv_settings(own) if path.is_file()), None)
    return variables | ({"UV_NO_CONFIG": "1"} if settings is None else {"UV_CONFIG_FILE": settings})


def building_variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that may build packages, which runs their code: those without a password."""
    return {
        name: value
        for name, value in fetching_variables(own).items()
        if "@" not in value and not name.endswith(("_USERNAME", "_PASSWORD"))
    }


def running_variables(own: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables of a process that runs code of an archive.

    Args:
        own: the variables of this process.
        home: a folder for its home and its temporary files.
    """
    folders = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), str(home))
    return {**_named(own, _SYSTEM), **folders}


def _named(own: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    locale = [name for name in own if name.startswith("LC_")]
    return {name: own[name] for name in (*names, *locale) if name in own}


def _uv_settings(own: Mapping[str, str]) -> list[Path]:
    """Return where `uv` looks for the settings of its user and of the machine."""
    if "UV_CONFIG_FILE" in own:
        return [Path(own["UV_CONFIG_FILE"]).absolute()]
    if sys.platform == "win32":
        folders = [own.get("APPDATA"), f"{own.get('SYSTEMDRIVE', 'C:')}/ProgramData"]
    else:
        home = own.get("XDG_CONFIG_HOME") or (own.get("HOME") and f"{own['HOME']}/.config")
        folders = [home, *(own.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"), "/etc"]
    return [Path(folder, "uv", "uv.toml") for folder in folders if folder and Path(folder).is_absolute()]


@attrs.frozen
class EndedProcess:
    """A process that has ended: its exit code, and what it has printed."""

    code: int
    stdout: str
    stderr: str


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str], seconds: float) -> EndedProcess:
    """Run a command, and wait until it has ended.

    Args:
        command: the program and its arguments.
        folder: the folder in which it starts.
        variables: all of its environment variables.
        seconds: the longest real time that it may take.

    Raises:
        OSError: if it cannot be started.
        RunError: if it takes longer, or prints too much.
    """
    with subprocess.Popen(  # noqa: S603  # the operator asks for this, see `sim verify --replay`
        command,
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = [_Output(process, stream) for stream in (process.stdout, process.stderr)]
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"it took longer than {seconds:g} s") from error
        finally:
            _kill(process)
            for output in outputs:
                output.thread.join(_LEAVING)
    if any(output.too_much for output in outputs):
        raise RunError(f"it printed more than {MOST_OUTPUT:,} bytes")
    out, err = (bytes(output.data).decode(errors="replace") for output in outputs)
    return EndedProcess(code, out, err)


class _Output:
    """Reads what a process prints, and kills it if that is too much."""

    def __init__(self, process: "subprocess.Popen[bytes]", stream: IO[bytes]) -> None:
        self.data = bytearray()
        self.too_much = False
        self._process = process
        self._stream = stream
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # it was closed
            while block := os.read(self._stream.fileno(), 2**16):
                self.data += block
                if len(self.data) > MOST_OUTPUT:
                    self.too_much = True
                    _kill(self._process)
                    return


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with its group, which it leads."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)

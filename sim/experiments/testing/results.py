"""The results of a test on disk, one line for each run, so that a test that was stopped can be continued."""

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import RunError, UsageError
from sim.experiments.testing.cases import Case
from sim.experiments.testing.trial import CaseResult, ScenarioUnderTest
from sim.kernel.codec import decode_as, encode
from sim.record.files import versions


@attrs.frozen
class Header:
    """What the results belong to: they are of use only for the same file, changes and version.

    Attributes:
        sha256: the hash of the scenario, of the tables and graphs that it refers to, and of the modules it may import.
        overrides: the changes to it.
        until: the end of each run.
        only: the names of the properties that were checked; empty: all.
        coverage: whether the parts of the file that were reached are noted.
        version: the version of `sim`.
    """

    sha256: str
    overrides: tuple[str, ...]
    until: str
    only: tuple[str, ...]
    coverage: bool
    version: str

    @classmethod
    def of(cls, subject: ScenarioUnderTest) -> "Header":
        """Return the header for the results of a subject."""
        return cls(
            _digest_of(subject),
            subject.overrides,
            str(subject.until),
            subject.only,
            subject.coverage,
            str(versions()["sim"]),
        )


def _digest_of(subject: ScenarioUnderTest) -> str:
    whole = hashlib.sha256(f"{subject.text}\n{subject.digest}".encode())
    for name in subject.rights.allow:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError):
            spec = None  # it cannot be imported, which is said where it is used
        if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
            whole.update(Path(spec.origin).read_bytes())
    return whole.hexdigest()


class ResultFile:
    """The results of the runs of one scenario.

    Args:
        path: the file; it is made if it does not exist.
        subject: what is tested.

    Attributes:
        done: the results so far, by case.

    Raises:
        UsageError: if the results are those of another file, of other changes, or of another version.
        RunError: if the file cannot be read or written.
    """

    def __init__(self, path: Path, subject: ScenarioUnderTest) -> None:
        self._path = path
        self.done: dict[Case, CaseResult] = {}
        header = Header.of(subject)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            whole = [line for line in lines if line.endswith(b"\n")]  # the last one is cut if the process was killed
            self._read(whole, header)
            self._stream = path.open("r+b" if lines else "wb")
            self._stream.truncate(sum(map(len, whole)))
            self._stream.seek(0, os.SEEK_END)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror or error}") from error
        if not whole:
            self._append(header)

    def _read(self, lines: list[bytes], header: Header) -> None:
        if not lines:
            return
        try:
            same = decode_as(lines[0], Header) == header
            results = [decode_as(line, CaseResult) for line in lines[1:]]
        except ValueError as error:
            raise UsageError(f"{self._path} has no results of a test: {error}", hint="give another folder") from None
        if not same:
            raise UsageError(
                f"{self._path} has results of another file, other options or another version of sim",
                hint="give another folder, or remove it",
            )
        self.done = {one.case: one for one in results}

    def add(self, result: CaseResult) -> None:
        """Keep a result. It is on disk when this returns."""
        self.done[result.case] = result
        self._append(result)

    def _append(self, value: Any) -> None:
        try:
            self._stream.write(encode(attrs.asdict(value)) + b"\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise RunError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

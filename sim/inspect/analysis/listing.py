"""The list of the runs in a folder."""

from collections.abc import Sequence
from os import PathLike
from typing import overload

from sim.base.pages import Table
from sim.record import RunInfo, list_runs
from sim.record.frames import Frame, Library, frame
from sim.record.run_table import run_table, with_tags


class RunList(Sequence[RunInfo]):
    """The properties of runs. Each item is accepted by `sim.open`.

    Args:
        infos: the properties of each run.
    """

    def __init__(self, infos: Sequence[RunInfo]) -> None:
        self._infos = tuple(infos)

    @overload
    def __getitem__(self, index: int) -> RunInfo: ...

    @overload
    def __getitem__(self, index: slice) -> "RunList": ...

    def __getitem__(self, index: int | slice) -> "RunInfo | RunList":
        return RunList(self._infos[index]) if isinstance(index, slice) else self._infos[index]

    def __len__(self) -> int:
        return len(self._infos)

    def frame(self, *, as_: Library | None = None) -> Frame:
        """Return a row for each run. `as_` is as in `Run.frame`."""
        columns = ("id", "name", "mode", "seed", "status", "sim_seconds", "events", "hash", "started_at", "problem")
        rows = [tuple(getattr(info, column) for column in columns) for info in self._infos]
        return frame((list(columns), rows), as_)

    def _table(self) -> Table:
        return Table(*run_table(self._infos))

    def __repr__(self) -> str:
        return self._table().text() if self._infos else "<no runs>"

    def _repr_html_(self) -> str:
        return self._table().html()


def runs(out: str | PathLike[str] = "runs", *, tags: Sequence[str] = ()) -> RunList:
    """Return the runs in a folder, the newest first, as `sim list` shows them.

    Args:
        out: the folder with the run folders.
        tags: only runs that have all of these tags.
    """
    return RunList(with_tags(list_runs(out)[::-1], tags))

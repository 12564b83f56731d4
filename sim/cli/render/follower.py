"""Follows a run in its file, by adding up the chunks that are new since the last read."""

from collections import Counter, deque
from pathlib import Path

from sim.actors import AgentState
from sim.actors.events import AgentCrashed, AgentFailed, EffectOverdue, HeartbeatMissed, LockHeld, StateChanged
from sim.base.errors import SimError
from sim.base.text import number
from sim.cli.render.snapshot import NEWEST, Snapshot, newest
from sim.cli.render.streams import lines_of
from sim.kernel import to_ns, to_seconds
from sim.record import RunInfo, StoredRun, open_run
from sim.record.files import SCENARIO
from sim.record.rows import Row
from sim.record.unfinished import read_unfinished
from sim.scenario import load
from sim.world.events import ActionTaken, MessageSent

_STATES = tuple(str(state) for state in AgentState)


class Follower:
    """Follows a run in its file, which another process writes.

    It reads without locks. The other process writes events about once per second, so a snapshot can be one second old.

    Args:
        folder: the run folder.

    Raises:
        UsageError, RunError: if the run cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = 0  # the number of the latest event
        self._now_ns = 0
        self._states: dict[str, str] = {}
        self._figures: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._latest: deque[Row] = deque(maxlen=NEWEST)
        with open_run(folder, verify=False) as stored:
            self._until = _until(stored)

    def look(self) -> tuple[Snapshot, RunInfo]:
        """Read the new chunks, and return a snapshot and the info of the run."""
        with open_run(self._folder, verify=False) as stored:  # its log can be gone by the next read
            info = stored.info
            for row in stored.rows(after=self._last):
                self._add(row)
        return self._seen(info), info

    def _seen(self, info: RunInfo) -> Snapshot:
        counts = Counter(self._states.values())
        figures = {
            name: self._figures[name] for name in ("actions", "refused", "errors", "wake-ups", "messages", "events")
        }
        lost = () if info.lost is None else (info.lost,)
        return Snapshot(
            title=f"{info.name}  seed {info.seed}  {info.mode}",
            status=info.status,
            now=self._now_ns / 1e9 if info.sim_seconds is None else info.sim_seconds,
            until=self._until,
            states={state: counts[state] for state in _STATES},
            figures=figures,
            errors=(*lost, *(f"{number(count)} x {text}" for text, count in self._errors.most_common(3))),
            newest=newest([row.whole() for row in self._latest]),
            streams=lines_of(read_unfinished(self._folder)) if info.status == "running" else (),
        )

    def _add(self, row: Row) -> None:
        self._last, self._now_ns = row.id, row.time_ns
        self._figures["events"] += 1
        self._latest.append(row)
        match row.event:
            case StateChanged(after=after, reason=reason) if (
                after in _STATES and reason != "end"
            ):  # at the end all stop
                before = self._states.get(row.actor)
                self._states[row.actor] = after
                self._figures["wake-ups"] += after == "running" and before in ("sleeping", "paused")
            case ActionTaken(success=success):
                self._figures["actions" if success else "refused"] += 1
            case MessageSent():
                self._figures["messages"] += 1
            case AgentFailed(error=error):
                self._failed(error)
            case AgentCrashed() | HeartbeatMissed() | LockHeld() | EffectOverdue():
                self._failed(row.topic)
            case _:
                pass

    def _failed(self, text: str) -> None:
        self._figures["errors"] += 1
        self._errors[text[:200]] += 1


def _until(stored: StoredRun) -> float | None:
    """Return the end of a run in simulated seconds; None if it has no limit or it is unknown."""
    info = stored.info
    option = info.options.get("until")
    try:
        if option is not None:
            return to_seconds(to_ns(option))
        until = load(stored.path / SCENARIO, info.options.get("set", ())).until
        return None if until is None else to_seconds(until)
    except (OSError, SimError):
        return None

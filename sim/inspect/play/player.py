"""The player of a scenario: one run after the other, each in a thread of its own. Part of the edge."""

import re
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from sim.base.errors import RunError, SimError, UsageError
from sim.host.pacing import check_speed
from sim.inspect.play.changes import ManualChanges
from sim.inspect.play.gate import Kind, PlayGate
from sim.kernel.duration import seconds_text
from sim.record import RunRecorder
from sim.runner import RunController, RunResult, run
from sim.runner.options import MAX_SEED, RunOptions
from sim.runner.running import Source
from sim.scenario import Scenario
from sim.scenario.controls import with_changes_by_hand
from sim.scenario.fields import plain
from sim.scenario.loading import loads
from sim.scenario.overrides import value_text
from sim.tools.rights import part_of

_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.ya?ml")

SPEEDS: Final = (1, 2, 5, 10, 30, 60, 300, 3600, 21600, 86400, 604800)
"""The speeds that a page offers, in simulated seconds per real second."""


class _Played:
    """One run, which waits after its first instant.

    Args:
        scenario, options: as those of `run`.
        news: called, from any thread, when there is something new.
    """

    def __init__(self, scenario: Source, options: RunOptions, news: Callable[[], None]) -> None:
        self._source, self._options, self._changed = scenario, options, news
        self.runner: RunController | None = None
        self.gate: PlayGate | None = None
        self.changes: ManualChanges | None = None
        self.folder: Path | None = None
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sim-play", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def scenario(self) -> Scenario:
        """The scenario as run."""
        assert self.runner is not None, "a run that has begun has a runner"
        return self.runner.simulation.scenario

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return not self._thread.is_alive() or self.result is not None or self.error is not None

    def end(self) -> None:
        """Suspend the run where it is, and wait until its record is closed."""
        if self.runner is not None:
            self.runner.host.suspend()
        self._thread.join()

    def _run(self) -> None:
        options = part_of(self._options, RunOptions)
        try:
            self.result = run(self._source, **options | {"begun": self._begun, "on_interrupt": "return"})
        except BaseException as error:  # it ends this run, and the page says so
            self.error = error
        self._ready.set()
        self._changed()

    def _begun(self, runner: RunController) -> None:
        self.folder = cast(RunRecorder, runner.simulation.world.kernel.recorder).folder
        self.changes = ManualChanges(runner, self._news)
        self.runner, self.gate = runner, PlayGate(runner, self._news)
        if self._options.begun is not None:
            self._options.begun(runner)

    def _news(self) -> None:
        self._ready.set()
        self._changed()


class ScenarioPlayer:
    """Plays a scenario. Its methods can be called from any thread.

    Args:
        scenario: what `sim.run` takes.
        options: how it is run; each run has the seed after that of the one before.

    Attributes:
        version: is higher whenever there is something new to see.
        news: is notified then.
        kept: the folders of earlier runs.
        removed: the names of the folders of runs that never started.

    Raises:
        SimError: if the scenario cannot be run. There is a first run otherwise, which waits after its first instant.
    """

    def __init__(self, scenario: Source, options: RunOptions) -> None:
        self._scenario = scenario
        self._options = attrs.evolve(options, out=options.out or Path("runs"))
        self._lock = threading.RLock()  # of what begins and ends runs
        self.news = threading.Condition()
        self.version = 0
        self.kept: list[Path] = []
        self.removed: list[str] = []
        self._note = ""
        self._chosen: dict[str, Any] = {}  # values of controls that people chose, by name
        self._played = self._begin(options.seed)

    # -- what is asked for

    def setup(self, seed: int | None = None) -> None:
        """End the run, and set up another one.

        Args:
            seed: its seed; None: that of the run before.

        Raises:
            UsageError: if it is no seed.
            SimError: if the scenario cannot be run any more; then there is no run.
        """
        if seed is not None and (type(seed) is not int or not 0 <= seed <= MAX_SEED):
            raise UsageError(f"a seed is a whole number from 0 to {MAX_SEED}, not {seed!r:.60}")
        with self._lock:
            seed = self.seed if seed is None else seed
            self._end()
            self._played = self._begin(seed)
        self.tell()

    def again(self) -> None:
        """Set up another run, with the next seed."""
        self.setup((self.seed + 1) % (MAX_SEED + 1))

    def go(self) -> None:
        """Let the run continue."""
        self._gate.go()
        self._note = ""
        self.tell()

    def hold(self, why: str = "") -> None:
        """Hold the run at the end of the present instant. A run that is over stays as it is.

        Args:
            why: what the page says about it.
        """
        if (gate := self._played.gate) is not None:  # it may end at any moment, so there is no check of that
            gate.hold()
        self._note = why
        self.tell()

    def step(self, kind: Kind, agent: str = "") -> None:
        """Let the run continue to the end of a step.

        Args:
            kind: how far: `event`, `tick` or `agent`.
            agent: the agent, with the kind `agent`.

        Raises:
            UsageError: if there is no such step or agent, or the run is over.
        """
        if kind not in ("event", "tick", "agent"):
            raise UsageError(f"a step goes to the next event, tick or agent, not {kind!r:.60}")
        gate = self._gate
        if kind == "agent" and self._runner.simulation.manager.get_loop(agent) is None:
            raise UsageError(f"there is no agent {agent!r:.60}", hint="choose one in the table or on the map")
        gate.step(kind, agent)
        self._note = ""
        self.tell()

    def pace(self, speed: float | None) -> None:
        """Change the speed: simulated seconds per real second; None is as fast as it can.

        Raises:
            UsageError: if it is out of range, the run is over, or it has synchronised rounds.
        """
        if speed is not None:
            check_speed(speed)
            if self._runner.sync is not None:
                raise UsageError("a run with execution.sync has no speed", hint="choose: as fast as it can")
        self._gate.pace(speed)
        self.tell()

    def stop(self) -> None:
        """End the run where it is. Its record is closed, and `sim resume` can continue it."""
        with self._lock:
            self._gate.hold()
            self._played.end()
        self.tell()

    def set(self, name: str, value: Any) -> None:
        """Change a control: a live one at once, and for the next setups.

        Args:
            name: its key in `controls`.
            value: the value.

        Raises:
            UsageError: if there is no such control, or it does not offer the value.
        """
        changes = self._changes
        knob = changes.knob(name)
        value = knob.taken(value)
        if knob.live and not self._played.ended:
            changes.set(name, value)
        self._chosen[name] = value
        self.tell()

    def say(self, agent: str, text: str) -> None:
        """Send the words of a person to an agent.

        Raises:
            UsageError: if there is no such agent, or the run is over.
        """
        self._under_way().tell(agent, text)

    def decide(self, gate: str, *, deny: bool) -> None:
        """Decide about a gate, where a call of a tool waits for a person.

        Raises:
            UsageError: if there is no such gate, or the run is over.
        """
        self._under_way().approve(gate, deny=deny)

    def answer_for(self, agent: str, seconds: float, otherwise: str | None = None) -> None:
        """Let a person answer as an agent instead of its model.

        Args:
            agent: the agent.
            seconds: for how many simulated seconds each of its calls waits; 0: its model answers again.
            otherwise: the answer after that; None: the model answers.

        Raises:
            UsageError: if there is no such agent, no agent has a model, or the run is over.
        """
        self._under_way().answer_for(agent, seconds, otherwise)

    def answer(self, question: str, text: str, call: Mapping[str, Any] | None = None) -> None:
        """Answer a call of such an agent: with a text, or with a call of a tool; with neither, its model answers.

        Raises:
            UsageError: if the call does not wait any more, or the run is over.
        """
        self._under_way().answer(question, text, call)

    def write(self, name: str) -> str:
        """Write a copy of the scenario with the values of this run and what was done by hand, beside its file.

        Returns what was written, in words.

        Args:
            name: the name of the new file.

        Raises:
            UsageError: if it is no name of a YAML file, the file exists, or the text cannot have it.
            RunError: if it cannot be written.
        """
        source, changes = self._played.scenario.source, self._changes
        if not _FILE.fullmatch(name):
            raise UsageError(f"the new file needs a name such as {self._new_name()}, not {name!r:.80}")
        target = (Path(source.file).parent if Path(source.file).exists() else Path()) / name
        overrides = {one.key: plain(one.value) for one in source.overrides}
        text = with_changes_by_hand(source.text, overrides, changes.interventions())
        loads(text, str(target), allow=source.allow, kinds=source.kinds, definitions=source.definitions)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise UsageError(f"{target} exists", hint="give another name") from None
        except OSError as error:
            raise RunError(f"{target} cannot be written: {error.strerror or error}") from error
        done = [one for one in changes.done if one.refused is None]
        left = sum(one.intervention is None for one in done)
        more = f"; {left} of {len(done)} things done by hand cannot be an intervention and are left out" if left else ""
        return f"wrote {target}{more}; run it with: sim run {target} --seed {self.seed}"

    def close(self) -> None:
        """End the run. One that never continued after its first instant is removed."""
        with self._lock:
            self._end()
        self.tell()

    # -- what there is

    @property
    def folder(self) -> Path:
        """The run folder."""
        assert self._played.folder is not None, "a run that has begun has a folder"
        return self._played.folder

    @property
    def seed(self) -> int:
        """The seed of the run."""
        assert self._played.runner is not None, "a run that has begun has a runner"
        return self._played.runner.simulation.world.kernel.seed

    @property
    def going(self) -> bool:
        """Whether the run is being computed now."""
        return not self._played.ended and self._played.gate is not None and self._played.gate.going

    def state(self) -> dict[str, Any]:
        """Return what a page shows of the run beside its record, JSON-like."""
        played = self._played
        runner, gate, changes, folder = played.runner, played.gate, played.changes, played.folder
        assert runner is not None, "a run that has begun has a runner"
        assert gate is not None, "and a gate"
        assert changes is not None, "and a list of changes"
        assert folder is not None, "and a folder"
        world = runner.simulation.world
        phase = "ended" if played.ended else "going" if gate.going else "paused" if gate.went else "ready"
        return {
            "version": self.version,
            "run": folder.name,
            "phase": phase,
            "now": world.now,
            "until": runner.until,
            "seed": str(world.kernel.seed),
            "speed": gate.speed,
            "speeds": [] if runner.sync else SPEEDS,
            "held": world.on_hold,
            "controls": changes.to_page(dict(self._chosen)),
            "gates": [] if played.ended else changes.gates(),
            "hand": changes.to_json(),
            "people": None if played.ended else changes.questions(),
            "file": self._new_name(),
            "groups": len(runner.simulation.scenario.agents),
            "note": self._outcome(played) or self._note,
        }

    def tell(self) -> None:
        """Let the windows know that there is something new."""
        with self.news:
            self.version += 1
            self.news.notify_all()

    def _outcome(self, played: _Played) -> str:
        if played.error is not None:
            return f"the run failed: {played.error}"
        if played.result is None:
            return ""
        done = played.result
        if done.status == "interrupted":
            people = None if played.changes is None else played.changes.questions()
            more = "; `sim resume` has no page: calls wait there for `sim answer` until their time is over"
            where = f"stopped at {seconds_text(done.sim_seconds)}; `sim resume {self.folder.name}` continues it"
            return f"{where}{more if people and people['agents'] else ''}"
        return f"finished: {done.stopped_by}" if done.stopped_by else "finished"

    @property
    def _changes(self) -> ManualChanges:
        assert self._played.changes is not None, "a run that has begun has a list of changes"
        return self._played.changes

    def _under_way(self) -> ManualChanges:
        """Return the changes of a run that is not over."""
        if self._played.ended:
            raise UsageError("the run is over", hint="set up another one")
        return self._changes

    def _new_name(self) -> str:
        return f"{self._played.scenario.name}-by-hand.yaml"

    @property
    def _gate(self) -> PlayGate:
        if self._played.ended or self._played.gate is None:
            raise UsageError("the run is over", hint="set up another one")
        return self._played.gate

    @property
    def _runner(self) -> RunController:
        if self._played.ended or self._played.runner is None:
            raise UsageError("the run is over", hint="set up another one")
        return self._played.runner

    # -- one run after the other

    def _begin(self, seed: int | None) -> _Played:
        chosen = [f"{self._key_of(name)}={value_text(value)}" for name, value in self._chosen.items()]
        options = attrs.evolve(self._options, seed=seed, overrides=(*self._options.overrides, *chosen))
        played = _Played(self._scenario, options, self.tell)
        if played.runner is None:
            error = played.error or RunError("the run ended before it began")
            raise error if isinstance(error, SimError) else RunError(f"{type(error).__name__}: {error}") from error
        return played

    def _key_of(self, name: str) -> str:
        return self._changes.knob(name).settings.key

    def _end(self) -> None:
        """End the run. Keep its folder if it ever continued; otherwise remove it, and say so."""
        self._note = ""
        played = self._played
        played.end()
        assert played.gate is not None, "a run that has begun has a gate"
        if played.gate.went or played.folder is None:
            if played.folder is not None and played.folder not in self.kept:
                self.kept.append(played.folder)
            return
        if played.folder.name not in self.removed:
            shutil.rmtree(played.folder, ignore_errors=True)
            self.removed.append(played.folder.name)
        self._note = f"removed {played.folder.name}: it was set up and never started"

"""Records that `execute` needs: `Spec`, what is run; `Kept`, where its record goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs

from sim.base.errors import UsageError
from sim.host.pacing import check_speed
from sim.kernel import to_ns
from sim.kernel.codec import JsonObject
from sim.record import HashRecorder, RunHeader, RunRecorder
from sim.record.files import Mode, versions
from sim.runner.event_loop import running_on
from sim.runner.fingerprint import code_hashes, package_versions
from sim.runner.options import RunOptions
from sim.runner.origin import Origin
from sim.runner.runner import RunController, RunSink, check_rounds
from sim.scenario import Scenario
from sim.scenario.assembly.build import Simulation, build
from sim.tools import Tools
from sim.world.edits import Edit, Edits


@attrs.frozen(kw_only=True)
class Spec:
    """What is run: a scenario, built with what the operator chose for it.

    Attributes:
        simulation: the world and its agents.
        text: the text of the scenario; None: it is not known, so that the run cannot be recorded.
        until_ns: the simulated nanoseconds at which the run ends.
        mode: the mode.
        speed: simulated seconds per real second; None jumps from event to event.
        hashes: the hashes of its code, as they were compared with those of a record; None: they are computed.
    """

    simulation: Simulation
    text: str | None
    until_ns: int
    mode: Mode
    speed: float | None
    hashes: Mapping[str, str] | None = None

    @classmethod
    def of(cls, scenario: Scenario, text: str | None, options: RunOptions) -> Self:
        """Build a scenario, and check that it can be run so, before anything is written.

        Raises:
            UsageError: if an option does not fit the scenario, or a key is missing.
        """
        until_ns = scenario.end_ns if options.until is None else to_ns(options.until)
        if until_ns == 0:
            raise UsageError("a run must last longer than 0 s")
        mode = options.mode or scenario.execution.mode
        seed = scenario.seed if options.seed is None else options.seed
        access = options.reached(options.access)
        simulation = build(scenario, seed=seed, rights=options, access=access, until_ns=until_ns)
        if simulation.models is not None:
            simulation.models.expected = options.expected
        if access is not None:
            access.check_key()
        speed = speed_of(scenario, options)
        check_rounds(scenario, mode, speed)
        if scenario.models is not None and access is not None:
            from sim.scenario.assembly.models import check_batching  # the import is slow

            check_batching(scenario.models, access, speed)
        return cls(simulation=simulation, text=text, until_ns=until_ns, mode=mode, speed=speed)

    def edit(self, edits: Sequence[Edit]) -> None:
        """Leave out or replace events of the run that it comes from."""
        if edits:
            Edits.on(self.simulation.world).add(edits)

    async def prepare(self) -> None:
        """Check, before the run is live, that its MCP servers and the endpoint of its models are there."""
        Tools.of(self.simulation.world).check_servers()
        if self.simulation.models is not None:
            await self.simulation.models.prepare()

    def attach(self, runner: RunController) -> None:
        """Register further kinds of input that its record can have; a new run has none."""

    def header(self, options: JsonObject, origin: Origin | None) -> RunHeader:
        """Return what its record begins with.

        Args:
            options: what the operator chose.
            origin: where it comes from; None: it is no branch.
        """
        code, scenario = self.simulation.code, self.simulation.scenario
        hashes = code_hashes(code) if self.hashes is None else self.hashes
        return RunHeader(
            name=scenario.name,
            seed=self.simulation.world.kernel.seed,
            mode=self.mode,
            backend=running_on(),
            options=options,
            code=hashes,
            origin=None if origin is None else origin.to_json(),
            versions={**package_versions(code), **versions()},
        )


@attrs.frozen
class Kept:
    """Where the record of a run goes.

    Attributes:
        keeper: what takes its events.
        folder: its run folder; None: it has none.
        uid: the name of the run in the keys of its effects.
        epoch: that of the recorder; None if the run takes nothing in from people outside.
    """

    keeper: RunSink
    folder: Path | None = None
    uid: str = ""
    epoch: int | None = None

    @classmethod
    def by(cls, recorder: HashRecorder | RunRecorder, keeper: RunSink | None = None, uid: str | None = None) -> Self:
        """Return where a recorder writes.

        Args:
            recorder: the recorder.
            keeper: what takes the events before it; None: it takes them itself.
            uid: the name of the run; None: that of its folder.
        """
        if isinstance(recorder, HashRecorder):
            return cls(keeper or recorder)
        return cls(keeper or recorder, recorder.folder, recorder.folder.name if uid is None else uid, recorder.epoch)


def speed_of(scenario: Scenario, options: RunOptions) -> float | None:
    """Return the simulated seconds per real second; None if the run jumps from event to event.

    Raises:
        UsageError: if a speed is given without the wall clock, or is not a number above 0.
    """
    clock = options.clock or scenario.execution.clock
    if options.speed is not None and clock == "virtual":
        raise UsageError("a speed needs the wall clock", hint="add --clock wall")
    if options.speed is not None:
        check_speed(options.speed)
    return None if clock == "virtual" else options.speed or scenario.execution.speed

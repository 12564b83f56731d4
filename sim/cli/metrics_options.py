"""The options of `sim run` that expose metrics for Prometheus."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from sim.cli.render.output import PATH, plain, say
from sim.errors import RunError, UsageError
from sim.host.watchdog import Stuck
from sim.runner import RunResult, SimulationRunner

if TYPE_CHECKING:
    from sim.telemetry import Exporter, Server

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--metrics", "address", metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus during the run, at /metrics and /healthz; on this machine only, unless a "
        "host is given. Port 0 takes a free one.",
    ),
    click.option("--linger", is_flag=True, help="Serve them after the run too, until Ctrl-C."),
    click.option("--metrics-file", type=PATH, metavar="FILE", help="Write them to a file at the end (.prom)."),
    click.option(
        "--metrics-agent", "watched", multiple=True, metavar="NAME",
        help="Series of its own for an agent, or for those of a pattern such as 'writer-*'; for 50 at most.",
    ),
)  # fmt: skip


def metrics_options(command: Command) -> Command:
    """Give a verb the options of metrics."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Metrics:
    """What is exposed of one run; nothing if no option asks for it."""

    def __init__(
        self,
        exporter: "Exporter | None" = None,
        server: "Server | None" = None,
        *,
        file: Path | None = None,
        linger: bool = False,
    ) -> None:
        self._exporter = exporter
        self._server = server
        self._file = file
        self._linger = linger

    def begun(self, runner: SimulationRunner) -> None:
        """The run begins."""
        if self._exporter is not None:
            self._exporter.begun(runner)

    def stuck(self, stuck: Stuck) -> None:
        """A step does not yield."""
        if self._exporter is not None:
            self._exporter.stuck(stuck)

    def ended(self, result: RunResult) -> None:
        """The run has ended: its metrics are final.

        Raises:
            RunError: if they cannot be written to the file.
        """
        if self._exporter is not None:
            self._exporter.ended("finished" if result.status == "finished" else "interrupted")
            self._write()

    def failed(self) -> None:
        """The run has failed, which is what the user must hear first."""
        if self._exporter is not None:
            self._exporter.ended("failed")
            try:
                self._write()
            except RunError as error:
                say(f"sim: warning: {plain(error)}")

    def _write(self) -> None:
        if self._exporter is None or self._file is None:
            return
        try:
            self._exporter.write(self._file)
        except OSError as error:
            raise RunError(f"the metrics cannot be written to {self._file}: {error.strerror}") from error

    def linger(self) -> None:
        """Go on serving until Ctrl-C, if that is wanted."""
        if self._linger and self._server is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored, as in a background job
            try:
                say(f"sim: metrics stay at {plain(self._server.address.url)}/metrics until Ctrl-C")
                threading.Event().wait()
            except KeyboardInterrupt:
                return


@attrs.frozen
class Wanted:
    """What the options ask for."""

    address: str | None
    linger: bool
    file: Path | None
    agents: tuple[str, ...]


def metrics_of(options: dict[str, Any]) -> Wanted:
    """Take the options of `metrics_options` out of others.

    Raises:
        UsageError: if they do not fit together.
    """
    wanted = Wanted(options.pop("address"), options.pop("linger"), options.pop("metrics_file"), options.pop("watched"))
    if wanted.linger and wanted.address is None:
        raise UsageError("--linger keeps serving metrics, but none are served", hint="add --metrics 9464")
    if wanted.agents and wanted.address is None and wanted.file is None:
        raise UsageError("--metrics-agent says which series there are, and there are none", hint="add --metrics 9464")
    return wanted


@contextmanager
def exporting(wanted: Wanted) -> Iterator[Metrics]:
    """Expose what is wanted.

    Raises:
        UsageError: if the address cannot be used.
    """
    if wanted.address is None and wanted.file is None:
        yield Metrics()
        return
    from sim.telemetry import Address, Exporter, Server  # late: most runs need none of it

    exporter = Exporter(wanted.agents)
    with ExitStack() as stack:
        server = None
        if wanted.address is not None:
            server = stack.enter_context(Server(exporter, Address.parse(wanted.address)))
            _announce(server)
        metrics = Metrics(exporter, server, file=wanted.file, linger=wanted.linger)
        try:
            yield metrics
        except BaseException:
            metrics.failed()
            raise


def _announce(server: "Server") -> None:
    say(f"sim: metrics are at {plain(server.address.url)}/metrics")
    if not server.address.local:
        say("sim: warning: whoever reaches this address can read them; there is no password")

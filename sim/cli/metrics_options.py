"""The options of `sim run` that expose metrics for Prometheus."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from sim.base.errors import RunError, UsageError
from sim.base.shown import Keywords
from sim.cli.render.output import PATH, plain, say
from sim.host.watchdog import Stuck
from sim.runner import RunController, RunResult

if TYPE_CHECKING:
    from sim.inspect.telemetry import Exporter, Server

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--metrics",
        "address",
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus during the run, at /metrics and /healthz. Without a host, only this machine "
        "can connect. Port 0: any free port.",
    ),
    click.option("--linger", is_flag=True, help="Serve metrics after the run too, until Ctrl-C."),
    click.option("--metrics-file", type=PATH, metavar="FILE", help="Write metrics to a file at the end (.prom)."),
    click.option(
        "--metrics-agent",
        "watched",
        multiple=True,
        metavar="NAME",
        help="Separate series for an agent, or for agents that match, such as 'writer-*'; at most 50.",
    ),
)


def metrics_options(command: Command) -> Command:
    """Add the options of metrics to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Metrics:
    """The metrics of one run. All methods are no-ops if no option requests metrics."""

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

    def begun(self, runner: RunController) -> None:
        """Note that the run begins."""
        if self._exporter is not None:
            self._exporter.begun(runner)

    def stuck(self, stuck: Stuck) -> None:
        """Note that a step does not yield."""
        if self._exporter is not None:
            self._exporter.stuck(stuck)

    def ended(self, result: RunResult) -> None:
        """Note that the run has ended, and write the final metrics.

        Raises:
            RunError: if the metrics cannot be written to the file.
        """
        if self._exporter is not None:
            self._exporter.ended("finished" if result.status == "finished" else "interrupted")
            self._write()

    def failed(self) -> None:
        """Note that the run has failed. A problem with the metrics is only a warning, to keep the error visible."""
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
        """Continue to serve until Ctrl-C, if `--linger` is given."""
        if self._linger and self._server is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # SIGINT can be ignored, as in a background job
            try:
                say(f"sim: metrics remain at {plain(self._server.address.url)}/metrics until Ctrl-C")
                threading.Event().wait()
            except KeyboardInterrupt:
                return


@attrs.frozen
class MetricsRequest:
    """The values of the options of metrics."""

    address: str | None
    linger: bool
    file: Path | None
    agents: tuple[str, ...]


def metrics_of(options: Keywords) -> MetricsRequest:
    """Remove the options of `metrics_options` from `options` and return them.

    Raises:
        UsageError: if they contradict each other.
    """
    request = MetricsRequest(
        options.pop("address"), options.pop("linger"), options.pop("metrics_file"), options.pop("watched")
    )
    if request.linger and request.address is None:
        raise UsageError("--linger needs --metrics, because otherwise no metrics are served", hint="add --metrics 9464")
    if request.agents and request.address is None and request.file is None:
        raise UsageError("--metrics-agent needs --metrics or --metrics-file", hint="add --metrics 9464")
    return request


@contextmanager
def exporting(request: MetricsRequest) -> Iterator[Metrics]:
    """Expose the requested metrics.

    Raises:
        UsageError: if the address cannot be used, or the package for metrics is missing.
    """
    if request.address is None and request.file is None:
        yield Metrics()
        return
    from sim.inspect.telemetry import Address, Exporter, Server  # imported late: most runs do not need it

    exporter = Exporter(request.agents)
    with ExitStack() as stack:
        server = None
        if request.address is not None:
            server = stack.enter_context(Server(exporter, Address.parse(request.address)))
            _announce(server)
        metrics = Metrics(exporter, server, file=request.file, linger=request.linger)
        try:
            yield metrics
        except BaseException:
            metrics.failed()
            raise


def _announce(server: "Server") -> None:
    say(f"sim: metrics are at {plain(server.address.url)}/metrics")
    if not server.address.local:
        say("sim: warning: the metrics have no password; anyone who can reach this address can read them")

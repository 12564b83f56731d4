"""What tests of several packages use."""

from collections.abc import Callable
from concurrent.futures import Future

from sim.kernel import Kernel
from sim.kernel.ports import Recorder


def as_host(kernel: Kernel, callback: Callable[[], object]) -> None:
    """Have `callback` run as an input, the way in which a host program changes a world."""
    kernel.inputs["test"] = lambda _: callback()
    kernel.apply("test", None)


def wait_until_durable(recorder: Recorder) -> None:
    """Wait until what was recorded is on disk; raise what went wrong."""
    told: Future[Exception | None] = Future()
    recorder.durable(told.set_result)
    error = told.result(60)
    if error is not None:
        raise error

"""Run a host until a time, until a wait or an actor has ended, or until a condition holds."""

from typing import Any

from sim.host.host import Host
from sim.kernel.duration import MAX_NS, to_ns
from sim.kernel.kernel import Pause
from sim.kernel.until import Until, Watch, check_until, never_happened


async def run_host_until(host: Host, until: Until) -> Any:
    """Like `run_until`, inside an asyncio or trio program and with effects. Return None if the run was suspended."""
    check_until(until)
    kernel = host.kernel
    if isinstance(until, int | float | str):
        await host.run(to_ns(until))
        return None
    if callable(until):
        answer = until()
        if not answer:
            pause = await host.run(MAX_NS, until)
            answer = until()
            if pause is Pause.LIMIT and not answer:
                raise never_happened(kernel)
        return answer
    with Watch(kernel, until) as watch:
        pause = Pause.HALTED if watch.ended else await host.run(MAX_NS)
        return watch.result() if watch.ended or pause is Pause.LIMIT else None

"""What no way of running a trace can beat."""

from sim.agents.town.trace import Trace, TraceCall
from sim.llm.behaviour import ServerSpec


def critical_path(trace: Trace, server: ServerSpec) -> float:
    """Return how long a trace takes at least, on any number of machines: its longest chain of calls.

    A call waits for the one before it in its chain; a step of an agent waits for its own step before, and for that of
    everybody whom it sees when it begins. Each call takes as long as if it were alone on a machine.

    Args:
        trace: what is done.
        server: how fast a machine reads and writes.

    Returns:
        Seconds of service time.
    """
    ready = [0.0] * len(trace.agents)  # when each agent has ended its step before
    for step in range(trace.first_step, trace.last_step):
        before = ready.copy()
        for one, other in trace.pairs(step, trace.radius):
            ready[one] = max(ready[one], before[other])
            ready[other] = max(ready[other], before[one])
        for agent, chains in enumerate(trace.calls):
            if step in chains:
                ready[agent] += sum(_alone(call, server) for call in chains[step])
    return max(ready)


def _alone(call: TraceCall, server: ServerSpec) -> float:
    rate = server.decode_rate if server.decode_total is None else min(server.decode_rate, server.decode_total)
    return call.input_tokens / server.prefill_rate + call.output_tokens / rate

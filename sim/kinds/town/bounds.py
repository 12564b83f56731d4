"""A lower bound of the makespan of a trace."""

from sim.kinds.town.trace import TownTrace, TraceCall
from sim.llm.behaviour import ServerSpec


def critical_path(trace: TownTrace, server: ServerSpec) -> float:
    """Return the critical path of a trace: the length of its longest chain of dependent calls.

    No number of replicas makes a run shorter than this. A call depends on the previous call in its chain. A step of an
    agent depends on its own previous step, and on the previous step of every agent that it sees at its beginning. Each
    call takes as long as if it were alone on a replica.

    Args:
        trace: the workload.
        server: the rates of the modelled server.

    Returns:
        Seconds of service time.
    """
    ready = [0.0] * len(trace.agents)  # when each agent has finished its previous step
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

"""W11: a call of a tool in the core, recorded: found, checked, run. An operation is one iteration with one call.

The bare iteration does nothing else, so the difference is the whole call: access along the chain, the schema, the
function, the event.
"""

from typing import Any

from benchmarks.workload import Meter, Workload

W11 = Workload("W11", "calls of a tool", (1,), bases=("sim, bare iteration",))


def iterate(meter: Meter, times: int, *, call: bool, watched: bool) -> None:
    """Run one agent that calls a tool, or does nothing, once a second."""
    import anyio

    from sim.actors import Agent, AgentLoopManager
    from sim.record import HashRecorder
    from sim.standalone import World
    from sim.tools import Approvals, Audit, Tools, tool
    from sim.tools.approvals import ApprovalSettings
    from sim.world import Action

    @tool("orders.lookup", safety="pure")
    def lookup(id: str) -> dict:  # type: ignore[type-arg]  # a schema needs the bare type
        """Look up an order.

        Args:
            id: its number.
        """
        return {"id": id, "amount": 30}

    class Clerk(Agent):
        async def decide_action(self) -> Action:
            if self.loop.iteration_count > times:
                return Action("stop")
            return Action("use_tool", {"tool": "orders.lookup", "args": {"id": "a1"}}) if call else Action("noop")

    world = World(0, recorder=HashRecorder())
    Tools.on(world).add(lookup)
    if watched:
        world.add_service(Audit(world))
        world.add_service(Approvals(world, ApprovalSettings()))
    AgentLoopManager(world).create_loop(Clerk("clerk", world)).start_now()
    meter.begin()
    anyio.run(world.run, float(times))
    meter.end(times)


@W11.peer("sim", speed=30_000, most=1)
def called(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """A call of a tool."""
    iterate(meter, times, call=True, watched=False)


@W11.peer("sim, audit and approvals", speed=20_000, most=1)
def watched(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same, with a record in the audit chain, and rules of approval."""
    iterate(meter, times, call=True, watched=True)


@W11.peer("sim, bare iteration", speed=100_000, most=1)
def bare(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """An iteration that does nothing."""
    iterate(meter, times, call=False, watched=False)

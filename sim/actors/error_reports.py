"""Logs failures of agents, for those who write agents. Nothing of it is recorded, and no hash depends on it."""

import logging

from sim.world import World

_LOG = logging.getLogger("sim.actors")


def log_failure(agent_id: str, world: World, error: str, raised: BaseException | None) -> None:
    """Log a failure of an agent. It has to be called before the failure is counted in `World.errors`.

    An error that code of the agent raised is logged as ERROR with its traceback, but only once for each text: a
    thousand agents with one fault fail a thousand times. Repetitions, which the result counts, are logged as DEBUG. A
    refused action is part of many models; it is logged as INFO.

    Args:
        agent_id: the agent.
        world: its world.
        error: the text of the error, as it is recorded.
        raised: the error; None if an action was refused.
    """
    level = logging.INFO if raised is None else logging.DEBUG if error in world.errors else logging.ERROR
    if _LOG.isEnabledFor(level):
        _LOG.log(level, "%s failed at %g s: %s", agent_id, world.now, error, exc_info=raised)

"""The states of an agent loop, the allowed transitions, and the reasons for a pause."""

import enum

from sim.base.errors import TransitionError


class AgentState(enum.StrEnum):
    """The state of an agent loop. `successors` gives the allowed transitions."""

    STARTING = "starting"
    RUNNING = "running"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"

    @property
    def successors(self) -> tuple["AgentState", ...]:
        """The states that can follow this state."""
        return SUCCESSORS[self]

    @property
    def live(self) -> bool:
        """Whether the loop is running, sleeping or paused."""
        return self in _LIVE

    def check(self, after: "AgentState", agent_id: str) -> None:
        """Raise `TransitionError` if the transition to `after` is not allowed."""
        if after not in SUCCESSORS[self]:
            raise TransitionError(f"{agent_id} cannot go from {self} to {after}")


class PauseReason(enum.StrEnum):
    """Why an agent is paused."""

    RESOURCES = "resources"
    ERRORS = "errors"
    OPERATOR = "operator"
    APPROVAL = "approval"


_S = AgentState
_LIVE = (_S.RUNNING, _S.SLEEPING, _S.PAUSED)
SUCCESSORS = {
    _S.STOPPED: (_S.STARTING,),
    _S.STARTING: (_S.RUNNING, _S.STOPPING),
    _S.RUNNING: (_S.SLEEPING, _S.PAUSED, _S.STOPPING),
    _S.SLEEPING: (_S.RUNNING, _S.STOPPING),
    _S.PAUSED: (_S.RUNNING, _S.STOPPING),
    _S.STOPPING: (_S.STOPPED,),
}
"""The states that can follow each state."""

"""What a window of the page asks of a played run: a class for each request, which says what it needs."""

from collections.abc import Callable
from typing import Any, Final

from sim.inspect.play.gate import Kind
from sim.inspect.play.player import ScenarioPlayer
from sim.kernel.codec import Record, reader

LARGEST: Final = 65_536
"""Bytes of a request, at most."""


class Request(Record, frozen=True, tag_field="do", tag=str.lower, forbid_unknown_fields=True):
    """A request of a window. In JSON, `do` has its name."""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """Carry it out, and return what the page says about it.

        Raises:
            SimError: if that is not possible.
        """
        raise NotImplementedError


class Setup(Request, frozen=True):
    """End the run, and set up another one with the same seed."""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.setup`."""
        player.setup()
        return ""


class Again(Request, frozen=True):
    """End the run, and set up another one with the next seed."""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.again`."""
        player.again()
        return ""


class Go(Request, frozen=True):
    """Let the run continue."""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.go`."""
        player.go()
        return ""


class Hold(Request, frozen=True):
    """Pause the run.

    Attributes:
        why: what the page says about it.
    """

    why: str = ""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.hold`."""
        player.hold(self.why)
        return ""


class Step(Request, frozen=True):
    """Let the run continue to the end of a step.

    Attributes:
        kind: how far it goes.
        agent: the agent, with the kind `agent`.
    """

    kind: Kind
    agent: str = ""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.step`."""
        player.step(self.kind, self.agent)
        return ""


class Pace(Request, frozen=True):
    """Change the speed.

    Attributes:
        speed: simulated seconds per real second; None is as fast as it can.
    """

    speed: float | None

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.pace`."""
        player.pace(self.speed)
        return ""


class Stop(Request, frozen=True):
    """End the run where it is."""

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.stop`."""
        player.stop()
        return ""


class Set(Request, frozen=True):
    """Change a control.

    Attributes:
        name: the control.
        value: its new value.
    """

    name: str
    value: Any

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.set`."""
        player.set(self.name, self.value)
        return ""


class Tell(Request, frozen=True):
    """Say something to an agent.

    Attributes:
        agent: the agent.
        text: what is said.
    """

    agent: str
    text: str

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.say`."""
        player.say(self.agent, self.text)
        return ""


class Approve(Request, frozen=True):
    """Decide about a gate.

    Attributes:
        gate: the gate.
        deny: whether the call is denied.
    """

    gate: str
    deny: bool

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.decide`."""
        player.decide(self.gate, deny=self.deny)
        return ""


class AnswerFor(Request, frozen=True):
    """Answer as an agent instead of its model.

    Attributes:
        agent: the agent.
        seconds: for how many simulated seconds each call waits; 0: the model answers again.
        otherwise: the answer after that; None: the model answers.
    """

    agent: str
    seconds: float
    otherwise: str | None = None

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.answer_for`."""
        player.answer_for(self.agent, self.seconds, self.otherwise)
        return ""


class Answer(Request, frozen=True):
    """Answer a call of an agent.

    Attributes:
        question: the call.
        text: what its model would say.
        call: the tool that its model would call, and its arguments.
    """

    question: str
    text: str
    call: dict[str, Any] | None = None

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.answer`."""
        player.answer(self.question, self.text, self.call)
        return ""


class Write(Request, frozen=True):
    """Write a copy of the scenario that has what people changed, as a file.

    Attributes:
        file: its name.
    """

    file: str

    def carry_out(self, player: ScenarioPlayer) -> str:
        """See `ScenarioPlayer.write`."""
        return player.write(self.file)


class Leave(Request, frozen=True):
    """The window was closed. The process that serves the page takes this in itself.

    Attributes:
        window: the window.
    """

    window: str


_ANY = Setup | Again | Go | Hold | Step | Pace | Stop | Set | Tell | Approve | AnswerFor | Answer | Write | Leave

read_request: Final[Callable[[bytes], Request]] = reader(_ANY)
"""Reads a request of a window from JSON.

Raises:
    ValueError: if it is none.
"""

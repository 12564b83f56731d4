"""What people do in a played run: they set controls, talk to agents and decide; and the list of what was done."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from sim.actors import Control
from sim.base.errors import UsageError
from sim.kernel import to_text
from sim.llm.people import People
from sim.runner import RunController
from sim.scenario.controls import ControlledKey as Knob
from sim.scenario.controls import controls_of
from sim.tools.approvals import Approvals

_MOST_SHOWN: Final = 500  # of the list of what was done, the latest
_LONGEST: Final = 300  # characters of the arguments of a call


@attrs.define
class DoneByHand:
    """Something that a person did in a run.

    Attributes:
        what: a description of it.
        intervention: what does the same as an entry of `interventions`, without its time; None: nothing does.
        time_ns: the simulated nanoseconds at which it was applied; None: not yet.
        refused: why the run refused it; None if it did not.
    """

    what: str
    intervention: Mapping[str, Any] | None
    time_ns: int | None = None
    refused: str | None = None


class ManualChanges:
    """What people change in one run. Each change is an input of the run, so it is on record.

    Args:
        runner: the run.
        news: called, from any thread, when the run has taken something in.

    Attributes:
        values: the values of its controls, by name: those with which it began, and live ones as they are now.
        done: what was done, in order.
    """

    def __init__(self, runner: RunController, news: Callable[[], None]) -> None:
        self._runner = runner
        self._news = news
        self._knobs: dict[str, Knob] = {knob.name: knob for knob in controls_of(runner.simulation.scenario)}
        self.values = {name: knob.value for name, knob in self._knobs.items()}
        self.done: list[DoneByHand] = []

    def knob(self, name: str) -> Knob:
        """Return a control.

        Raises:
            UsageError: if there is no such control.
        """
        if name not in self._knobs:
            raise UsageError(f"there is no control {name!r:.60}")
        return self._knobs[name]

    def set(self, name: str, value: Any) -> None:
        """Change a live control of the run.

        Raises:
            UsageError: if it does not offer the value, or the run cannot take it.
        """
        knob = self.knob(name)
        value, key = knob.taken(value), knob.settings.key
        done = DoneByHand(f"{knob.settings.label or name} = {value}", {"set": {key: value}})

        def applied() -> None:
            self.values[name] = value

        self._control(done, applied).set({key: value})

    def tell(self, agent: str, text: str) -> None:
        """Send the words of a person to an agent.

        Raises:
            UsageError: if there is no such agent.
        """
        alone = {"where": f"me == {agent!r}", "send": {"data": text}}  # an entry can have many agents
        self._control(DoneByHand(f"said to {agent}: {text}", alone)).tell(agent, text)

    def approve(self, gate: str, *, deny: bool) -> None:
        """Decide about a gate.

        Raises:
            UsageError: if there is no such gate.
        """
        done = DoneByHand(f"{'denied' if deny else 'approved'} {gate}", None)
        self._control(done).approve(gate, deny=deny)

    def answer_for(self, agent: str, seconds: float, otherwise: str | None) -> None:
        """Let a person answer as an agent instead of its model; see `Control.answer_for`."""
        what = f"answers as {agent}, within {seconds:g} s each" if seconds else f"the model of {agent} answers again"
        self._control(DoneByHand(what, None)).answer_for(agent, seconds, otherwise=otherwise)

    def answer(self, question: str, text: str, call: Mapping[str, Any] | None) -> None:
        """Answer a call of an agent; see `Control.answer`."""
        people = self._people()
        asked = None if people is None else people.questions.get(question)
        if asked is None:
            raise UsageError(f"{question:.60} does not wait for an answer any more")
        said = f"{call.get('tool')} {call.get('args')}" if call is not None else text or "what its model says"
        self._control(DoneByHand(f"answered as {asked.agent}: {said}"[:_LONGEST], None)).answer(
            question, text, call=call
        )

    def questions(self) -> dict[str, Any] | None:
        """Return the agents for whom people answer, and the calls that wait; None if no agent has a model."""
        people = self._people()
        if people is None:
            return None
        waiting = [question.to_json() for question in people.questions.copy().values()]
        places = people.places.copy().items()
        agents = {name: {"within": one.within_ns / 1e9, "otherwise": one.otherwise} for name, one in places}
        return {"agents": agents, "waiting": waiting}

    def _people(self) -> People | None:
        models = self._runner.simulation.models
        return None if models is None else models.people

    def gates(self) -> list[dict[str, str]]:
        """Return the gates at which calls of tools wait for a person."""
        service = self._runner.simulation.world.services.get("approvals")
        settings = self._runner.simulation.scenario.sections.get("approvals")
        if not isinstance(service, Approvals) or settings is None or settings.person != "real":
            return []
        return [
            {"gate": gate.id, "agent": gate.agent, "tool": gate.tool, "args": str(dict(gate.arguments))[:_LONGEST]}
            for gate in list(service.gates.values())
            if gate.status == "pending"
        ]

    def interventions(self) -> list[dict[str, Any]]:
        """Return what does the same as what was done, as entries of `interventions`.

        An input comes at the end of its instant and an intervention at the beginning, so each is a nanosecond later.
        """
        return [
            {"at": to_text(one.time_ns + 1), **one.intervention}
            for one in self.done
            if one.intervention is not None and one.time_ns is not None and one.refused is None
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Return what a page shows of it."""
        return [
            {"what": one.what, "time": None if one.time_ns is None else one.time_ns / 1e9, "refused": one.refused}
            for one in self.done[-_MOST_SHOWN:]
        ]

    def to_page(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what a page needs to draw the controls.

        Args:
            chosen: the values that people have chosen for the next setup, by name.
        """
        return [
            {**knob.to_json(), "value": chosen.get(name, self.values[name]), "used": self.values[name]}
            for name, knob in self._knobs.items()
        ]

    def _control(self, done: DoneByHand, applied: Callable[[], None] | None = None) -> Control:
        """Return what submits one input, which is on the list from then on."""
        host, kernel = self._runner.host, self._runner.simulation.world.kernel

        def taken(refused: object) -> None:
            done.time_ns = kernel.now
            done.refused = refused if isinstance(refused, str) else None
            if applied is not None and done.refused is None:
                applied()
            self._news()

        def submit(kind: str, data: object) -> None:
            host.submit(kind, data, taken)
            self.done.append(done)

        return Control(self._runner.simulation.manager, submit=submit)

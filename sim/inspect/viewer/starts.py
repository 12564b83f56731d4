"""Places, positions and balances at the start of a run. No event has them.

If the run has ended, they follow from its final state and from what has changed: exactly, whatever code the agents
have. Otherwise the world of the scenario is built as at the start of the run, if only kinds of this package are in it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import attrs

from sim.base.errors import SimError
from sim.events.coerce import mapping
from sim.kernel.codec import Json, JsonObject, decode
from sim.kernel.rows import RecordedEvent
from sim.record import StoredRun
from sim.resources import to_micro
from sim.scenario import Scenario
from sim.scenario.assembly.build import build
from sim.scenario.assembly.world_builder import make_places
from sim.world import Places

_TELLING = (b'"place.entered"', b'"ledger.transferred"', b'"artifact.invoked"', b'"action.write"')
"""What a chunk of the record contains if it has events of places or money."""


@attrs.define
class Start:
    """What is known of the start.

    Attributes:
        places: the place of each agent.
        positions: the coordinates of each agent.
        balances: the micro-units of each account.
        graph: the places of the scenario; None if it has none.
    """

    places: dict[str, str] = attrs.field(factory=dict)
    positions: dict[str, Json] = attrs.field(factory=dict)
    balances: dict[str, int] = attrs.field(factory=dict)
    graph: Places | None = None


class Money:
    """Finds payments in events.

    Args:
        scenario: the scenario as run, with the prices of its artifacts; None: it is not known.
    """

    def __init__(self, scenario: Scenario | None) -> None:
        artifacts = () if scenario is None else scenario.artifacts
        self._prices = {artifact.id: (artifact.owner, to_micro(artifact.price)) for artifact in artifacts}

    def paid(self, actor: str, topic: str, data: JsonObject) -> tuple[str, str, int] | None:
        """Return who paid whom how many micro-units in an event, or None."""
        match topic:
            case "ledger.transferred":
                micro = _micro(data.get("amount"))
                return None if micro is None else (str(data.get("from")), str(data.get("to")), micro)
            case "artifact.invoked":
                owner, price = self._prices.get(str(data.get("artifact")), ("", 0))
                by = str(data.get("by"))
                return (by, owner, price) if price and owner != by else None
            case "action.write" if data.get("success"):
                self._written(actor, mapping(data.get("arguments")), mapping(data.get("result")))
            case _:
                pass
        return None

    def _written(self, owner: str, arguments: JsonObject, result: JsonObject) -> None:
        price = _micro(arguments.get("price"))
        if price and result.get("version") == 1:
            self._prices[str(arguments.get("artifact"))] = (owner, price)


def _micro(amount: Any) -> int | None:
    if isinstance(amount, bool) or not isinstance(amount, int | float | str):
        return None
    try:
        return to_micro(amount)
    except SimError:
        return None


def start_of(stored: StoredRun, scenario: Scenario | None) -> Start:
    """Return what is known of the start of a run."""
    start = _from_record(stored, scenario)
    if scenario is None:
        return start
    start.graph = make_places(scenario.places)
    built = _built(stored, scenario)
    if built is not None:
        start.places = {**built.places, **start.places}
        start.positions = {**built.positions, **start.positions}
        start.balances = {**built.balances, **start.balances}
    return start


def _from_record(stored: StoredRun, scenario: Scenario | None) -> Start:
    """Return what the final state and the changes before it tell."""
    digest = stored.info.digest or {}
    start = Start(places={name: str(place) for name, place in mapping(digest.get("places")).items()})
    money, first, net = Money(scenario), dict[str, str](), defaultdict[str, int](int)
    for row in _telling(stored):
        data = mapping(row.data)
        if row.topic == "place.entered":
            first.setdefault(str(data.get("agent")), str(data.get("from") or ""))
        elif (paid := money.paid(row.actor, row.topic, data)) is not None:
            net[paid[0]] -= paid[2]
            net[paid[1]] += paid[2]
    start.places.update(first)
    for account, micro in mapping(mapping(digest.get("ledger")).get("balances")).items():
        if isinstance(micro, int):
            start.balances[account] = micro - net[account]
    return start


def _telling(stored: StoredRun) -> Iterator[RecordedEvent]:
    """Yield the events of those chunks of the record that tell of places or money."""
    for _, _, _, _, data in stored.chunks():
        if any(mark in data for mark in _TELLING):
            for row in decode(data):
                yield RecordedEvent(*row)


def _built(stored: StoredRun, scenario: Scenario) -> Start | None:
    """Return the start of the world that the scenario describes; None if it says nothing, or cannot be built."""
    fields = {name for entry in scenario.agents for name in entry.model_fields_set}
    if scenario.places is None and fields.isdisjoint(("balance", "position")):
        return None
    try:
        world = build(scenario, seed=stored.info.seed).world
    except SimError:  # for example agents of another package
        return None
    start = Start()
    if world.places is not None:
        start.places = dict(world.places.state())
    if world.space is not None:
        start.positions = {name: history.at(0).position for name, history in world.space.histories.items()}
    start.balances = dict(world.ledger.state()["balances"])
    return start

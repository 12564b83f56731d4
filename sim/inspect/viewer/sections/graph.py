"""The graph of messages or payments between agents, or between groups if there are too many agents."""

from collections import Counter

from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.scenario.groups import Groups
from sim.world.events import MessageSent, MoneyTransferred

_NODES = 64
"""The most nodes of a circle."""

_GROUPS = 4
"""The fewest groups that can replace the agents; a graph of fewer groups shows too little."""

_EDGES = 600
"""The most edges that are drawn, the heaviest first."""


class Edges:
    """Counts messages or payments between agents.

    Args:
        name: what is counted.
        groups: the groups of the agents.
    """

    def __init__(self, name: str, groups: Groups) -> None:
        self.name = name
        self.sent: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._groups = groups
        self._edges: Counter[tuple[str, str]] = Counter()

    def add(self, sender: str, receiver: str) -> None:
        """Count one message or payment."""
        self._edges[sender, receiver] += 1
        self.sent[sender] += 1
        self.received[receiver] += 1

    def to_json(self) -> Json:
        """Return the graph; None if it has no edges. Nodes are in order of group and name."""
        if not self._edges:
            return None
        agents = {*self.sent, *self.received}
        grouped = len(agents) > _NODES and len({self._groups.of(name) for name in agents}) >= _GROUPS
        edges = self._by_group() if grouped else self._edges
        traffic: Counter[str] = Counter()
        for (sender, receiver), count in edges.items():
            traffic[sender] += count
            traffic[receiver] += count
        busiest = sorted(traffic, key=lambda name: (-traffic[name], name))[:_NODES]
        ordered = sorted(busiest, key=lambda name: (name if grouped else self._groups.of(name), _natural(name)))
        number = {name: index for index, name in enumerate(ordered)}
        heaviest = sorted(edges.items(), key=lambda item: (-item[1], item[0]))
        kept = [(number[a], number[b], count) for (a, b), count in heaviest if a in number and b in number]
        return {
            "name": self.name,
            "grouped": grouped,
            "nodes": [{"name": name, "group": name if grouped else self._groups.of(name)} for name in ordered],
            "edges": kept[:_EDGES],
            "total": sum(self._edges.values()),
            "pairs": len(self._edges),
            "left_out": len(heaviest) - min(len(kept), _EDGES),
            "nodes_left_out": len(traffic) - len(ordered),
        }

    def _by_group(self) -> Counter[tuple[str, str]]:
        edges: Counter[tuple[str, str]] = Counter()
        for (sender, receiver), count in self._edges.items():
            edges[self._groups.of(sender), self._groups.of(receiver)] += count
        return edges


class Graph(Section):
    """Counts messages and payments.

    Attributes:
        messages, payments: what was counted.
    """

    title = "Messages and payments"
    place = 140
    topics = ("message.sent", "ledger.transferred")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.messages = Edges("messages", folds.groups)
        self.payments = Edges("payments", folds.groups)

    def add(self, event: Event, data: Data) -> None:
        """Count a message or a payment."""
        if isinstance(data, MessageSent):
            self.messages.add(data.sender, data.to)
        elif isinstance(data, MoneyTransferred):
            self.payments.add(data.payer, data.to)

    def to_json(self) -> Json:
        """Return the graphs; None if there are none."""
        return [graph for graph in (self.messages.to_json(), self.payments.to_json()) if graph] or None


def _natural(name: str) -> tuple[str, int]:
    """Return a sort key that puts `writer-10` after `writer-9`."""
    head, _, tail = name.rpartition("-")
    return (head, int(tail[:15])) if head and tail.isdecimal() and tail.isascii() else (name, 0)

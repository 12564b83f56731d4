"""Ten scenarios of 30 to 200 lines, each with one planted fault among much that has nothing to do with it."""

from typing import NamedTuple

from tests.testing.scenarios import FAULT, ORDER

FILLER = """
  # -- nothing below has to do with the fault
  - name: passer
    count: 4
    state:
      steps: 0
      tired: 0.5
    loop: {min_loop_delay: 1m}
    rules:
      - name: walk
        when: "steps < 20 and chance(0.5)"
        do:
          publish:
            topic: steps.heard
            data: {by: "=me"}
        set: {steps: "=steps + 1", tired: "=tired * 1.01"}
      - name: rest
        do: {sleep: {for: 5m}}
  - name: listener
    subscribe: [steps.heard]
    state: {heard: 0}
    rules:
      - when: "event is not None"
        do: noop
        set: {heard: "=heard + 1"}
      - do: {sleep: {event: steps.heard}}
  - name: keeper
    start: 3m
    loop:
      min_loop_delay: 2m
    rules:
      - when: "chance(0.2)"
        do: {put: {pool: well, amount: 1}}
      - when: "chance(0.2)"
        do: {get: {pool: well, amount: 1}}
      - do: noop
pools:
  bench:
    kind: resource
    slots: 2
  store: {kind: container}
  well:
    kind: container
    level: 30
    capacity: 1000
events:
  - {at: 2m, topic: bell.rings, data: {loud: true}}
  - {at: 9m, topic: bell.rings}
metrics:
  every: 1m
  values:
    heard: "total('listener', 'heard')"
    well: "level('well')"
    work: "total('worker', 'n')"
"""


class Planted(NamedTuple):
    """A fault: the text, the property that it violates, and what of the text must stay."""

    text: str
    property: str
    stays: tuple[str, ...]


def _planted(worker: str, broken: str, *stays: str) -> Planted:
    head = "name: street\ndescription: people who work, walk and listen\nuntil: 1h\n"
    text = f"{head}agents:\n{worker}{FILLER}properties:\n  broken: {broken}\n"
    return Planted(f"{text}  fine: {{always: \"count('passer') == 4\"}}\n", "broken", stays)


def _with_filler(text: str, broken: str, *stays: str) -> Planted:
    head, _, agents = text.partition("agents:\n")
    own, _, properties = agents.partition("properties:\n")
    filler = FILLER.replace("    work: \"total('worker', 'n')\"\n", "")
    return Planted(f"{head}agents:\n{own}{filler}properties:\n{properties}", broken, stays)


PLANTED = {
    "sells more than there is": _planted(
        """  - name: worker
    state: {n: 0, stock: 5}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "stock >= 1 and n < 100"
        do: {publish: {topic: sold}}
        set: {stock: "=stock - 2", n: "=n + 1"}   # one is sold, two are taken
      - do: {sleep: {for: 10m}}
""",
        '{always: "stock >= 0", each: worker}', "stock - ",
    ),
    "counts less than it puts": _planted(
        """  - name: worker
    state: {n: 0}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "n < 5"
        do: {put: {pool: bench2, amount: 1}}
        set: {n: "=n + 1"}
      - when: "chance(0.5)"
        do: {put: {pool: bench2, amount: 1}}   # and does not count it
      - do: {sleep: {for: 2m}}
""".replace("bench2", "store"),
        "{conserved: \"level('store') - total('worker', 'n')\"}", "put: {pool: store",
    ),
    "never releases the bench": _planted(
        """  - name: worker
    count: 6
    state: {n: 0}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "n < 4 and chance(0.7)"
        do: [{acquire: {pool: bench}}, {publish: {topic: sat}}, {release: {pool: bench}}]
        set: {n: "=n + 1"}
      - when: "n == 4"
        do: [{acquire: {pool: bench}}, {sleep: {for: 2h}}]   # falls asleep on it
      - do: {sleep: {for: 1m}}
""",
        "{blocked: 20m}", "acquire: {pool: bench}",
    ),
    "forgets an answer": _planted(
        """  - name: worker
    state: {n: 0}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "n < 20"
        do: [{send: {to: helper, data: "=n"}}, {publish: {topic: asked, data: {n: "=n"}}}]
        set: {n: "=n + 1"}
      - do: {sleep: {for: 10m}}
  - name: helper
    rules:
      - when: "message is not None and message.data % 7 == 6"   # not the seventh
        do: noop
      - when: "message is not None"
        do: {publish: {topic: answered, data: {n: "=message.data"}}}
      - do: {sleep: {message: true}}
""",
        '{after: {event: asked}, within: 5m, then: {event: answered, where: "data.n == first.data.n"}}', "topic: asked",
        "answered, data",
    ),
    "grows without bounds": _planted(
        """  - name: worker
    count: 2
    state: {n: 1}
    loop: {min_loop_delay: 2m}
    rules:
      - when: "now > 600 and chance(0.8)"
        do: noop
        set: {n: "=n * 1.5"}   # nothing stops it
      - do: {sleep: {for: 1m}}
""",
        "{metric: work, at_most: 50}", "n * ",
    ),
    "says it twice": _planted(
        """  - name: worker
    count: 3
    state: {n: 0}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "n == 0 and chance(0.3)"
        do: [{publish: {topic: done, data: {by: "=me"}}}, {publish: {topic: done, data: {by: "=me"}}}]
        set: {n: 1}
      - do: {sleep: {for: 1m}}
""",
        "{count: {event: done}, at_most: 5}", "topic: done",
    ),
    "waits for a bell that does not ring": _planted(
        """  - name: worker
    count: 2
    state: {n: 0}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "n < 6 and chance(0.6)"
        do: noop
        set: {n: "=n + 1"}
      - when: "n >= 6"
        do: {sleep: {event: bell.rang}}   # it is bell.rings
      - do: {sleep: {for: 1m}}
""",
        "{idle: 15m, each: worker}", "bell.rang",
    ),
    "pays what it does not owe": _planted(
        """  - name: worker
    balance: 20
    state: {n: 0, owes: 10}
    loop: {min_loop_delay: 1m}
    rules:
      - when: "balance >= 3 and chance(0.5)"   # and owes > 0
        do: {transfer: {to: listener, amount: 3}}
        set: {owes: "=owes - 3"}
      - do: {sleep: {for: 1m}}
""",
        '{never: "owes < -5", each: worker}', "transfer", "owes - ",
    ),
    "only in another order": _with_filler(ORDER, "door-opened-with-key", "door.forced", "send: {to: reader"),
    "only if a model fails": _with_filler(
        FAULT.replace("latency: [0s, 5s]}", "latency: [0s, 5s]}   # of one shop"), "goods-soon", "ask", "paid > got"
    ),
}  # fmt: skip

"""Scenarios with planted faults, which the tests of tests look for."""

OFFICE = """
name: office
until: 1m
accounts: {bank: 10}
pools: {desk: {kind: resource, slots: 1}, tank: {kind: container, level: 5}}
agents:
  - name: clerk
    subscribe: [work.made]
    rules:
      - when: "event is not None and event.data.n < 20"
        do: {publish: {topic: work.filed, data: {n: "=event.data.n", by: "=event.data.by"}}}
      - do: {sleep: {event: work.made}}
  - name: worker
    count: 2
    balance: 5
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: "now < 30"
        do: {publish: {topic: work.made, data: {by: "=me", n: "=n"}}}
        set: {n: "=n + 1"}
      - do: {sleep: {for: 1h}}
  - name: sitter
    count: 3
    rules: [{do: {acquire: {pool: desk}}}, {do: {sleep: {for: 1h}}}]
  - name: payer
    balance: 20
    loop: {min_loop_delay: 10s}
    rules: [{when: "balance >= 10", do: {transfer: {to: bank, amount: 10}}}, {do: {sleep: {for: 1h}}}]
  - {name: drinker, rules: [{when: "now >= 40", do: {get: {pool: tank, amount: 2}}}, {do: {sleep: {for: 20s}}}]}
metrics: {every: 10s, values: {made: "total('worker', 'n')", full: "level('tank')"}}
"""

ORDER = """
name: handover
until: 1m
agents:
  - name: sender
    rules:
      - when: "now < 10"
        do: {sleep: {until: 10s}}
      - when: "now == 10"
        do: {send: {to: reader, topic: key, data: 1}}
      - do: {sleep: {for: 1h}}
  - name: reader
    state: {keys: 0}
    rules:
      - when: "message is not None and message.topic == 'key'"
        do: noop
        set: {keys: "=keys + 1"}
      - when: "now < 10"
        do: {sleep: {until: 10s}}
      - when: "keys == 0"
        do: {publish: {topic: door.forced}}
      - do: {sleep: {message: true}}
properties:
  door-opened-with-key: {never: "published('door.forced') > 0"}
"""

FAULT = """
name: shop
until: 10m
accounts: {till: 0}
models:
  rules: [{say: "yes"}]
  retry: {requests: 1}
testing: {faults: {kinds: [server, refusal], share: 0.5}, latency: [0s, 5s]}
agents:
  - name: buyer
    balance: 10
    state: {paid: 0, got: 0, failed: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: "paid > got"
        do: {ask: {prompt: "May I have it?"}}
        set: {got: "=got + 1"}
      - when: "balance >= 1"
        do: {transfer: {to: till, amount: 1}}
        set: {paid: "=paid + 1"}
      - do: {sleep: {for: 1h}}
properties:
  goods-soon: {after: "paid > got", within: 2s, then: "paid == got", each: buyer}
"""

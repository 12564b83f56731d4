"""Generated worlds with islands, for tests that run them on several shards."""

import random
from typing import Any

LATENCY = 5


def world(number: int) -> dict[str, Any]:
    """Return a scenario: two to four islands whose agents trade, talk, publish, queue and wait for each other, and
    between which the agents of one entry are divided."""
    draw = random.Random(number)
    islands = [f"i{place}" for place in range(draw.randint(2, 4))]
    of = {island: [f"{island}a", f"{island}b"] for island in islands}
    counts = {entry: draw.randint(1, 4) for entries in of.values() for entry in entries}
    agents = [_entry(draw, island, entry, of, counts) for island, entries in of.items() for entry in entries]
    scenario: dict[str, Any] = {
        "name": "generated",
        "seed": number,
        "until": f"{draw.randint(40, 90)}s",
        "islands": {
            "latency": f"{LATENCY}s",
            "of": of,
            "by": {"crowd": "home"},
            "topics": {"news.*": {"latency": f"{LATENCY + draw.randint(0, 6)}s"}, "alarm": {}},
        },
        "pools": {f"desk{island}": {"kind": "resource", "slots": draw.randint(1, 2)} for island in islands},
        "artifacts": [{"id": f"book{island}", "owner": f"{island}a-1", "writers": "all"} for island in islands],
        "accounts": {f"bank{island}": 100 for island in islands},
        "limits": {"acts": {"agent": f"{draw.randint(3, 9)} per 10s", "policy": draw.choice(["block", "skip"])}},
        "costs": {"publish": {"acts": 1}},
        "agents": agents,
        "events": [
            {"topic": "bell", "at": f"{draw.randint(0, 30)}s", "every": f"{draw.randint(3, 9)}s"},
            {"topic": "alarm", "at": f"{draw.randint(0, 30)}s"},
            {"topic": "here", "at": f"{draw.randint(0, 30)}s"},
        ],
        "metrics": {"every": f"{draw.randint(2, 11)}s", "values": _metrics(draw, list(counts))},
    }
    agents.append(_crowd(draw, islands))
    if draw.random() < 0.3:
        scenario["stop"] = {"when": f"total('{draw.choice(list(counts))}', 'n') > {draw.randint(5, 40)}"}
    return scenario


def _metrics(draw: random.Random, entries: list[str]) -> dict[str, str]:
    one, other = draw.choice(entries), draw.choice(entries)
    return {"sum": f"total('{one}', 'n') + count('{other}')", "mean": f"mean('{other}', 'heard')"}


def _entry(
    draw: random.Random, island: str, entry: str, of: dict[str, list[str]], counts: dict[str, int]
) -> dict[str, Any]:
    others = [name for other, entries in of.items() if other != island for name in entries]
    far, near = draw.choice(others), draw.choice(of[island])
    delay = f"={LATENCY} + {draw.choice(['0', 'uniform(0, 7)', 'randint(0, 4)'])}"
    rules = [
        {
            "when": "message is not None",
            "do": draw.choice(["noop", {"sleep": {"for": "0.3s"}}]),
            "set": {"n": "=n + 1"},
        },
        {"when": "event is not None", "do": "noop", "set": {"heard": "=heard + 1"}},
        {"when": "chance(0.3)", "do": {"send": {"to": _one(far, counts), "data": "=[me, n]", "after": delay}}},
        {"when": "chance(0.3)", "do": {"send": {"to": _one(near, counts), "data": "=n"}}},
        {"when": "chance(0.2)", "do": {"publish": {"topic": draw.choice(["news.x", "alarm", "here"]), "data": "=n"}}},
        {
            "when": "chance(0.2)",
            "do": [{"acquire": {"pool": f"desk{island}"}}, {"release": {"pool": f"desk{island}"}}],
            "set": {"n": "=n + 1"},
        },
        {"when": "chance(0.2)", "do": {"write": {"artifact": f"book{island}", "content": "=n"}}},
        {"when": "chance(0.1) and balance > 1", "do": {"transfer": {"to": f"bank{island}", "amount": 1}}},
    ]
    draw.shuffle(rules)
    waits = [{"event": draw.choice(["news.*", "alarm", "bell", "here"])}, {"message": True}]
    rules.append({"do": {"sleep": {"any": waits, "timeout": draw.randint(1, 9)}}, "record": {"seen": "=heard"}})
    return {
        "name": entry,
        "count": counts[entry] if counts[entry] > 1 else 2,
        "start": draw.choice(["0s", "=uniform(0, 3)"]),
        "balance": 5,
        "state": {"n": 0, "heard": 0},
        "loop": {
            "min_loop_delay": draw.choice(["0.5s", "1s", "2.5s"]),
            "mailbox_size": draw.choice([2, 20]),
            "mailbox_policy": draw.choice(["drop_oldest", "fail"]),
        },
        "subscribe": draw.choice([[], ["news.*"], ["alarm", "here"]]),
        "rules": rules,
    }


def _crowd(draw: random.Random, islands: list[str]) -> dict[str, Any]:
    """Return an entry whose agents live on all islands."""
    size = draw.randint(2, 9)
    waits = [{"event": draw.choice(["news.*", "alarm", "here"])}, {"message": True}]
    desk = {"pool": "='desk' + home"}
    return {
        "name": "crowd",
        "count": size,
        "start": "=uniform(0, 3)",
        "state": {"home": f"={islands}[index % {len(islands)}]", "n": 0},
        "rules": [
            {"when": "message is not None", "do": "noop", "set": {"n": "=n + 1"}},
            {"when": "event is not None and chance(0.5)", "do": {"publish": {"topic": "news.crowd", "data": "=n"}}},
            {
                "when": "chance(0.4)",
                "do": {"send": {"to": f"='crowd-' + str(randint(1, {size}))", "after": f"={LATENCY} + uniform(0, 3)"}},
            },
            {"when": "chance(0.3)", "do": [{"acquire": desk}, {"release": desk}], "set": {"n": "=n + 1"}},
            {"do": {"sleep": {"any": waits, "timeout": draw.randint(1, 9)}}},
        ],
    }


def _one(entry: str, counts: dict[str, int]) -> str:
    return f"='{entry}-' + str(randint(1, {max(2, counts[entry])}))"


def with_shares(number: int) -> dict[str, Any]:
    """Return a generated world in which the agents of all islands share limits, of all and of groups."""
    draw, scenario = random.Random(f"shares {number}"), world(number)
    islands, policies = list(scenario["islands"]["of"]), ["block", "skip"]
    for name, kind, scope in (("talks", "send", "global"), ("views", "publish", "group")):
        rate = f"{draw.randint(6, 9)} per {draw.randint(3, 12)}s"
        shares = {island: draw.choice([1, 1.5]) for island in draw.sample(islands, len(islands))}
        scenario["limits"][name] = {scope: rate, "shares": shares, "policy": draw.choice(policies)}
        scenario["costs"].setdefault(kind, {})[name] = 1
    for entry in scenario["agents"]:
        entry["rules"].insert(0, {"when": f"remaining('talks') < {draw.randint(1, 3)}", "do": {"sleep": {
            "any": [{"resource": "talks", "at_least": 2}, {"event": "alarm"}], "timeout": draw.randint(1, 6)
        }}})  # fmt: skip
    return scenario


def with_travel(number: int) -> dict[str, Any]:
    """Return a generated world in which some agents travel from island to island, and messages follow them."""
    draw, scenario = random.Random(f"travel {number}"), world(number)
    for counted in ("limits", "costs"):  # what counts for each agent cannot travel
        del scenario[counted]
    islands, size = list(scenario["islands"]["of"]), draw.randint(1, 4)
    home, names = draw.choice(islands), "nomad" if size == 1 else f"='nomad-' + str(randint(1, {size}))"
    scenario["islands"]["of"][home].append("nomad")
    for entry in scenario["agents"]:
        after = f"={LATENCY} + uniform(0, {draw.randint(0, 15)})"
        entry["rules"].insert(0, {"when": "chance(0.2)", "do": {"send": {"to": names, "data": "=n", "after": after}}})
    waits = [{"event": draw.choice(["news.*", "alarm", "here"])}, {"message": True}]
    desk, way = {"pool": "='desk' + at"}, f"={LATENCY} + uniform(0, {draw.randint(0, 9)})"
    go = {"to": f"=choice({islands})"}
    rules = [
        {"when": "message is not None and chance(0.8)", "do": "noop", "set": {"n": "=n + 1"}},
        {"when": "event is not None", "do": {"publish": {"topic": "news.nomad", "data": "=[at, n]"}}},
        {
            "let": go,
            "when": "to != at and chance(0.4)",
            "do": {"travel": {"to": "=to", "after": way}},
            "set": {"at": "=to", "trips": "=trips + 1"},
        },
        {"when": "chance(0.2)", "do": {"travel": {"to": "=at", "after": way}}},  # is refused
        {"when": "chance(0.3)", "do": {"send": {"to": names, "data": "=at", "after": way}}},
        {"when": "chance(0.3)", "do": [{"acquire": desk}, {"release": desk}]},
    ]
    draw.shuffle(rules)
    rules.append({"do": {"sleep": {"any": waits, "timeout": draw.randint(1, 5)}}, "record": {"seen": "=n"}})
    scenario["agents"].append(
        {
            "name": "nomad",
            "count": size,
            "state": {"at": home, "n": 0, "trips": 0},
            "loop": {
                "min_loop_delay": "1s",
                "mailbox_size": draw.choice([2, 20]),
                "mailbox_policy": draw.choice(["block", "drop_oldest", "fail"]),
                "unmatched": draw.choice(["keep", "drop"]),
            },
            "subscribe": draw.choice([[], ["alarm", "here"]]),
            "rules": rules,
        }
    )
    scenario["metrics"]["values"] |= {"trips": "total('nomad', 'trips')", "mail": "total('nomad', 'n')"}
    return scenario


def with_models(number: int) -> dict[str, Any]:
    """Return a generated world, every other one with travel, in which agents that stay ask models inside the run: these
    fail often enough that circuit breakers open, and the calls of each agent are limited."""
    draw, scenario = random.Random(f"models {number}"), world(number) if number % 2 else with_travel(number)
    provider = draw.choice(["scripted", "simulated"])
    fails = {"fail": draw.choice(["overload", "rate_limit", "server"]), "retry_after": draw.choice([None, "7s"])}
    scenario["models"] = {
        "provider": provider,
        "tiers": {"small": ["mini", "midi"], "large": "maxi"},
        "prices": {"mini": {"input": 1, "output": 2}, "maxi": {"input": 10, "output": 20}},
        "tools": {"pick": {"description": "picks", "parameters": {"n": {"type": "integer"}}}},
        "rules": [
            {"when": f"chance({draw.choice([0.1, 0.7])})", **{key: one for key, one in fails.items() if one}},
            {"tool": "pick", "call": {"pick": {"n": "=calls + randint(0, 9)"}}},
            {"when": "chance(0.1)", "say": "=text + 1"},  # a fault of the rule
            {"say": "=me + ' ' + str(calls) + ' ' + str(state.n) + ' ' + str(messages)"},
        ],
        "simulated": {
            "first_token": {"lognormal": [0.5, 4]},
            "failures": [{"kind": draw.choice(["server", "overload", "rate_limit"]), "share": draw.choice([0.1, 0.9])}],
        },
        "faults": draw.choice([[], [{"kind": "network", "share": 0.5, "start": "9s", "end": "30s"}]]),
        "retry": {"requests": draw.randint(1, 4), "timeout": "3s", "deadline": "20s"},
    }
    shares = {island: draw.choice([1, 2]) for island in scenario["islands"]["of"]}
    money, tokens = draw.choice([(None, 3000), (0.05, 6000), (0.02, None)])
    scenario["models"]["ceiling"] = draw.choice([None, {"money": money, "tokens": tokens, "shares": shares}])
    if number % 2:  # what counts for each agent cannot travel
        scenario["limits"] |= {"llm_calls": {"agent": f"{draw.randint(1, 5)} per 10s"}}
        scenario["budgets"] = {"llm_tokens": {"amount": draw.randint(50, 2000), "reset": "20s"}}
    if provider == "simulated" and draw.random() < 0.5:
        scenario["models"]["rules"] = []  # filler
    for entry in scenario["agents"]:
        if entry["name"] == "nomad":
            continue
        entry["state"] |= {"said": [], "picks": 0}
        options = {"tier": draw.choice(["small", "large"]), "use": draw.choice(["agent", "judge"])}
        asks = [
            {"ask": {"prompt": "=me + str(n)", **options}},
            {"ask": {"prompt": "=str(n)", "history": "said", "max_tokens": 30}},
            {"ask": {"prompt": "pick", "tools": ["pick"], **options}},
        ]
        entry["rules"].insert(0, {"when": "chance(0.4)", "do": draw.choice(asks), "set": {"picks": "=picks + 1"}})
    return scenario

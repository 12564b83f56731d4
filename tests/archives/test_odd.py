"""Descriptions after the ODD protocol: each of their statements is compared with what runs of the scenario do."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.actors.wake import CONDITIONS
from sim.agents import PolicyAgent, policy
from sim.agents.family import FAMILIES
from sim.agents.toolbox import DRAWS, Toolbox
from sim.archives.odd import Pace, Subject, odd_description
from sim.archives.odd.subject import expressions_in
from sim.base import words
from sim.base.expressions import functions_at
from sim.kernel import to_ns
from sim.record.files import Mode
from sim.runner.scenario_timers import ScenarioTimers
from sim.scenario import Scenario, load
from sim.scenario.loading import loads
from sim.scenario.schema import Agent
from sim.world.action import DEFINED
from sim.world.section import SECTIONS

ROOT = Path(__file__).parents[2]
SHORT = {
    "community": "12h", "contagion": "1d", "debate": "30s", "ecology": "30m", "helpdesk": "12h", "houston": "10h",
    "lead_response": "12h", "queue": "1h", "regions": "12d", "schelling": "3s", "software_team": "10m",
    "sugarscape": "3s", "town": "2m",
    "opinions": "2s", "cascade": "2s", "culture": "20s", "wolf_sheep": "20s",
    "civil_violence": "6s", "axelrod": "3s", "hawk_dove": "3s", "asch": "20s", "jury": "5m",
    "smallville": "9h",
    "herd": "4h", "propagation": "6h",
}  # fmt: skip
"""How long a run of each scenario is watched: until most of its rules have been used."""


def describe(scenario: Scenario, mode: Mode = "autonomous", text: str = "", **given: Any) -> str:
    """Return the description of a scenario that runs in one mode."""
    return odd_description(Subject(scenario=scenario, text=text, paces=(Pace(mode, scenario),), **given))


def part(page: str, title: str) -> str:
    """Return the part of a description below a title: a design concept, or a numbered section."""
    after = page.partition(f"**{title}.** ")[2] or page.partition(f". {title}\n")[2]
    return re.split(r"\n\*\*[A-Z][a-z]+\.\*\* |\n## \d", after)[0]


def told_of(page: str, title: str, name: str) -> str:
    """Return what a concept says of the agents of one entry."""
    found = re.search(rf"^- \*\*{name}\*\* (.*)$", part(page, title), re.MULTILINE)
    assert found is not None, (title, name, page)
    return found[1]


# -- what a run does


@attrs.define
class Seen:
    """What the agents that follow rules did in a run, by entry: what they read, which actions they took, and when."""

    read: dict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    acted: dict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    decided: dict[str, list[int]] = attrs.field(factory=lambda: defaultdict(list))
    drawn: set[str] = attrs.field(factory=set)
    hash: str = ""
    sampled: list[int] = attrs.field(factory=list)


@pytest.fixture(scope="module")
def watch():
    """A function that runs a scenario and returns what its agents did."""
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        _watch_functions(patch, lambda: seen)
        _watch_agents(patch, lambda: seen)

        def run(scenario: Scenario, **options: Any) -> Seen:
            nonlocal seen
            seen = Seen()
            seen.hash = sim.run(scenario, **options).hash
            return seen

        yield run


def _watch_functions(patch, present):
    make = Toolbox.__init__

    def watched(self, world):
        make(self, world)
        known = functions_at("any", "agent")

        def wrap(name, function):
            def call(*args, **kwargs):
                user = self.acts_for
                if isinstance(user, PolicyAgent) and known[name].senses != "nothing":
                    present().read[user.entry].add(name)
                if name in DRAWS:
                    present().drawn.add(name)
                return function(*args, **kwargs)

            return call

        for name in self.functions:
            self.watch(name, partial(wrap, name))

    patch.setattr(Toolbox, "__init__", watched)


def _watch_agents(patch, present):
    def wrap(name, compute):
        def read(agent):
            present().read[agent.entry].add(name)
            return compute(agent)

        return read

    for name, compute in list(policy._COMPUTED.items()):
        if name != "pi":
            patch.setitem(policy._COMPUTED, name, wrap(name, compute))
    decide, proceed = PolicyAgent.decide_now, PolicyAgent.next_action

    def note(agent, action):
        if action is not None:
            present().acted[agent.entry].add(action.kind)
        return action

    def decided(self):
        present().decided[self.agent_id].append(self.world.kernel.now)
        return note(self, decide(self))

    patch.setattr(PolicyAgent, "decide_now", decided)
    patch.setattr(PolicyAgent, "next_action", lambda self: note(self, proceed(self)))
    sample = ScenarioTimers.sample

    def sampled(self):
        values = sample(self)
        if values:
            present().sampled.append(self._kernel.now)
        return values

    patch.setattr(ScenarioTimers, "sample", sampled)


def check_told(page: str, scenario: Scenario, seen: Seen) -> None:
    """Check that a description tells all that the agents read, did and drew."""
    for entry in scenario.agents:
        if entry.kind == "policy":
            sensing, acting = told_of(page, "Sensing", entry.name), told_of(page, "Interaction", entry.name)
            assert [one for one in sorted(seen.read[entry.name]) if f"`{one}`" not in sensing] == [], sensing
            reaching = {one for one in seen.acted[entry.name] if DEFINED[one].scope != "own" and not DEFINED[one].idle}
            assert [one for one in sorted(reaching) if f"`{one}`" not in acting] == [], acting
    assert [one for one in sorted(seen.drawn) if f"`{one}`" not in part(page, "Stochasticity")] == []


# -- the scenarios that come with sim


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_scenario_does_nothing_that_its_description_does_not_tell(path, watch):
    """All that agents with rules read, do and draw is told. The page has the seven sections, and each entry."""
    scenario = load(path)
    mode: Mode = "tick" if scenario.execution.sync else "autonomous"
    page = describe(scenario, mode, path.read_text())
    assert [int(number) for number in re.findall(r"^## (\d)\. ", page, re.MULTILINE)] == [1, 2, 3, 4, 5, 6, 7]
    for entry in scenario.agents:
        assert f"\n**{entry.name}** (".replace("_", r"\_") in page
    seen = watch(scenario, until=SHORT[path.stem], mode=mode)
    check_told(page, scenario, seen)
    assert any(seen.acted.values()) or not any(entry.rules for entry in scenario.agents)


# -- generated scenarios

RULES: list[dict[str, Any]] = [
    {"do": "noop"},
    {"do": "noop", "set": {"x": "=x + 1"}},
    {"when": "x > 2", "do": {"publish": {"topic": "hit"}}, "set": {"x": 0}},
    {"when": "chance(0.5)", "do": "noop", "set": {"x": "=x + uniform(0, 1)"}},
    {"when": "len(agents('other')) > 9", "do": {"transfer": {"to": "bank", "amount": 1}}},
    {"when": "balance > 3 and iteration % 2 == 0", "do": {"transfer": {"to": "bank", "amount": 1}}, "set": {"x": 1}},
    {"when": "state_of('other', 'x') == 1", "do": {"send": {"to": "other", "topic": "hello"}}},
    {"when": "message is not None", "do": "noop", "set": {"x": "=messages"}},
    {"when": "event is not None", "do": {"ask": {"prompt": "What now?"}}, "set": {"said": "=result.data.text"}},
    {"do": {"sleep": {"event": "hit", "timeout": "3s"}}},
    {"do": {"sleep": {"for": 2}}},
    {"do": {"sleep": {"for": "=exponential(2)"}}},
]
AGENTS: dict[str, list[Any]] = {
    "start": ["=uniform(0, 2)", 1], "balance": [5, "=randint(4, 6)"], "place": ["a", "=choice(['a', 'b'])"],
    "subscribe": [["hit"]], "count": [3], "loop": [{"min_loop_delay": "500ms"}],
}  # fmt: skip
PARTS: dict[str, list[Any]] = {
    "places": [{"nodes": ["a", "b"]}, {"nodes": ["a", "b"], "variables": {"w": "=gauss(0, 1)"}}],
    "models": [
        {"rules": [{"say": "Yes."}]},
        {"rules": [{"choose": [{"say": "Yes."}, {"say": "No."}]}]},
        {"rules": [{"say": "='it is ' + str(chance(0.5))"}]},
        {"provider": "simulated", "rules": [{"say": "Yes."}]},
        {"provider": "simulated", "rules": [{"say": "Yes."}], "simulated": {"first_token": 0.5}},
        {"rules": [{"say": "Yes."}], "faults": [{"kind": "server", "share": 0.5}]},
    ],
    "interventions": [
        [{"at": 3, "agents": "one", "where": "chance(0.5)", "send": {"topic": "hello"}}],
        [{"at": 3, "set": {"agents.one.state.x": "=randint(5, 9)"}}],
    ],
    "events": [[{"at": 2, "every": "2s", "topic": "hit"}]],
    "approvals": [{"rules": [], "simulated": {"policy": "chance"}}],
}  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Return a scenario with two entries of agents, and any of the parts in which something can be random."""
    data: dict[str, Any] = {"name": "made", "until": "12s", "accounts": {"bank": 0}, "models": PARTS["models"][0]}
    for key in draw(st.lists(st.sampled_from(sorted(PARTS)), max_size=2, unique=True)):
        data[key] = draw(st.sampled_from(PARTS[key]))
    execution: dict[str, Any] = {"agent_loop": {"min_loop_delay": draw(st.sampled_from(["1s", "250ms"]))}}
    if draw(st.booleans()):
        order, concurrency = (
            draw(st.sampled_from(["fixed", "shuffled"])),
            draw(st.sampled_from(["sequential", "parallel"])),
        )
        execution |= {
            "use_autonomous_loops": False,
            "tick": {"period": draw(st.sampled_from(["1s", "1500ms"])), "order": order, "concurrency": concurrency},
        }
    if draw(st.integers(0, 5)) == 0:
        execution["ties"] = "shuffled"
    data["agents"] = [_agent(draw, name, data) for name in ("one", "other")]
    if draw(st.booleans()):
        data["metrics"] = {"values": {"n": "total('one', 'x')"}, **draw(st.sampled_from([{}, {"every": "3s"}]))}
    return {**data, "execution": execution}


def _agent(draw: st.DrawFn, name: str, data: dict[str, Any]) -> dict[str, Any]:
    agent: dict[str, Any] = {
        "name": name,
        "balance": 5,
        "state": {"x": draw(st.sampled_from([0, "=randint(0, 2)", 1]))},
    }
    agent["state"]["said"] = ""
    for key in draw(st.lists(st.sampled_from(sorted(AGENTS)), max_size=1)):
        if key != "place" or "places" in data:
            agent[key] = draw(st.sampled_from(AGENTS[key]))
    if name == "other":  # the rules name it
        agent.pop("count", None)
    return {**agent, "rules": draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=4))}


@pytest.mark.slow
@given(scenarios())
@settings(max_examples=25, deadline=None)
def test_what_a_description_states_holds_in_runs(watch, data):
    """Nothing random: seeds make no difference. Reads, actions and draws: no others occur. Intervals: as in the run."""
    scenario = Scenario.from_dict(data)
    mode: Mode = "autonomous" if scenario.execution.use_autonomous_loops else "tick"
    page = describe(scenario, mode)
    seen = watch(scenario, seed=1)
    check_told(page, scenario, seen)
    if "Nothing is drawn at random" in page:
        assert not seen.drawn
        assert watch(scenario, seed=2).hash == seen.hash
    check_intervals(page, scenario, seen)


def check_intervals(page: str, scenario: Scenario, seen: Seen) -> None:
    """Check that samples, ticks and pauses have the lengths that a description tells."""
    if (every := re.search(r"then every (\S+), and at the end", page)) is not None:
        step = to_ns(every[1])
        assert seen.sampled[:-1] == [number * step for number in range(len(seen.sampled) - 1)]
    else:
        assert seen.sampled == []
    if (tick := re.search(r"A tick begins every (\S+),", page)) is not None:
        assert "continuous" not in page
        waits = scenario.models is not None and scenario.models.provider == "simulated"  # a barrier waits for answers
        assert waits or [t for times in seen.decided.values() for t in times if t % to_ns(tick[1])] == []
        return
    pauses = dict(re.findall(r"^\| (one|other) \| (\S+) \| \S+ \|$", page, re.MULTILINE))
    for agent, times in seen.decided.items():
        pause = to_ns(pauses[agent.partition("-")[0]])
        assert [b - a for a, b in pairwise(times) if b - a < pause] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"execution": {"ties": "shuffled"}}, "the order of what happens at one instant"),
        ({"execution": {"use_autonomous_loops": False, "tick": {"order": "shuffled"}}}, "drawn again for each tick"),
        ({"models": {"provider": "simulated"}}, "the time until an answer begins"),
        ({"models": {"rules": [{"choose": [{"say": "a"}, {"say": "b"}]}]}}, "which of several scripted answers"),
        ({"models": {"rules": [{"say": "=str(chance(0.5))"}]}}, "the scripted answers of language models: `chance`"),
        ({"models": {"faults": [{"kind": "server", "share": 0.5}]}}, "which calls of language models the fault 1"),
        ({"places": {"nodes": ["a"], "variables": {"w": "=gauss(0, 1)"}}}, "`variables` of places at the start: `"),
        (
            {"places": {"nodes": ["a"], "variables": {"w": 1}, "rules": [{"set": {"w": "=uniform(0, 1)"}}]}},
            "what places do in their rules: `uniform`",
        ),
        ({"interventions": [{"at": 1, "where": "chance(0.5)", "send": {}}]}, "whom the intervention 1 concerns: `"),
        ({"interventions": [{"at": 1, "set": {"agents.one.state.x": "=randint(1, 2)"}}]}, "`agents.one.state.x` to: `"),
        ({"approvals": {"simulated": {"policy": "chance"}}}, "whether person approves a call"),
        ({"approvals": {"simulated": {"latency_p95": "1h"}}}, "how long person takes to decide"),
    ],
)  # fmt: skip
def test_each_place_that_draws_is_named(change, said):
    """A scenario in which nothing is random says so, and with one place that draws, it names this place instead."""
    plain = {"name": "made", "agents": [{"name": "one", "state": {"x": 1}, "rules": [{"do": "noop"}]}]}
    assert "Nothing is drawn at random" in describe(Scenario.from_dict(plain))
    scenario = Scenario.from_dict({**plain, **change})
    page = describe(scenario, "autonomous" if scenario.execution.use_autonomous_loops else "tick")
    assert "Nothing is drawn at random" not in page
    assert said in part(page, "Stochasticity")


@pytest.mark.parametrize(
    ("inheritance", "said"),
    [
        ({"by": "best"}, []),
        ({"by": "best", "mutation": 0.1}, ["take a strategy of the first generation at random"]),
        ({"by": "proportional"}, ["from whom players of the game g take their strategies"]),
    ],
)
def test_inheritance_draws_what_its_description_says(inheritance, said):
    """Who inherits from the best draws nothing; mutations and parents in proportion are drawn, and both are named."""
    game = {
        "payoffs": {"a": {"a": 1, "b": 0}, "b": {"a": 2, "b": 0}}, "strategies": {"x": "'a'", "y": "'b'"},
        "inheritance": {"generations": 2, **inheritance},
    }  # fmt: skip
    players = [{"name": "one", "kind": "player", "count": 2, "params": {"strategy": "x"}}]
    page = part(
        describe(Scenario.from_dict({"name": "made", "games": {"g": game}, "agents": players})), "Stochasticity"
    )
    forms = (
        "from whom players of the game g take their strategies",
        "take a strategy of the first generation at random",
    )
    assert [form for form in forms if form in page] == said


def test_the_options_of_a_run_change_what_is_said():
    """Models of the operator, several modes and drawn rows of a table are in the description."""
    scenario = loads("name: x\nmodels: {}\nagents: [{name: one, rules: [{do: {ask: {prompt: Hello}}}]}]\n")
    ticks = scenario.source.load(loads_override("execution.tick.order=shuffled"))
    page = describe(scenario, models=("openai:gpt-x",))
    assert "answers of language models at `openai` and their time" in part(page, "Stochasticity")
    assert "The model uses answers of language models at `openai` and their time; they are" in part(page, "Input data")
    paces = (Pace("tick", ticks, "tick-sequential"), Pace("autonomous", scenario, "autonomous"))
    both = odd_description(Subject(scenario=scenario, text="", paces=paces))
    assert "In the mode tick-sequential, agents act in ticks, one every 1s" in both
    assert "In the mode autonomous, simulated time is continuous" in both
    assert "drawn again for each tick (mode tick-sequential)" in both


def test_agents_from_a_table_surveys_and_templates_are_described(tmp_path):
    """Drawn rows, columns, who is asked when, what answers depend on, and agents made during the run are told."""
    (tmp_path / "people.csv").write_text("age\n30\n40\n50\n")
    (tmp_path / "panel.yaml").write_text(
        "name: panel\nuntil: 3d\nmodels: {rules: [{say: '=str(state.age)'}]}\nagents:\n"
        "- {name: person, table: people.csv, sample: 2, state: {mood: 1}, rules: [{do: {spawn: {agent: child}}}]}\n"
        "- {name: child, template: true, rules: [{do: noop}]}\n"
        "interventions: [{at: 1d, survey: {agents: person, questions: [How old are you?]}}]\n"
    )
    page = describe(load(tmp_path / "panel.yaml"))
    assert "**person** (2 agents: rows drawn from the table `people.csv`; each of them follows rules)" in page
    assert "| mood | `1` |\n| age | from the table |" in page
    assert "**child** (none at the start: a template of agents that are made during the run;" in page
    assert "which rows of `people.csv` the agents person are" in part(page, "Stochasticity")
    assert "At 1d, `person` are asked, without noticing it:\n\n- How old are you?" in part(page, "Observation")
    assert "depend, beside the question, on the state of the agent that asks or is asked" in part(page, "Sensing")
    assert told_of(page, "Interaction", "child") == "takes no action that others can notice."
    assert "No values are sampled." in page


def loads_override(text: str) -> Any:
    """Return a change of a scenario."""
    from sim.scenario.overrides import parse_all

    return parse_all([text])


def test_hostile_scenarios_are_text_in_a_description():
    """Markup in a scenario stays text: no element, no broken table. What is cut off is counted."""
    text = (
        "# A small crowd <b>walks</b>.\nname: crowd\ndescription: 'A crowd | that *walks*'\nagents: [{name: a, state: "
    )
    text += f"{{t: {'x' * 2100}}}}}]\n"
    page = describe(loads(text), text=text, facts={"seed": "<script>|`x`"})
    assert "&lt;b>walks" in page
    assert r"A crowd \| that \*walks\*" in page
    assert "<b>" not in page.replace("`<", "")
    assert r"<script>\|`x`" in page  # as code
    assert "(cut here; 100 more characters are in the scenario)" in page


# -- agents in code

SOURCE = b'''
import sim
from elsewhere import Family

class Base(sim.Agent):
    class Params:
        pace: float = 1.5
        """steps in a second"""
        home: str

class Walker(Base):
    """Walks <b>home</b>."""

    async def on_start(self):
        self.state.update(steps=0)
        self.state |= {"tired": False}

    async def decide_action(self):
        self.state["place"] = self.state.get("goal")

KIND = Family("walker", Walker)
'''


@pytest.mark.parametrize("name", ["Walker", "KIND"])
def test_agents_in_code_are_described_by_their_class(name):
    """The class is named, with its docstring, params and state, and not run; how it decides is for the author."""
    scenario = loads(f"name: crowd\nagents: [{{name: one, kind: 'strollers:{name}'}}]\n")
    page = describe(scenario, sources={"strollers.py": SOURCE})
    assert (
        f"**one** decides in code: `strollers.{name}`; *To be written by the author: what it does, and when.*" in page
    )
    assert "> Walks &lt;b>home&lt;/b>." in page
    assert "| `pace` | `float` | `1.5` | steps in a second |\n| `home` | `str` |  |  |" in page
    assert "Its code names the state variables `goal`, `place`, `steps`, `tired`." in page
    assert "how these agents decide.*" in page
    chance = part(page, "Stochasticity")
    assert f"what the code of one (`strollers:{name}`) draws" in chance
    assert "Nothing is drawn at random" not in page


def test_a_class_is_read_once(monkeypatch):
    """Each section names the class of agents in code, in each variant; its source is parsed once for all of them."""
    text = "name: crowd\nagents: [{name: one, kind: 'once:Walker'}, {name: two, kind: 'once:Walker'}]\n"
    parsed: list[object] = []
    parse = ast.parse

    def counted(source):
        parsed.append(source)
        return parse(source)

    monkeypatch.setattr(ast, "parse", counted)
    page = describe(loads(text), sources={"once.py": SOURCE + b"# read once"})
    assert page.count("`once.Walker`") > 4
    assert len(parsed) == 1


def test_a_class_whose_source_is_not_there_is_said_to_be_unknown():
    """Without the source of a class, its name remains, and that nothing more is known of it."""
    page = describe(loads("name: crowd\nagents: [{name: one, kind: 'strollers:Walker'}]\n"))
    assert "The source of this class was not there" in page
    assert "*To be written by the author: what these agents read.*" in told_of(page, "Sensing", "one")


# -- what comes from outside


@pytest.mark.parametrize(
    "change",
    [
        {"models": {}},
        {"approvals": {"rules": [], "person": "real"}},
        {"tools": {"servers": {"shop": {"tools": {"buy": {"description": "Buy."}}}}}},
        {"tools": {"commands": {"list": {"description": "List.", "command": ["ls"]}}}},
    ],
    ids=["models", "person", "servers", "commands"],
)
def test_what_comes_from_outside_is_data_in_both_sections(change):
    """Stochasticity and input data say the same of data from outside, for each way in which there can be any."""
    plain = {"name": "made", "agents": [{"name": "one", "rules": [{"do": "noop"}]}]}
    page = describe(Scenario.from_dict({**plain, **change}), models=("openai:gpt-x",) if "models" in change else ())
    (found,) = re.findall(r"^- (.*)$", part(page, "Stochasticity").partition("come from outside")[2], re.MULTILINE)
    assert f"The model uses {found}; they are in the record of a run." in part(page, "Input data")


# -- what is declared


def test_each_part_of_sim_declares_whether_it_draws_and_what_it_reads():
    """Of its own kinds and sections nothing is unknown, so that a description can say that nothing is random."""
    assert [kind for kind in words.KINDS if FAMILIES[kind].draws is None] == []
    assert [key for key in words.SECTIONS if SECTIONS[key].draws is None] == []
    assert [kind for kind in words.ACTIONS if DEFINED[kind].draws is None] == []
    assert [name for name, one in CONDITIONS.items() if one.reads is None] == []


@pytest.mark.slow
def test_an_action_that_says_that_it_does_not_draw_does_not():
    """No module with an action that declares to draw nothing draws; the one that declares it ends in one that does."""
    quiet = [DEFINED[kind].apply for kind in words.ACTIONS if DEFINED[kind].draws is False]
    files = {Path(inspect.getfile(one)).relative_to(ROOT / "sim").as_posix() for one in quiet}
    assert files & set(_modules_that_draw()) == set()
    assert [kind for kind in words.ACTIONS if DEFINED[kind].draws] == ["orchestrate"]
    assert "kinds/goals/retry.py" in set(_modules_that_draw())  # its delayed retries


def test_an_action_that_says_nothing_is_told_to_be_unknown(monkeypatch):
    """Nothing is inferred from an absence, also of an action of sim: what is not declared is not known."""
    scenario = loads("name: x\nagents: [{name: one, rules: [{do: {publish: {topic: hit}}}]}]\n")
    monkeypatch.setitem(DEFINED, "publish", attrs.evolve(DEFINED["publish"], draws=None))
    page = describe(scenario)
    assert "Nothing is drawn at random" not in page
    assert "- what is drawn by the code of the action `publish`\n" in page


def test_an_action_that_declares_to_draw_is_told(monkeypatch):
    """What an action declares about its draws is read, also of an action of sim."""
    scenario = loads("name: x\nagents: [{name: one, rules: [{do: {publish: {topic: hit}}}]}]\n")
    assert "Nothing is drawn at random" in describe(scenario)
    monkeypatch.setitem(DEFINED, "publish", attrs.evolve(DEFINED["publish"], draws=True))
    assert "what is drawn by the code of the action `publish`, which declares that it draws" in describe(scenario)


_DRAW = (
    r"(?<!kernel)\.rng\b|\.draws\(|draws_now\(|world\.stream\(|streams\.(get|draws|at)\(|Stream\(derive"
    r"|hash_order\("
)


def _modules_that_draw() -> Iterator[str]:
    for path in sorted((ROOT / "sim").rglob("*.py")):
        if re.search(_DRAW, path.read_text()):
            yield path.relative_to(ROOT / "sim").as_posix()


def test_no_other_module_draws():
    """Each module that draws is known: a new one must be told in descriptions, by a declaration or in `chance.py`."""
    told = {
        "actors/agent.py", "agents/policy.py", "agents/toolbox.py",  # functions of rules; agents in code
        "kinds/goals/retry.py", "kinds/town/generation.py", "tools/approvals.py",  # declared by kinds and sections
        "kinds/games/player.py", "kinds/games/service.py", "kinds/generative/service.py",
        "kinds/feed/follows.py", "kinds/feed/service.py",
        "kinds/feed/user.py",
        "llm/providers/scripted.py", "llm/providers/simulated.py", "llm/service.py", "llm/sim_clock.py",  # models
        "runner/interventions.py", "scenario/assembly/live_parameters.py",  # interventions
        "scenario/assembly/agent_factory.py",  # values at the start, tables
        "scenario/assembly/place_variables.py",  # values of places at the start
        "runner/tick.py",  # the order of turns
        "runner/sync/restricted_world.py", "world/world.py",  # give draws to others
        "experiments/testing/cases.py",  # failures that tests inject
    }  # fmt: skip
    drawing = [name for name in _modules_that_draw() if not name.startswith(("kernel/", "record/", "cli/"))]
    assert sorted(set(drawing) - told) == []


def test_functions_that_sense_nothing_need_no_world():
    """A function that is declared to sense nothing, or only its agent, reads no data that others change."""

    class NoWorld:
        def __getattr__(self, name):
            raise AssertionError(f"it reads {name}")

    class User:
        agent_id = "one"
        rng: Any = None

    toolbox = object.__new__(Toolbox)
    toolbox._world, toolbox.acts_for = NoWorld(), User()  # type: ignore[assignment]
    User.rng = type("Rng", (), {"__getattr__": lambda self, name: lambda *args: 0})()
    arguments = {"chance": (0.5,), "exponential": (1.0,), "choice": ([1],)}
    for name, one in functions_at("agent").items():
        if one.senses in ("nothing", "self") and hasattr(Toolbox, name):
            getattr(toolbox, name)(*arguments.get(name, (0, 1)))


def test_every_expression_of_a_scenario_is_found():
    """Whatever part of an entry has an expression, the description looks at it."""
    text = (
        "name: x\nplaces: {nodes: [a], variables: {v: '=1 + 1'}, rules: [{when: v > 2, set: {v: '=3'}}]}\n"
        "agents:\n- {name: one, start: '=4', balance: '=5', place: '=6 * 0', state: {s: {t: ['=7']}},"
        " rules: [{let: {l: '=8'}, when: 9 > s, do: [{send: {to: one, topic: '=str(10)'}},"
        " {sleep: {any: [{for: '=11'}, {event: e, where: data > 12}]}}],"
        " set: {s: '=13'}, record: {r: '=14'}}]}\n"
    )
    found = " ".join(one.text for _, one in expressions_in(loads(text)))
    numbers = {int(number) for number in re.findall(r"\d+", found)}
    assert numbers >= set(range(1, 15))
    assert isinstance(loads(text).agents[0], Agent)


def test_what_a_sleep_reads_is_what_its_conditions_declare(monkeypatch):
    """The conditions of a sleep say what they read, also within others; one that does not say it is not known."""
    sleep = "{sleep: {any: [{for: 3s}, {event: rain.*}, {all: [{message: true}, {resource: calls, at_least: 1}]}]}}"
    limits = "limits: {calls: {agent: 1 per 1s, policy: block}}\n"
    text = f"name: x\n{limits}agents: [{{name: one, rules: [{{do: {sleep}}}]}}]\n"
    told = told_of(describe(loads(text)), "Sensing", "one")
    assert told == (
        "reads events with the topics `rain.*`; whether a message waits for it;"
        " when enough of the limit `calls` is left."
    )
    monkeypatch.setattr(type(CONDITIONS["time"]), "reads", None)
    assert "what the condition `for` of its sleep depends on" in told_of(describe(loads(text)), "Sensing", "one")

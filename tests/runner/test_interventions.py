"""Interventions: what is done to a run from outside at given times, as the scenario says."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sim.actors import Agent
from sim.base import crashpoints
from sim.kernel import NS, Effect, perform
from sim.record import open_run
from sim.runner import RunResult, branch, replay, resume, run
from sim.runner.options import Backend
from sim.world import Action

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])

TOWN = """\
name: town
seed: 2
until: 2d
limits: {calls: {agent: 100 per 1h}}
models:
  rules:
    - {use: survey, text: "How ill*", say: "='7' if state.status == 'I' else '1'"}
    - {say: "='I am ' + me"}
agents:
  - name: person
    count: 6
    state: {status: "='I' if index == 0 else 'S'", beta: 0.5, said: 0, heard: null}
    loop: {min_loop_delay: 1h}
    rules:
      - {when: message, set: {heard: "=message.data"}, do: {publish: {topic: person.heard, data: "=message.sender"}}}
      - when: chance(beta)
        set: {said: "=said + 1", status: "='I' if chance(0.1) else status"}
        do: {publish: {topic: person.spoke, data: "=beta"}}
      - do: noop
  - name: ear
    loop: {min_loop_delay: 1h}
    subscribe: [rain.*]
    state: {rain: 0}
    rules: [{when: event, set: {rain: "=rain + event.data"}, do: {publish: {topic: ear.heard, data: "=event.source"}}}]
metrics:
  every: 6h
  values: {said: "total('person', 'said')", beta: "mean('person', 'beta')", rain: "total('ear', 'rain')"}
"""

EVERYTHING = f"""\
{TOWN}
interventions:
  - {{at: 6h, name: less, set: {{agents.person.state.beta: 0.25}}}}
  - {{at: 12h, agents: person, where: "index % 2 == 1", set: {{agents.person.state.beta: "=beta / 2"}}}}
  - at: 18h
    name: lots
    agents: person
    where: chance(0.5)
    set: {{agents.person.state: {{beta: 1, heard: [a, {{b: 1}}]}}}}
  - {{at: 20h, name: news, send: {{to: all, topic: news, data: {{stay: home}}}}}}
  - {{at: 1d, pause: {{agents: [person-1, person-2], for: 5h}}}}
  - at: 3h
    every: 12h
    times: 3
    name: mood
    survey: {{agents: person, questions: [{{ask: "How ill are you?", scale: [1, 7]}}, Why?]}}
  - {{at: 30h, publish: {{topic: rain.fell, data: 3}}}}
  - at: 36h
    set: {{stop: {{when: now > 170000}}, agents.person.rules: [{{do: {{publish: {{topic: person.late}}}}}}]}}
  - {{at: 40h, pause: {{agents: ear}}}}
  - {{at: 44h, resume: {{agents: ear}}}}
"""


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., RunResult]:
    """Record a run of a scenario."""

    def record(text: str, **options: Any) -> RunResult:
        file = tmp_path / "town.yaml"
        file.write_text(text, encoding="utf-8")
        return run(file, out=tmp_path / "runs", **options)

    return record


def path_of(made: RunResult) -> Path:
    """Return the folder of a run."""
    assert made.run is not None
    return Path(made.run)


def rows(made: RunResult, sql: str) -> list[Any]:
    """Return the rows of a query."""
    with open_run(path_of(made)) as stored:
        return stored.query(sql)


def events(made: RunResult, *without: str) -> list[Any]:
    """Return the events of a run with their whole keys, without those whose topic begins with one of some words."""
    with open_run(path_of(made)) as stored:
        return [tuple(row) for row in stored.events() if not row.topic.startswith(without)]


def state(made: RunResult, agent: str) -> Any:
    """Return the state of an agent at the end."""
    with open_run(path_of(made)) as stored:
        assert stored.info.digest is not None
        return stored.info.digest["agents"][agent]["state"]


# -- the same everywhere


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "tick", "overrides": ["execution.tick.period=1h"]}, {"overrides": ["execution.ties=shuffled"]}],
)
def test_the_same_on_every_host_and_in_a_replay(record, options):
    """A run with all kinds of interventions has one hash on asyncio and trio, in both modes, and replays to it."""
    one, other = (record(EVERYTHING, backend=backend, **options) for backend in ("asyncio", "trio"))
    assert one.hash == other.hash
    assert one.services["interventions"] == {"applied": 12, "refused": 0, "answers": 36}
    assert replay(path_of(one), backend="trio").same
    assert branch(path_of(one), at="30h").hash == one.hash


class Asker(Agent):
    """Has a service answer, so that its run has commits between which a process can be killed."""

    calls: ClassVar[list[str]] = []

    async def decide_action(self) -> Action:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        call = Effect("ask", {"turn": turn}, self._serve, latency_ns=NS, safety="pure")
        return Action("publish", {"topic": "asker.heard", "data": (await perform(call)).value})

    async def _serve(self, request: Any, key: str) -> Any:
        self.calls.append(self.agent_id)
        return request["turn"] * 2


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    yield
    crashpoints.hook = None


@pytest.mark.proof
@both_hosts
def test_a_killed_run_goes_on(record, tmp_path: Path, backend: Backend):
    """After a kill at any commit a run with interventions comes to the hash of the run that was not killed."""
    text = EVERYTHING.replace(
        "agents:\n  - name: person",
        "agents:\n  - {name: asker, kind: asker, loop: {min_loop_delay: 2h}}\n  - name: person",
    )
    copies: list[Path] = []

    def copy(reached: str) -> None:
        (folder,) = (tmp_path / "runs").iterdir()
        if reached == "writer.committed":
            copies.append(tmp_path / "killed" / str(len(copies)) / folder.name)
            copies[-1].mkdir(parents=True)
            for name in ("run.db", "run.db-wal", "run.head", "run.lock", "scenario.yaml"):
                if (folder / name).exists():
                    shutil.copy(folder / name, copies[-1] / name)

    crashpoints.hook = copy
    made = record(text, kinds={"asker": Asker})
    crashpoints.hook = None
    assert len(copies) > 10
    for folder in copies[: -len(copies) // 5 : 7]:  # the last ones may have their end
        found = resume(folder, kinds={"asker": Asker}, backend=backend)
        assert (found.hash, found.events) == (made.hash, made.events)


# -- the same as a branch


@pytest.mark.slow
def test_it_is_as_a_branch_from_that_time(record):
    """Values that a branch changes at a time, and an intervention then, give the same events, keys and samples."""
    base = record(TOWN)
    for value in ("0.9", "=beta / 2", "=uniform(0, 1)"):
        changed = branch(path_of(base), at="1d", overrides=[f"agents.person.state.beta={value}"])
        text = f'{TOWN}interventions: [{{at: 1d, set: {{agents.person.state.beta: "{value}"}}}}]\n'.replace(
            '"0.9"', "0.9"
        )
        planned = record(text)
        assert events(changed) == events(planned, "intervention.")
        assert changed.metrics == planned.metrics
        assert changed.metrics != base.metrics


CONTAGION = (Path(__file__).parents[2] / "scenarios" / "contagion.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
@both_hosts
def test_an_outbreak_that_is_stopped_on_day_1(record, backend: Backend):
    """In `contagion`, a lower beta from day 1 on gives the same epidemic by an intervention and in a branch."""
    base = record(CONTAGION, backend=backend)
    changed = branch(path_of(base), at="1d", overrides=["agents.person.state.beta=0.02"], backend=backend)
    planned = record(f"{CONTAGION}\ninterventions: [{{at: 1d, set: {{agents.person.state.beta: 0.02}}}}]\n")
    assert events(changed) == events(planned, "intervention.")
    before = 86_400 * NS
    assert [row for row in events(base) if row[0] < before] == [row for row in events(changed) if row[0] < before]
    assert changed.metrics["R"][-1] < base.metrics["R"][-1]
    assert replay(path_of(changed)).same


@pytest.mark.slow
def test_other_live_parameters_are_as_in_a_branch(record):
    """Rules, limits, costs, events, loops, permissions and the stop condition change as in a branch."""
    base = record(TOWN)
    for key, value in (
        ("agents.person.rules", "[{do: {publish: {topic: person.late}}}]"),
        ("events", "[{at: 25h, every: 3h, topic: rain.fell, data: 1}]"),
        ("stop", "{when: now > 100000}"),
        ("agents.person.loop.min_loop_delay", "2h"),
        ("agents.person.permission", "guest"),
    ):  # fmt: skip
        changed = branch(path_of(base), at="1d", overrides=[f"{key}={value}"])
        planned = record(f"{TOWN}interventions: [{{at: 1d, set: {{{key}: {value}}}}}]\n")
        assert events(changed) == events(planned, "intervention."), key
        assert events(changed) != events(base), key


# -- what each does


@pytest.mark.slow
def test_state_changes_for_those_it_names(record):
    """A change concerns the agents that are chosen; `where` reads their state, and draws for each of them anew."""
    made = record(EVERYTHING, until="19h")
    betas = [state(made, f"person-{n}")["beta"] for n in range(1, 7)]
    assert set(betas) <= {0.25, 0.125, 1}
    assert 0 < betas.count(1) < 6
    heard = [state(made, f"person-{n}")["heard"] for n in range(1, 7)]
    assert heard.count(["a", {"b": 1}]) == betas.count(1)
    assert rows(made, "SELECT time, name, agents FROM interventions WHERE does = 'set' ORDER BY id") == [
        (21_600.0, "less", 6), (43_200.0, "interventions[1]", 3), (64_800.0, "lots", betas.count(1)),
    ]  # fmt: skip


def test_an_intervention_comes_first_at_its_time(record):
    """What is due at the same time comes after it: samples of metrics, events of the scenario, agents."""
    made = record(f"{TOWN}interventions: [{{at: 6h, set: {{agents.person.state.beta: 0}}}}]\n", until="6h1s")
    assert made.metrics["beta"][-1] == 0
    assert rows(made, "SELECT count(*) FROM events WHERE topic = 'person.spoke' AND time = 21600") == [(0,)]
    assert rows(made, "SELECT priority, source, actor FROM events WHERE topic = 'intervention.applied'") == [
        (-1, 1 - 2**20, "intervention")  # the source of the first entry of `interventions`
    ]


def test_messages_and_events(record):
    """`send` reaches every living agent that it names, `publish` those that listen; both have a source of their own."""
    made = record(EVERYTHING)
    sent = rows(made, "SELECT sender, receiver, topic, data FROM messages ORDER BY id")
    assert sent == [("intervention", f"person-{n}", "news", '{"stay":"home"}') for n in range(1, 7)] + [
        ("intervention", "ear", "news", '{"stay":"home"}')
    ]
    assert rows(made, "SELECT actor, data FROM events WHERE topic = 'ear.heard'") == [("ear", '"intervention"')]
    assert state(made, "ear")["rain"] == 3


def test_pauses_end(record):
    """A pause has the reason `operator`, lasts as long as it says, or until `resume`; others go on meanwhile."""
    made = record(EVERYTHING)
    pauses = "SELECT time, agent, to_state, reason FROM transitions WHERE reason = 'operator' ORDER BY id"
    assert rows(made, pauses) == [
        (86_400.0, "person-1", "paused", "operator"), (86_400.0, "person-2", "paused", "operator"),
        (104_400.0, "person-1", "running", "operator"), (104_400.0, "person-2", "running", "operator"),
        (144_000.0, "ear", "paused", "operator"), (158_400.0, "ear", "running", "operator"),
    ]  # fmt: skip


def test_a_longer_pause_is_not_cut_short(record):
    """If an agent is paused again, the last pause decides when it goes on."""
    text = "[{at: 1h, pause: {agents: ear, for: 2h}}, {at: 2h, pause: {agents: ear, for: 5h}}]"
    made = record(f"{TOWN}interventions: {text}\n")
    assert rows(made, "SELECT time, to_state FROM transitions WHERE reason = 'operator' ORDER BY id") == [
        (3600.0, "paused"), (25_200.0, "running"),
    ]  # fmt: skip


def test_what_is_not_possible_is_recorded(record):
    """An intervention that is not possible at its time changes nothing, says why, and is counted; the run goes on."""
    text = '[{at: 1h, name: bad, set: {agents.person.state: {said: 1, beta: "=1 / (index - 3)"}}}]'
    made = record(f"{TOWN}interventions: {text}\n", until="2h")
    ((name, does, why),) = rows(made, "SELECT name, does, refused FROM interventions")
    assert (name, does) == ("bad", "set")
    assert why == "bad.set.agents.person.state: person-4: '1 / (index - 3)': division by zero"
    assert state(made, "person-1")["beta"] == 0.5
    assert made.services["interventions"] == {"applied": 0, "refused": 1, "answers": 0}
    assert replay(path_of(made)).same


@pytest.mark.slow
def test_agents_that_come_later_begin_with_the_value(record):
    """A value for an entry holds for copies of it that are made later, one for chosen agents does not."""
    guest = "  - {name: guest, template: true, state: {beta: 1, n: 0}}\n  - name: ear"
    text = TOWN.replace("  - name: ear", guest)
    text = text.replace(
        "rules: [{when: event,", "rules: [{when: now == 7200, do: {spawn: {agent: guest}}}, {when: event,"
    )
    made = record(
        f'{text}interventions: [{{at: 1h, set: {{agents.guest.state: {{beta: "=index + 7"}}}}}}]\n', until="3h"
    )
    assert state(made, "guest-ear-1") == {"beta": 7, "n": 0}
    made = record(
        f"{text}interventions: [{{at: 1h, agents: guest, set: {{agents.guest.state.beta: 7}}}}]\n", until="3h"
    )
    assert state(made, "guest-ear-1") == {"beta": 1, "n": 0}


# -- surveys


def test_a_survey_asks_each_agent_each_question(record):
    """The view `surveys` has a row for each agent and question at each time, with the number if one was asked for."""
    made = record(EVERYTHING)
    found = rows(made, "SELECT time, name, agent, question, answer, value FROM surveys ORDER BY id")
    assert len(found) == 36
    assert found[:3] == [
        (10_800.0, "mood", "person-1", "How ill are you?", "7", 7),
        (10_800.0, "mood", "person-1", "Why?", "I am person-1", None),
        (10_800.0, "mood", "person-2", "How ill are you?", "1", 1),
    ]
    assert rows(made, "SELECT DISTINCT time FROM surveys ORDER BY 1") == [(10_800.0,), (54_000.0,), (97_200.0,)]
    assert rows(made, 'SELECT DISTINCT "group", use FROM llm_calls') == [("survey", "survey")]


@pytest.mark.slow
def test_nobody_notices_a_survey(record):
    """With a survey, all other events of a run are the same, to their keys; and so is the state at the end."""
    survey = "{agents: person, questions: [Why?, {ask: How many?, number: true}]}"
    with_it = record(f"{TOWN}interventions: [{{at: 1h, every: 3h, survey: {survey}}}]\n")
    without = record(TOWN)
    asked = ("survey.", "model.", "intervention.")
    assert events(with_it, *asked) == events(without)
    assert rows(with_it, "SELECT count(*) FROM surveys") == [(16 * 12,)]
    with open_run(path_of(with_it)) as one, open_run(path_of(without)) as other:
        assert one.info.digest is not None
        assert other.info.digest is not None
        assert one.info.digest == other.info.digest


def test_surveys_keep_no_run_going(record):
    """A run without a time limit ends when nothing but surveys is left to do."""
    text = """
name: short
until: null
models: {rules: [{say: x}]}
agents:
  - name: worker
    state: {n: 0}
    loop: {min_loop_delay: 1h}
    rules: [{when: n < 3, set: {n: "=n + 1"}}, {do: {sleep: {message: true}}}]
interventions: [{at: 0s, every: 1h, survey: {questions: [Why?]}}]
"""
    made = record(text)
    assert (made.stopped_by, made.status) == ("nothing is left to do", "finished")
    assert 3 <= made.services["interventions"]["answers"] < 10


@pytest.mark.slow
def test_a_survey_that_is_too_large_is_refused(record):
    """A survey of more than 10,000 answers asks nobody, and says so."""
    text = TOWN.replace("count: 6", "count: 5001")
    made = record(f"{text}interventions: [{{at: 1s, survey: {{agents: person, questions: [A, B]}}}}]\n", until="2s")
    ((why,),) = rows(made, "SELECT refused FROM interventions")
    assert why == "5001 agents and 2 questions are more than 10000 answers"


class Shy(Agent):
    """Cannot say what it is."""

    def about(self) -> Any:
        raise KeyError("nothing")

    async def decide_action(self) -> None: ...


@pytest.mark.slow
def test_an_agent_that_cannot_say_what_it_is(record):
    """An error in `about` is the error of the answers of this agent; others answer, and the run goes on."""
    text = TOWN.replace("  - name: ear\n", "  - {name: shy, kind: shy}\n  - name: ear\n")
    survey = "{agents: [shy, person-1], questions: [Why?]}"
    made = record(f"{text}interventions: [{{at: 1h, survey: {survey}}}]\n", kinds={"shy": Shy}, until="2h")
    assert rows(made, "SELECT agent, answer, error FROM surveys ORDER BY agent") == [
        ("person-1", "I am person-1", None), ("shy", None, "KeyError: 'nothing'"),
    ]  # fmt: skip


# -- interventions of a branch


@pytest.mark.slow
def test_a_branch_can_intervene(record):
    """Interventions are live: a branch can add some; what they would have done before it does not happen."""
    base = record(TOWN)
    added = "interventions=[{at: 1h, every: 1h, times: 30, publish: {topic: rain.fell, data: 1}}]"
    changed = branch(path_of(base), at="1d", overrides=[added])
    assert state(changed, "ear")["rain"] == 7
    assert replay(path_of(changed)).same
    again = branch(path_of(changed), at="26h", overrides=["interventions=[]"])
    assert state(again, "ear")["rain"] == 2
    assert replay(path_of(again)).same

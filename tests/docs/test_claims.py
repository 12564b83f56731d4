"""Numbers in the README and in the docs that are counts of something are what they count."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.agents import ask
from sim.base import local_server
from sim.cli import person, show
from sim.cli.render import live, progress
from sim.events import bus
from sim.experiments import scoring
from sim.experiments.attribution import candidates
from sim.experiments.attribution.analysis import AttributionOptions
from sim.experiments.bench import plan as bench
from sim.host import effect_tasks, watchdog
from sim.inspect.play import gate
from sim.inspect.play import site as play_site
from sim.inspect.telemetry import catalog
from sim.inspect.viewer import bins, chunks
from sim.inspect.viewer.sections import agents as agents_section
from sim.inspect.viewer.states import MOST_VALUES
from sim.kinds.goals import service as goals
from sim.kinds.sop import channels, watchers
from sim.kinds.sop import service as sop
from sim.kinds.town.trace import STEP_NS
from sim.llm import access, client, defaults
from sim.llm.batches import lines
from sim.llm.batches.settings import Batching
from sim.llm.limits import governor
from sim.llm.limits.breaker import Breaker
from sim.llm.providers import scripted
from sim.llm.tokens import APPROXIMATE, exact
from sim.llm.workers import pool, program
from sim.record import frames, inbox, unfinished, zip_archives
from sim.record.lanes import Lanes
from sim.runner import interventions
from sim.scenario import actions, graph_files, load, population, symbols, yaml_tree
from sim.scenario.assembly import agent_factory
from sim.scenario.schema import MOST_RECORDED
from sim.tools import mcp, mcp_transport, sandbox
from sim.tools.process import ProcessLimits
from sim.world.actions import artifacts
from tests.examples.simpy_stories import STORIES

ROOT = Path(__file__).parents[2]
WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "fifth": 5, "six": 6, "seven": 7, "eight": 8, "ten": 10, "eleven": 11,
    "twelve": 12, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "nineteen": 19, "twenty": 20,
    "thirty": 30, "half": 0.5,
}  # fmt: skip


def _script(name: str, pattern: str) -> str:
    """Return what a pattern finds in a script of the view."""
    found = re.search(pattern, (ROOT / "sim/inspect/viewer/web" / name).read_text(encoding="utf-8"))
    assert found is not None, pattern
    return found[1]


def faults() -> int:
    """Return the number of rows of the tables of faults and abuses."""
    return len(re.findall(r"^\| [FX]\d+ \|", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "claim", "count"),
    [
        ("CHANGELOG.md", r"lists (\d+) faults and abuses", faults),
        ("docs/processes.md", r"(\w+) examples of SimPy", lambda: len(STORIES)),
        ("CHANGELOG.md", r"In (\w+)\s+documented examples of SimPy", lambda: len(STORIES)),
    ],
)
def test_a_number_is_what_it_counts(page, claim, count):
    """The number that a page says is counted where it comes from."""
    found = re.search(claim, (ROOT / page).read_text(encoding="utf-8"))
    assert found is not None
    said = WORDS.get(found[1].lower()) or int(found[1])
    assert said == count()


BREAKER: dict[str, Any] = {field.name: field.default for field in attrs.fields(Breaker)}
MIB = 2**20
NUMBERS = [
    ("ARCHITECTURE.md", r"Of each topic, ([\d,]+) events are kept", [bus.RECENT]),
    (
        "docs/archive.md",
        r"more than ([\d,]+) files or (\d+) GiB",
        [zip_archives.MOST_FILES, zip_archives.MOST_BYTES / 2**30],
    ),
    ("docs/archive.md", r"files that are (\d+) times smaller", [zip_archives.MOST_RATIO]),
    ("docs/bench.md", r"counted from the seed of the scenario \(default (\d+)\)", [bench.SEEDS]),
    ("docs/bench.md", r"At most ([\d,]+) runs", [bench.MOST_RUNS]),
    ("docs/goals.md", r"a mean over the last (\d+) runs", [goals._RECENT]),
    ("docs/internals.md", r"are hashed in (\d+) lanes", [Lanes.count]),
    ("docs/interventions.md", r"has at most ([\d,]+) answers", [interventions.MOST_ANSWERS]),
    ("docs/play.md", r"does not ask for (\d+) seconds counts as closed", [play_site._GONE]),
    ("docs/play.md", r"at most (\d+) times a second", [gate.UPDATES]),
    ("docs/models.md", r"most requests in flight at once; default (\d+)", [defaults.CONCURRENCY]),
    ("docs/models.md", r"At most (\d+) requests are in flight", [defaults.CONCURRENCY]),
    ("docs/models.md", r"\(`--concurrency`\): (\d+) at first", [governor.FIRST_WINDOW]),
    ("docs/models.md", r"Header values of (six) characters or more", [access._SHORTEST]),
    ("docs/models.md", r"`--verbose`: every (\d+) s", [progress.PLAIN_SECONDS]),
    ("docs/models.md", r"two looks at a batch; default (\d+)", [Batching().poll]),
    ("docs/models.md", r"a share of the full price; default ([\d.]+)", [Batching().price]),
    ("docs/models.md", r"default ([\d,]+) and ([\d,]+), those of OpenAI", [Batching().requests, Batching().bytes]),
    ("docs/models.md", r"the next attempt comes (\d+) minutes later", [lines.QUEUE_FULL / 60]),
    ("docs/models.md", r"does not answer the run for (\d+) seconds", [pool._SILENT * pool._BEAT]),
    ("docs/models.md", r"does not count within (half) a second", [pool._COUNTING]),
    (
        "docs/models.md",
        r"a worker has (five) requests or more, it gathers outcomes for (\d+) milliseconds",
        [program._GATHERED_FROM, program._TOGETHER * 1000],
    ),
    (
        "docs/models.md",
        r"With (five) effects or more under way, the run gathers outcomes for (\d+) milliseconds",
        [effect_tasks._GATHERED_FROM, effect_tasks._TOGETHER * 1000],
    ),
    ("docs/models.md", r"up to (five) times as long while simulated time", [effect_tasks._WAITS]),
    ("docs/models.md", r"begin within (\d+) milliseconds", [effect_tasks._WAITS * effect_tasks._TOGETHER * 1000]),
    ("docs/models.md", r"if (eleven) workers end one after another", [pool.MOST_IN_VAIN + 1]),
    ("docs/models.md", r"more than (three) of its requests were interrupted", [client._MOST_LOST]),
    ("docs/models.md", r"may have been sent, or more than (ten) before", [client._MOST_UNSENT]),
    ("docs/models.md", r"it uses (\d+) % of the limits", [governor.HEADROOM * 100]),
    ("docs/models.md", r"near its minimum, a (fifth) of the limit", [1 / governor.LEAST]),
    ("docs/models.md", r"when (\d) in (\d) of the latest requests failed", [BREAKER["share"] * 5, 5]),
    (
        "docs/models.md",
        r"After (\d+) s, later up to (\d) minutes, one",
        [BREAKER["cool_down"], BREAKER["longest"] / 60],
    ),
    ("docs/people.md", r"for at most (\d+) seconds", [person.WAIT]),
    ("docs/people.md", r"looks into it every (\d+) ms", [inbox.POLL * 1000]),
    ("docs/people.md", r"A request has at most (\d) MiB", [inbox.LARGEST / MIB]),
    (
        "docs/people.md",
        r"At most ([\d,]+) can wait, and a run takes at most ([\d,]+)",
        [inbox.MOST_WAITING, inbox.MOST],
    ),
    ("docs/python.md", r"is called about (ten) times a second", [1 / progress.LIVE_SECONDS]),
    ("docs/python.md", r"with more than (\d+) different keys", [frames.MOST_PARTS]),
    ("docs/record.md", r"counts them in runs of at most ([\d,]+) events", [show.MOST_COMPARED]),
    ("docs/record.md", r"A result has at most (\d+) MiB", [effect_tasks.LARGEST_RESULT / MIB]),
    ("docs/record.md", r"The hash of a run is built from (\d+) lanes", [Lanes.count]),
    ("docs/record.md", r"the most living agents more than at the start \(([\d,]+)\)", [agent_factory.MAX_SPAWNED]),
    ("docs/scenario.md", r"has at most (\d) MB and ([\d,]+) values", [yaml_tree.MAX_BYTES / 1e6, yaml_tree.MAX_NODES]),
    ("docs/scenario.md", r"may not write it; over (\d) MB", [artifacts._MAX_CONTENT / 1e6]),
    ("docs/scenario.md", r"more than (\d+) agents", [agent_factory.MAX_SPAWNED]),
    ("docs/scenario.md", r"`count` \| 0 to (\d+)", [population.MAX_AGENTS]),
    ("docs/scenario.md", r"a list of up to (\d+)\.", [actions._MOST]),
    ("docs/scenario.md", r"and is asked up to (three) times", [ask.ASKS]),
    ("docs/scenario.md", r"the last (\d+) messages, each", [scripted._RECENT]),
    ("docs/scenario.md", r"Their names have at most (\d+) characters", [graph_files._LONGEST_NAME]),
    (
        "docs/scenario.md",
        r"at most (\d+) MB, ([\d,]+) nodes and ([\d,]+) edges",
        [graph_files.MAX_GRAPH_BYTES / 1e6, symbols.MAX_CELLS, graph_files.MAX_EDGES],
    ),
    ("docs/scenario.md", r"kind `villager`, and a tick is (\d+) s", [STEP_NS / 1e9]),
    ("docs/scenario.md", r"Judges see the last ([\d,]+) characters", [scoring._LONGEST]),
    ("docs/sop.md", r"keeps its latest (\d+) posts", [channels.MOST_KEPT]),
    ("docs/sop.md", r"([\d,]+) triggers wait .* and ([\d,]+) events", [sop.MOST_TRIGGERS, watchers.MOST_EVENTS]),
    ("docs/howto/slow.md", r"A single step of more than (two) seconds", [watchdog.THRESHOLD]),
    ("docs/tools.md", r"An environment of (eight) fixed variables", [len(sandbox._environment([]))]),
    ("docs/tools.md", r"all together within (\d+) ms", [sandbox.TICK * 1000]),
    ("docs/tools.md", r"`text`, at most ([\d,]+) characters", [mcp.LONGEST_TEXT]),
    (
        "docs/tools.md",
        r"`timeout`, (\d+) s\), sends more than (\d) MiB in one message, more than ([\d,]+) messages or (\d+) MiB",
        [60, mcp_transport.LONGEST_MESSAGE / MIB, mcp_transport.MOST_MESSAGES, mcp_transport.MOST_BYTES / MIB],
    ),
    ("docs/view.md", r"of up to ([\d,]+) events or (\d) MiB", [chunks.MOST_EVENTS, chunks.MOST_BYTES / MIB]),
    ("docs/view.md", r"Up to (\d+) values have", [MOST_VALUES]),
    ("docs/view.md", r"a scale of (\d+) colours", [_script("map.js", r"const RAMP = \[(.*?)\]").count("#")]),
    ("docs/view.md", r"With more than (\d+) nodes", [int(_script("layout.js", r"const MOST_AT_ONCE = (\d+)"))]),
    ("docs/scenario.md", r"names up to (\d+) state variables", [MOST_RECORDED]),
    ("docs/watch.md", r"(\d+) agents at most", [catalog.VALUES["agent"]]),
    ("docs/watch.md", r"A label has at most (\d+) values", [max(catalog.VALUES.values())]),
    ("docs/watch.md", r"fewer than ([\d,]+) series", [catalog.MAX_SERIES]),
    (
        "docs/watch.md",
        r"has (\d+) seconds to send its request and (\d+) to take the answer, and (\d+) are served",
        [local_server.RECEIVING, local_server.TAKING, local_server.MOST],
    ),
    ("docs/watch.md", r"up to (five) times a second", [1 / live.DRAW_SECONDS]),
    ("docs/watch.md", r"a line on stderr every (five) seconds", [progress.PLAIN_SECONDS]),
    ("docs/watch.md", r"the ends of at most (\d+) unfinished answers", [unfinished.MOST]),
    ("docs/watch.md", r"A run is divided into (\d+) parts", [bins.BINS]),
    ("docs/watch.md", r"Of more than ([\d,]+) agents", [agents_section.MAX_ROWS]),
    ("docs/why.md", r"is the most futures, ([\d,]+) by default", [AttributionOptions().budget]),
    ("docs/why.md", r"At most ([\d,]+) messages and published events", [candidates.MOST_EVENTS]),
]


@pytest.mark.parametrize(("page", "claim", "numbers"), NUMBERS)
def test_a_number_is_that_of_the_code(page, claim, numbers):
    """A limit, an interval or a default that a page says in a sentence is the constant of the code."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    found = re.search(claim, text)
    assert found is not None
    said = [WORDS.get(part) or float(part.replace(",", "")) for part in found.groups()]
    assert said == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("page", "claim", "counts"),
    [
        ("docs/chat.md", r"has (thirty) guests, (four) members", {"community": ["guest", "member"]}),
        ("docs/goals.md", r"has (twelve) people with", {"houston": ["user"]}),
    ],
)
def test_a_number_of_agents_is_that_of_the_scenario(page, claim, counts):
    """Of whom there are how many in a scenario, a page says as the scenario does."""
    found = re.search(claim, (ROOT / page).read_text(encoding="utf-8"))
    assert found is not None
    [(name, entries)] = counts.items()
    there = {entry.name: entry.count for entry in load(ROOT / "scenarios" / f"{name}.yaml").agents}
    assert [WORDS[word] for word in found.groups()] == [there[entry] for entry in entries]


def test_the_limits_of_commands_are_those_of_the_code():
    """The table of limits has each limit of a command with its default."""
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    table = page.partition("| limit of `ProcessLimits` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) ?(\w*) ", table, re.MULTILINE)
    units = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    assert {name: int(size) * units[unit] for name, size, unit in rows} == attrs.asdict(ProcessLimits())


def test_estimated_tokens_are_as_near_as_the_page_says():
    """A token for every four bytes is about right for prose and code, and less than half the count for numbers."""
    exactly = exact("gpt-4o")

    def share(text):
        return APPROXIMATE.count(text) / exactly.count(text)

    written = ["README.md", "docs/internals.md", "ARCHITECTURE.md", "sim/kernel/actor.py", "sim/llm/client.py"]
    assert all(0.8 <= share((ROOT / file).read_text(encoding="utf-8")) <= 1.2 for file in written)
    numbers = " ".join(str(number * 7919 % 10007) for number in range(500))
    dense = [
        numbers,
        json.dumps([{"x": n, "y": n**2} for n in range(200)]),
        base64.b64encode(numbers.encode()).decode(),
    ]
    assert all(share(text) < 0.5 for text in dense)


def test_rows_of_a_table_in_latex_have_no_bare_percent():
    """A `%` begins a comment in LaTeX, so the rows that a tutorial prints escape it."""
    text = (ROOT / "docs" / "tutorials" / "figure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^.* & .*\\\\$", text, re.MULTILINE)
    assert len(rows) == 5
    assert not any(re.search(r"(?<!\\)%", row) for row in rows)

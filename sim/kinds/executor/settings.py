"""What a scenario says of executors: their tasks, projects and limits.

The defaults are from the rules in `docs/seed_rules.md`.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import attrs

from sim.agents.engine import LoopLimits
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.kernel.codec import encode
from sim.kernel.duration import NS
from sim.tools.process import check_file_name, check_folders
from sim.world.section import Duration, Json, Name, PositiveDuration, Range

HOUR_NS: Final = 3600 * NS

MOST_ENTRIES: Final = 100
LONGEST_TEXT: Final = 2_000  # characters of a criterion
LONGEST_GOAL: Final = 20_000  # characters
MOST_PRIORITY: Final = 1000

Count = Annotated[int, Range(1, 10_000)]
Share = Annotated[float, Range(0, 1)]
Money = Annotated[float, Range(0, 1_000_000)]


@attrs.frozen
class Criterion:
    """One acceptance criterion of a task. Tests come before artifacts, and these before the judgement of a model.

    Args:
        text: what must be true. A model judges it if nothing else is given.
        tests: a file or folder of the workspace whose tests must pass. Where no tests can be run, a model judges.
        file: a file of the workspace that must exist.
        contains: a text that this file must have.
        tool: a tool that must have been called with success.
        times: how often it must have been called.

    Raises:
        UsageError: if more than one of `tests`, `file` and `tool` is given, or `contains` without `file`.
    """

    text: str
    tests: str | None = None
    file: str | None = None
    contains: str | None = None
    tool: str | None = None
    times: Count = 1

    def __attrs_post_init__(self) -> None:
        if not self.text.strip() or len(self.text) > LONGEST_TEXT:
            raise UsageError(f"a criterion has a text of up to {LONGEST_TEXT:,} characters that says what must be true")
        if sum(one is not None for one in (self.tests, self.file, self.tool)) > 1:
            raise UsageError("a criterion is about one thing", hint="give one of tests, file, tool")
        if self.contains is not None and self.file is None:
            raise UsageError("`contains` is about a file", hint="give `file`")
        if self.contains == "":
            raise UsageError("every file contains an empty text", hint="leave `contains` out, or give a text")
        if self.times > 1 and self.tool is None:
            raise UsageError("`times` is about calls of a tool", hint="give `tool`")
        for name in (self.tests, self.file):
            if name is not None:
                check_file_name(name)

    @property
    def line(self) -> str:
        """The text in one line: for a prompt, where a second line could look like another criterion."""
        return " ".join(self.text.split())


@attrs.frozen
class ExecutionTask:
    """A task for an executor.

    Args:
        goal: what has to be reached.
        type: the type of the executors that can do it.
        criteria: when it is reached: all of them must be met.
        title: its title; empty: its name.
        project: the project in whose workspace it is done.
        depends_on: the names of the tasks that must have succeeded before.
        constraints: what the work has to respect, in words or values, for the prompts.
        protected: files and folders that the task cannot change; null: the tests of its criteria that exist when it
            begins, so that it cannot reach its goal by changing them.
        priority: how urgent it is; a higher one comes first.
        start: when it can begin.
        max_steps: the most steps; null: that of `executor`.
        timeout: the longest time without waiting for people and help; null: that of `executor`.
        cost_limit: the most money for the calls of models; null: that of `executor`.
    """

    goal: str
    type: Name
    criteria: tuple[Criterion, ...]
    title: str = ""
    project: Name = "project"
    depends_on: tuple[str, ...] = ()
    constraints: Mapping[str, Json] = attrs.field(factory=dict)
    protected: tuple[str, ...] | None = None
    priority: Annotated[int, Range(-MOST_PRIORITY, MOST_PRIORITY)] = 0
    start: Duration = 0
    max_steps: Count | None = None
    timeout: PositiveDuration | None = None
    cost_limit: Money | None = None

    def __attrs_post_init__(self) -> None:
        if not self.goal.strip() or len(self.goal) > LONGEST_GOAL:
            raise UsageError(f"a task has a goal of up to {LONGEST_GOAL:,} characters")
        if len(self.title) > LONGEST_TEXT or len(encode(dict(self.constraints))) > LONGEST_GOAL:
            raise UsageError(f"the title has at most {LONGEST_TEXT:,} characters, the constraints {LONGEST_GOAL:,}")
        if not self.criteria:
            raise UsageError("a task has at least one criterion", hint="say in `criteria` when its goal is reached")
        for name, entries in (("criteria", self.criteria), ("tasks in `depends_on`", self.depends_on)):
            if len(entries) > MOST_ENTRIES:
                raise UsageError(f"a task has at most {MOST_ENTRIES} {name}, not {len(entries)}")
        for name in self.protected or ():
            check_file_name(name)


@attrs.frozen
class Project:
    """A project: the files of a workspace at the beginning.

    Args:
        files: texts by name, such as `tests/test_text.py`.
    """

    files: Mapping[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in self.files:
            check_file_name(name)
            check_folders(name, self.files)


@attrs.frozen
class Monitoring:
    """What shows that an execution gets nowhere. The first is checked by the executor, the others from outside.

    Args:
        same_errors: as many failed steps in a row with the same error are a loop.
        similar_actions: as many actions in a row that are alike, without progress and without a new result of a tool,
            are a loop.
        similarity: the share of words that two actions have in common, from which on they are alike.
        stalled_steps: after as many steps without progress and without a new result, the confidence is checked.
    """

    same_errors: Annotated[int, Range(2, 100)] = 3
    similar_actions: Annotated[int, Range(2, 100)] = 4
    similarity: Share = 0.9
    stalled_steps: Annotated[int, Range(2, 100)] = 5


@attrs.frozen(kw_only=True)
class PlanLimits(LoopLimits):
    """The limits of planning one step: of the model calls until there is a plan.

    Args:
        iterations: the most model calls.
        same_tool: how often the same tool may be called in a row without a plan; null: no limit.
        time: the longest simulated time; never longer than that of the task.
        history: the most messages of the prompt; null: no limit.
        tokens: the most tokens of all calls; null: no limit.
        cost: the most money for all calls; 0: none is made; null: no limit but that of the task.
        invalid_answers: how many answers are tolerated that are no plan.
        result_length: how many characters of an error the model sees.
    """

    time: PositiveDuration = HOUR_NS


@attrs.frozen
class ExecutorsSettings:
    """Executors that work on tasks until their goals are reached: tasks, projects, limits.

    Args:
        tasks: the tasks by name.
        projects: the projects by name; one that is not listed has no files at the beginning.
        max_steps: the most steps of a task.
        timeout: the longest time of a task, without waiting for people and help.
        cost_limit: the most money for the calls of models of a task.
        cost_rule: `strict`: an answer can be as long as the cost limit allows, and a call that could exceed it is not
            made; `seed`: it is checked once, before a step, so that one step may exceed it.
        attempts: how often a step is tried, each time in another way.
        backoff: the wait after the first attempt is twice this; after each further one it is twice as long.
        limits: the limits of planning one step.
        same_plans: how often a plan that was tried before is refused, before the step fails.
        check_every: the steps from one check of the confidence to the next.
        confidence: below this, a person decides whether a task continues.
        accept: the judgement of a model from which on criteria are met.
        monitoring: what shows that an execution gets nowhere.
        gates: how often a person can let one task continue.
        help: how deep tasks of help for others can be nested.
        parts: how deep tasks can be nested that executors assign as parts of their own.
        alternatives: for a tool that was denied, the tools that can replace it.
        retries: how often a step is planned again after no model answered.
        retry_delay: the wait before the first of these; each further one is twice as long.
        test_latency: the simulated duration of a test run.
        test_seconds: the longest real duration of a test run.
        files: the most files of a project.
        file_length: the most characters of a file.
        open_tasks: the most tasks that have not ended.
    """

    tasks: Mapping[Name, ExecutionTask] = attrs.field(factory=dict)
    projects: Mapping[Name, Project] = attrs.field(factory=dict)
    max_steps: Count = 20
    timeout: PositiveDuration = HOUR_NS
    cost_limit: Money = 1.0
    cost_rule: Literal["strict", "seed"] = "strict"
    attempts: Annotated[int, Range(1, 20)] = 3
    backoff: PositiveDuration = NS
    limits: PlanLimits = attrs.field(factory=PlanLimits)
    same_plans: Annotated[int, Range(0, 20)] = 3
    check_every: Count = 5
    confidence: Share = 0.5
    accept: Share = 0.9
    monitoring: Monitoring = attrs.field(factory=Monitoring)
    gates: Annotated[int, Range(0, 100)] = 3
    help: Annotated[int, Range(0, 10)] = 2
    parts: Annotated[int, Range(0, 10)] = 3
    alternatives: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    retries: Annotated[int, Range(0, 100)] = 5
    retry_delay: PositiveDuration = 10 * NS
    test_latency: Duration = 5 * NS
    test_seconds: Annotated[float, Range(0.1, 600)] = 60.0
    files: Annotated[int, Range(1, 1000)] = 200
    file_length: Annotated[int, Range(1, 1_000_000)] = 100_000
    open_tasks: Annotated[int, Range(1, 100_000)] = 1000

    def __attrs_post_init__(self) -> None:
        if len(self.tasks) > self.open_tasks:
            raise UsageError(f"tasks: {self.open_tasks} tasks can be open, and there are {len(self.tasks)}")
        for name, task in self.tasks.items():
            for other in task.depends_on:
                if other not in self.tasks:
                    hint = did_you_mean(other, self.tasks)
                    raise UsageError(f"tasks.{name}.depends_on: there is no task {other!r:.80}", hint=hint)
        self.in_order()
        for project, settings in self.projects.items():
            if len(settings.files) > self.files:
                raise UsageError(f"projects.{project}.files: at most {self.files} files, not {len(settings.files)}")
            for name, text in settings.files.items():
                if len(text) > (most := self.file_length):
                    where = f"projects.{project}.files.{name}"
                    raise UsageError(f"{where}: at most {most:,} characters, not {len(text):,}")

    def in_order(self) -> list[str]:
        """Return the names of the tasks, each after those that it depends on, and otherwise as in the file.

        Raises:
            UsageError: if tasks wait for each other.
        """
        order: dict[str, None] = {}
        for first in self.tasks:
            way = {first: None} if first not in order else {}  # each task depends on the next one
            while way:
                last = next(reversed(way))
                before = next((other for other in self.tasks[last].depends_on if other not in order), None)
                if before is None:
                    order[last] = way.pop(last)
                elif before in way:
                    circle = [*list(way)[list(way).index(before) :], before]
                    text = f"tasks.{last}.depends_on: these tasks wait for each other: {' → '.join(circle):.200}"
                    raise UsageError(text, hint="leave one of them out")
                else:
                    way[before] = None
        return list(order)


@attrs.frozen
class ExecutorSettings:
    """One executor, or several of the same type.

    Args:
        type: its type, such as `coder`: tasks are given to types.
        prompt: its role, for its prompts.
        tools: the names of the tools that it plans with; what it may call, `access` says.
        use: the use case of its model calls, as in `models.uses`.
    """

    type: Name
    prompt: str = ""
    tools: tuple[str, ...] = ()
    use: str = "agent"

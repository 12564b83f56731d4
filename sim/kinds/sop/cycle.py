"""The cycle of an employee: survey → assess → prioritize → execute → report.

One cycle is one action, `work_cycle`. It makes the tasks of all watchers that are due, but takes at most one *major*
action: it makes a task from a trigger, or has a worker do the next step of a task.
"""

from collections.abc import Sequence
from typing import Literal

import attrs

from sim.agents.engine import prompt, time_context
from sim.agents.engine.core_loop import CUT_MARK, cut
from sim.base.errors import LimitError, UsageError
from sim.base.expressions import ExpressionError
from sim.kernel.codec import Json, JsonObject, decode
from sim.kinds.sop import texts
from sim.kinds.sop.channels import Channels
from sim.kinds.sop.events import AssessmentFailed, CycleDone
from sim.kinds.sop.service import Desk, FoundItem, Sops
from sim.kinds.sop.settings import Assessment, Procedure
from sim.llm.tokens import APPROXIMATE
from sim.memory.load import LoadedMemories
from sim.memory.memory import Source
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action
from sim.world.tasks import Task

_NOTHING = ("", "nothing", "none")
"""What a model answers, in small letters and without full stop, if there is nothing to note."""


@attrs.frozen
class Situation:
    """What an employee sees at the beginning of a cycle.

    Attributes:
        tasks: its tasks in progress or pending, the most urgent first.
        new: those that its watchers made in this cycle.
        memories: the memories for its prompts; None: it has none.
        stats: see `Sops.stats`.
    """

    tasks: Sequence[Task]
    new: Sequence[Task]
    memories: LoadedMemories | None
    stats: JsonObject


@attrs.frozen
class CycleNote:
    """Something that an employee remembers at the end of a cycle.

    Attributes:
        text: the text.
        kind: the kind of memory.
        importance: its importance; None: that of its kind.
        task: the task that it belongs to.
        source: where the text comes from.
        posted: whether its channel has it too.
    """

    text: str
    kind: str = "observation"
    importance: int | None = None
    task: int | None = None
    source: Source = "agent"
    posted: bool = False


@attrs.frozen
class Choice:
    """A major action: a task to make from a trigger, or a task to advance.

    Attributes:
        kind: which of the two.
        trigger: what the task is made from.
        task: the task to advance.
    """

    kind: Literal["create", "advance"]
    trigger: FoundItem | None = None
    task: Task | None = None


@attrs.frozen
class Did:
    """What a cycle did.

    Attributes:
        actions: its major actions in words.
        created, advanced: the numbers of tasks that it made from triggers, and that it advanced.
        new: the number of tasks that watchers made.
        notes: the number of new memories.
        active: the number of tasks in progress or pending.
    """

    actions: tuple[str, ...] = ()
    created: int = 0
    advanced: int = 0
    new: int = 0
    notes: int = 0
    active: int = 0


async def _cycle(world: World, agent: Inhabitant) -> Did:
    """Do one cycle. This is the whole of it, in order."""
    sops = Sops.of(world)
    desk = sops.desk(agent.agent_id)
    by_clock = desk.next_ns <= world.kernel.now
    seen = survey(world, sops, desk)
    notes = await assess(world, sops, desk, seen, by_clock=by_clock)
    chosen = prioritize(sops, desk)
    if not by_clock:
        sops.hurry(desk)
    if not by_clock and sops.settings.design in ("cycle", "stateless"):
        chosen = [choice for choice in chosen if choice.trigger is not None]  # a trigger does not hasten other work
    if sops.settings.design != "many_actions":
        chosen = chosen[:1]  # the rest waits for the next cycles
    did = Did(new=len(seen.new), active=len(sops.active(agent.agent_id)))
    for choice in chosen:
        did, note = execute(world, sops, desk, choice, did)
        notes += note
    return report(world, sops, desk, seen, did, notes, by_clock=by_clock)


@action("work_cycle", wait=_cycle, ends=True, everywhere=False, draws=False)
def work_cycle(world: World, agent: Inhabitant, did: Did) -> JsonObject:
    """Do one cycle of an employee: survey, assess, prioritize, execute and report."""
    return attrs.asdict(did)


# -- 1. survey


def survey(world: World, sops: Sops, desk: Desk) -> Situation:
    """Load the active tasks, have the watchers that are due look, and load the memories.

    Args:
        world: the world.
        sops: its employees.
        desk: the employee.
    """
    new = sops.watch(sops.due_watchers(agent_id=desk.agent.agent_id))
    sops.say_lost(desk)
    agent_id = desk.agent.agent_id
    return Situation(sops.active(agent_id), new, load_memories(world, sops, agent_id), sops.stats(desk))


def load_memories(world: World, sops: Sops, agent_id: str) -> LoadedMemories | None:
    """Return the memories for a prompt: important ones, recent ones, and those of all tasks that have not ended."""
    memories = sops.memories()
    if memories is None:
        return None
    open_tasks = [task.id for task in world.tasks.open(agent_id)]  # also those that wait for a customer or a person
    loaded = memories.load(agent_id, APPROXIMATE.count, active_tasks=open_tasks)
    sops.counts["memories_cut"] += loaded.cut
    return loaded


# -- 2. assess


async def assess(world: World, sops: Sops, desk: Desk, seen: Situation, *, by_clock: bool) -> list[CycleNote]:
    """Look for patterns worth noting: by rules, and if the role wants it by one call of a model.

    Args:
        world: the world.
        sops: its employees.
        desk: the employee.
        seen: the survey.
        by_clock: whether the cycle is due by the clock. A cycle for a trigger costs no call.
    """
    if sops.settings.design == "event_driven":
        return []  # who only reacts notices no patterns
    notes = _patterns(world, sops, desk, seen)
    if desk.settings.assess is not None and by_clock:
        notes += await _ask(world, sops, desk, seen, desk.settings.assess)
    return notes


def _patterns(world: World, sops: Sops, desk: Desk, seen: Situation) -> list[CycleNote]:
    now, notes = world.kernel.now, []
    for index, pattern in enumerate(desk.settings.patterns):
        noted = desk.noted.get(index)
        if noted is not None and now - noted < pattern.every:
            continue
        what = f"The pattern {pattern.when.text} of {desk.agent.agent_id}"
        try:
            holds = sops.evaluator.value(pattern.when, desk.agent, stats=seen.stats)
        except ExpressionError as error:
            sops.faults.begins(what, str(error), desk.settings.title)
            continue
        sops.faults.ends(what)
        if holds:
            text = sops.text_or_usual(desk, f"The pattern {pattern.when.text} holds", pattern.text, stats=seen.stats)
            notes.append(CycleNote(text, pattern.kind, pattern.importance, posted=pattern.post))
            desk.noted[index] = now
    return notes


async def _ask(world: World, sops: Sops, desk: Desk, seen: Situation, asked: Assessment) -> list[CycleNote]:
    """Ask the model about the situation. Without an answer, the rules alone decide."""
    arguments: dict[str, Json] = {"prompt": situation(world, desk, seen), "system": asked.system, "use": "assess"}
    if asked.tier:
        arguments["tier"] = asked.tier
    sops.counts["assessments"] += 1
    result = await world.execute(desk.agent, Action("ask", arguments))
    what = f"The assessment of {desk.agent.agent_id}"
    if not result.success:
        sops.counts["failed_assessments"] += 1
        why = result.error or "no model answered"
        world.event_bus.report(AssessmentFailed(agent=desk.agent.agent_id, error=why))
        sops.faults.begins(what, why, desk.settings.title)
        return []
    sops.faults.ends(what)
    text = " ".join(str(result.data["text"]).split())
    if text.lower().rstrip(".") in _NOTHING:
        return []
    return [CycleNote(text[: asked.most], source="model", posted=True)]


def situation(world: World, desk: Desk, seen: Situation) -> str:
    """Return the situation of an employee as a prompt: its role, its tasks, and what it remembers."""
    settings = desk.settings
    sections = [
        ("role", [f"{settings.title} ({settings.slug or desk.agent.agent_id})", *settings.capabilities]),
        ("situation", {name: value for name, value in seen.stats.items() if value is not None}),
        ("active_tasks", [f"#{task.id} {task.word}: {task.title}" for task in seen.tasks[:50]]),
        ("new_tasks", [f"#{task.id} {task.title}" for task in seen.new[:50]]),
        ("memories", "" if seen.memories is None else seen.memories.text),
        ("time_context", time_context(world)),
    ]
    return prompt("", sections)


# -- 3. prioritize


def prioritize(sops: Sops, desk: Desk) -> list[Choice]:
    """Return what the employee could do, the most urgent first: overdue and stalled tasks, then by priority.

    Args:
        sops: the employees.
        desk: the employee.
    """
    waiting = sorted(desk.triggers, key=lambda trigger: -_priority(sops, desk, trigger))
    made = [Choice("create", trigger=trigger) for trigger in waiting]
    advanced = [Choice("advance", task=task) for task in sops.ready(desk) if sops.pass_over(desk, task)]
    if not made or not advanced:
        return made + advanced
    now = desk.agent.world.kernel.now
    urgent = [choice for choice in advanced if choice.task is not None and sops.is_late(choice.task, now)]
    rest = advanced[len(urgent) :]
    merged = sorted([*made, *rest], key=lambda choice: -_rank(sops, desk, choice))  # equals: triggers first
    return [*urgent, *merged]


def _rank(sops: Sops, desk: Desk, choice: Choice) -> float:
    return choice.task.priority if choice.task is not None else _priority(sops, desk, choice.trigger)


def _priority(sops: Sops, desk: Desk, trigger: FoundItem | None) -> float:
    assert trigger is not None, "a choice is a trigger or a task"
    procedure = sops.settings.procedures[trigger.procedure]
    try:
        value = sops.evaluator.value(procedure.priority, desk.agent, item=decode(trigger.item))
    except ExpressionError:
        return 0.0  # its draft will say why
    return float(value) if isinstance(value, int | float) else 0.0


# -- 4. execute


def execute(world: World, sops: Sops, desk: Desk, choice: Choice, did: Did) -> tuple[Did, list[CycleNote]]:
    """Take one major action; return what the cycle did so far, and what is to be remembered of it.

    Args:
        world: the world.
        sops: its employees.
        desk: the employee.
        choice: the action.
        did: what the cycle did before.
    """
    if choice.trigger is not None:
        try:
            draft = sops.draft(desk, choice.trigger.procedure, decode(choice.trigger.item))
        except (UsageError, LimitError, Refused) as error:
            sops.reject(desk, choice.trigger, str(error))
            return did, []
        desk.triggers.remove(choice.trigger)  # from here on, nothing can fail
        task = sops.make(desk, draft)
        words = f"Created Task #{task.id}"
        did = attrs.evolve(did, actions=(*did.actions, words), created=did.created + 1, active=did.active + 1)
    else:
        assert choice.task is not None, "a choice is a trigger or a task"
        _, step, progress = sops.step(choice.task.id)
        task = sops.enqueue(desk, choice.task)
        words = f"Advanced Task #{task.id} to step {progress.step + 1}"
        did = attrs.evolve(did, actions=(*did.actions, words), advanced=did.advanced + 1)
        note = CycleNote(f"{words} ({step.name}) of {task.title}", "working_note", task=task.id)
        return did, [note]
    return did, [_remembered(sops, desk, task)]


def _remembered(sops: Sops, desk: Desk, task: Task) -> CycleNote:
    """Return the memory of a new task."""
    procedure = procedure_of(sops, task)
    text = f"Processed new task #{task.id}: {task.title}"
    if procedure.remember is not None:
        text = sops.text_or_usual(desk, text, procedure.remember, **sops.names(task))
    return CycleNote(text, importance=desk.settings.importance, task=task.id)


def procedure_of(sops: Sops, task: Task) -> Procedure:
    """Return the procedure of a task."""
    return sops.settings.procedures[sops.progress[task.id].procedure]


# -- 5. report


def report(
    world: World, sops: Sops, desk: Desk, seen: Situation, did: Did, notes: list[CycleNote], *, by_clock: bool
) -> Did:
    """Post the summary and the heartbeat, keep the memories, and set the clock to the next cycle.

    Args:
        world: the world.
        sops: its employees.
        desk: the employee.
        seen: the survey.
        did: what the cycle did.
        notes: what is to be remembered.
        by_clock: whether the cycle was due by the clock.
    """
    notes = [*(_remembered(sops, desk, task) for task in seen.new), *notes, *_concluded(sops, desk)]
    now, interval = world.kernel.now, desk.settings.interval
    if by_clock:
        desk.next_ns += (now - desk.next_ns) // interval * interval + interval  # on its own clock, without catching up
    reactive = sops.settings.design == "event_driven"
    _summarize(world, desk, seen, did, notes)
    words = "; ".join(did.actions)
    triggers = did.new + did.created
    following = None if reactive else desk.next_ns - now
    sops.heartbeat(desk, texts.heartbeat(desk.settings.title, did.active, triggers, words, following))
    kept = _remember(world, sops, desk, notes)
    cut = 0 if seen.memories is None else seen.memories.cut
    world.event_bus.report(
        CycleDone(
            active=did.active,
            advanced=did.advanced,
            agent=desk.agent.agent_id,
            created=did.created,
            cut=cut,
            memories=kept,
            new=did.new,
        )
    )
    return attrs.evolve(did, notes=kept)


def _concluded(sops: Sops, desk: Desk) -> list[CycleNote]:
    """Return the memories of the tasks that were completed since the last cycle."""
    notes = []
    for task in sops.take_concluded(desk):
        procedure = procedure_of(sops, task)
        usual = f"Completed task #{task.id}: {task.title}"
        text = sops.text_or_usual(desk, usual, procedure.concluded, **sops.names(task))
        notes.append(CycleNote(text, "decision_log", task=task.id))
    return notes


def _summarize(world: World, desk: Desk, seen: Situation, did: Did, notes: list[CycleNote]) -> None:
    """Post to the channel of the employee what happened; nothing if nothing happened."""
    lines = [
        *(f"New: #{task.id} {task.title}" for task in seen.new),
        *did.actions,
        *(note.text for note in notes if note.posted),
    ]
    if lines:
        Channels.of(world).post(desk.channel, desk.settings.title, "\n".join(lines))


def _remember(world: World, sops: Sops, desk: Desk, notes: list[CycleNote]) -> int:
    """Keep notes as memories; return how many."""
    memories, kept = sops.memories(), 0
    if memories is None:
        return 0
    expires = world.kernel.now + desk.settings.expires
    for note in notes:
        if not note.text.strip():
            continue
        text = cut(note.text, memories.settings.longest - len(CUT_MARK) - 20)
        try:
            memories.add(
                desk.agent.agent_id,
                text,
                kind=note.kind,
                importance=note.importance,
                expires_ns=expires,
                related_task_id=note.task,
                source=note.source,
            )
        except LimitError:  # too many memories: the work continues, and the maintenance prunes them
            break
        kept += 1
    sops.counts["memories"] += kept
    return kept

"""The story of each task from its events: what was planned, tried, denied, asked and approved, and what it cost."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from sim.kernel.codec import JsonObject, encode

StoryKind = Literal[
    "step", "planned", "refused", "tried", "result", "failed", "denied", "checked", "confidence", "asked", "approved",
    "resumed", "waits", "ended",
]  # fmt: skip
"""What a line of a story is about."""

_TASKS: Final = 1_000
_LINES: Final = 500
_LONGEST: Final = 1_000
_ARGUMENT: Final = 120


@attrs.frozen
class StoryLine:
    """One line of a story: when it was recorded, what it is about, and its text."""

    time_ns: int
    kind: StoryKind
    text: str


@attrs.define
class Story:
    """One task as a story.

    Attributes:
        number, name, type, project: what task it is.
        creator: who made it.
        parent, helps: the task of which it is a part, and the one that waits for it, by number.
        depends_on: the numbers of the tasks that come before it.
        agent: the executor that works on it; empty before.
        goal: what has to be reached.
        criteria: the criteria with whether they were met after the last step.
        added_ns, began_ns, ended_ns: when it was added, began and ended; None: it has not.
        status, ending, reason: how and why it ended; empty before.
        progress, steps, attempts, tokens, cost: how far it is, and what that took.
        lines: what happened, oldest first.
        left_out: how many lines were left out.
        pending: lines of the step under way, which is on record at its end.
        last: further ones, which come after its validation.
    """

    number: int
    name: str
    type: str
    project: str
    creator: str
    parent: int | None
    helps: int | None
    depends_on: tuple[int, ...]
    added_ns: int
    agent: str = ""
    goal: str = ""
    criteria: list[tuple[str, bool]] = attrs.field(factory=list)
    began_ns: int | None = None
    ended_ns: int | None = None
    status: str = ""
    ending: str = ""
    reason: str = ""
    progress: float = 0.0
    steps: int = 0
    attempts: int = 0
    tokens: int = 0
    cost: float = 0.0
    lines: list[StoryLine] = attrs.field(factory=list)
    left_out: int = 0
    pending: list[StoryLine] = attrs.field(factory=list)
    last: list[StoryLine] = attrs.field(factory=list)

    def add(self, time_ns: int, kind: StoryKind, text: str) -> None:
        """Add a line, if there is room."""
        if len(self.lines) >= _LINES:
            self.left_out += 1
        else:
            self.lines.append(_line(time_ns, kind, text))

    def flush(self) -> None:
        """Add the lines that wait for the end of a step."""
        for line in self.pending:
            self.add(line.time_ns, line.kind, line.text)
        self.pending.clear()

    def flush_last(self) -> None:
        """Add the lines that come after the validation of a step."""
        for line in self.last:
            self.add(line.time_ns, line.kind, line.text)
        self.last.clear()


def _line(time_ns: int, kind: StoryKind, text: str) -> StoryLine:
    return StoryLine(time_ns, kind, text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


class Stories:
    """Follows tasks of executors through their events.

    Args:
        most: how many tasks are followed at most.

    Attributes:
        by_number: the stories by the number of the task.
        total: the number of all tasks.
    """

    def __init__(self, most: int = _TASKS) -> None:
        self.by_number: dict[int, Story] = {}
        self.total = 0
        self._most = most

    def add(self, time_ns: int, topic: str, data: JsonObject) -> None:
        """Note an event."""
        number, what = data.get("task"), topic.removeprefix("execution.")
        if not isinstance(number, int):
            return
        if what == "added":
            self.total += 1
            if len(self.by_number) < self._most and number not in self.by_number:
                self.by_number[number] = _made(number, time_ns, data)
            return
        story = self.by_number.get(number)
        if story is not None and (tell := _TELL.get(what)) is not None:
            tell(story, time_ns, data)


def _made(number: int, time_ns: int, data: JsonObject) -> Story:
    before, criteria = data.get("depends_on"), data.get("criteria")
    return Story(
        number=number,
        name=_text(data, "name"),
        type=_text(data, "type"),
        project=_text(data, "project"),
        creator=_text(data, "creator"),
        parent=_whole(data.get("parent")),
        helps=_whole(data.get("helps")),
        depends_on=tuple(one for one in before if isinstance(one, int)) if isinstance(before, list) else (),
        added_ns=time_ns,
        goal=_text(data, "goal"),
        criteria=[(str(one), False) for one in criteria] if isinstance(criteria, list) else [],
    )


def _started(story: Story, time_ns: int, data: JsonObject) -> None:
    story.agent, story.began_ns = _text(data, "agent"), time_ns


def _step(story: Story, time_ns: int, data: JsonObject) -> None:
    """Tell a step: each attempt, and the check at its end."""
    progress, cost = _number(data.get("acceptance_progress")), _number(data.get("cost_usd"))
    tokens, seconds = int(_number(data.get("tokens_used"))), _number(data.get("duration_ms")) / 1000
    began_ns = round(_number(data.get("timestamp")) * 1e9)
    story.add(
        began_ns,
        "step",
        f"{data.get('step_number')}: progress {story.progress:g} → {progress:g}; {seconds:g} s, {tokens:,} tokens, "
        f"{cost:.6f}",
    )
    story.agent = _text(data, "agent")
    story.progress, story.steps = progress, story.steps + 1
    story.tokens, story.cost = story.tokens + tokens, story.cost + cost
    refused = _items(data.get("refused_plans"))
    attempts = _items(data.get("attempts"))
    for number, attempt in enumerate(attempts, 1):
        _refused(story, [one for one in refused if one.get("attempt") == number])
        _attempt(story, round(_number(attempt.get("timestamp")) * 1e9), attempt)
    _refused(story, [one for one in refused if _number(one.get("attempt")) > len(attempts)])
    story.flush()
    validation = _mapping(data.get("validation"))
    checks = _items(validation.get("criteria"))
    story.criteria = [(_checked(one), bool(one.get("met"))) for one in checks]
    for one in checks:
        detail = f": {_text(one, 'detail')}" if one.get("detail") else ""
        story.add(time_ns, "checked", f"[{'x' if one.get('met') else ' '}] {_checked(one)}{detail}")
    if validation.get("fault"):
        story.add(time_ns, "failed", _text(validation, "fault"))
    story.flush_last()


def _checked(criterion: JsonObject) -> str:
    """Return the text of a criterion, with a mark if a model judged it although tests should show it."""
    return _text(criterion, "text") + (" (judged by a model)" if criterion.get("tests_judged") else "")


def _attempt(story: Story, time_ns: int, attempt: JsonObject) -> None:
    story.attempts += 1
    action, result = _mapping(attempt.get("action")), _mapping(attempt.get("result"))
    story.add(time_ns, "planned", _text(attempt, "reasoning") or "(no reason given)")
    story.add(time_ns, "tried", _call(action))
    if result.get("success"):
        story.add(time_ns, "result", _short(result.get("output"), _LONGEST))
    else:
        story.add(time_ns, "denied" if result.get("status") == "denied" else "failed", _text(result, "error"))


def _refused(story: Story, plans: Sequence[JsonObject]) -> None:
    for plan in plans:
        text = f"{_call(_mapping(plan.get('action')))} was refused, because it had been tried"
        story.add(round(_number(plan.get("timestamp")) * 1e9), "refused", text)


def _call(action: JsonObject) -> str:
    arguments = ", ".join(f"{key}={_short(value)}" for key, value in _mapping(action.get("parameters")).items())
    return f"{_text(action, 'tool_name')}({arguments})"


def _denied(story: Story, time_ns: int, data: JsonObject) -> None:
    then = {
        "alternative": "another tool is allowed",
        "help": f"{data.get('help')} was made",
        "gate": "a person decides",
    }
    text = f"{_text(data, 'error')}: {then.get(_text(data, 'then'), '')}"
    story.pending.append(_line(time_ns, "denied", text))


def _confidence(story: Story, time_ns: int, data: JsonObject) -> None:
    """Tell a check of the confidence, which belongs to the step that is on record next."""
    reasons = data.get("why")
    why = f" ({', '.join(map(str, reasons))})" if isinstance(reasons, list) and reasons != ["interval"] else ""
    story.last.append(_line(time_ns, "confidence", f"{_number(data.get('score')):.2f}{why}: {_text(data, 'said')}"))


def _escalated(story: Story, time_ns: int, data: JsonObject) -> None:
    where = f" ({data['gate']})" if data.get("gate") else " (no person could be asked)"
    story.add(time_ns, "asked", _text(data, "reason") + where)


def _approved(story: Story, time_ns: int, data: JsonObject) -> None:
    note = f": {_text(data, 'note')}" if data.get("note") else ""
    story.add(time_ns, "approved", f"{_text(data, 'by')} let it continue{note}")


def _retry(story: Story, time_ns: int, data: JsonObject) -> None:
    text = f"no model answered, again in {_number(data.get('delay')):g} s: {_text(data, 'error')}"
    if data.get("use") == "judge":  # in a step, which is on record later
        story.pending.append(_line(time_ns, "waits", text))
    else:
        story.add(time_ns, "waits", text)


def _resumed(story: Story, time_ns: int, data: JsonObject) -> None:
    story.add(time_ns, "resumed", f"{_text(data, 'help')} ended with {_text(data, 'status')}")


def _returned(story: Story, time_ns: int, data: JsonObject) -> None:
    story.add(time_ns, "waits", f"{_text(data, 'by')} has stopped; another executor of its type can continue")


def _ended(story: Story, time_ns: int, data: JsonObject) -> None:
    story.flush()
    story.flush_last()
    story.status, story.ending = _text(data, "status"), _text(data, "ending")
    story.reason, story.ended_ns = _text(data, "reason"), time_ns
    story.tokens, story.cost = int(_number(data.get("tokens"))), _number(data.get("cost"))
    story.add(time_ns, "ended", f"{story.status} ({story.ending}): {story.reason}")


_TELL: Final = {
    "started": _started, "step": _step, "denied": _denied, "confidence": _confidence, "escalated": _escalated,
    "approved": _approved, "retry": _retry, "resumed": _resumed, "returned": _returned, "ended": _ended,
}  # fmt: skip


def _short(value: Any, longest: int = _ARGUMENT) -> str:
    """Return a value in one line; of a text with several lines, the first one and their number."""
    if isinstance(value, str):
        lines = value.splitlines() or [""]
        text = f"{lines[0]} ... ({len(lines)} lines)" if any(line.strip() for line in lines[1:]) else lines[0]
    else:
        text = encode(value).decode()
    return text if len(text) <= longest else text[:longest] + "..."


def _text(data: JsonObject, key: str) -> str:
    value = data.get(key)
    return "" if value is None else str(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _items(value: Any) -> list[JsonObject]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []

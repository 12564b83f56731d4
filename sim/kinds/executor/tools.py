"""The tools of executors: the files of the workspace, and what they can say about their task."""

from typing import Final

from sim.kernel.codec import Json
from sim.kinds.executor.service import Executors
from sim.kinds.executor.testing import TESTS
from sim.tools.schema import Given
from sim.tools.tool import tool
from sim.world import Inhabitant, Refused, World

FINISH: Final = "executor.finish"
UNCERTAIN: Final = "executor.report_uncertainty"
CHECK: Final = "executor.request_confidence_check"
ASSIGN: Final = "executor.assign_task"

_LONGEST_REASON: Final = 2_000


# -- the workspace


@tool("workspace.list_files")
def list_files(world: Given[World], agent: Given[Inhabitant]) -> list[str]:
    """List the files of the project."""
    executors = Executors.of(world)
    return list(executors.workspace.files.get(executors.state_of(agent.agent_id).project_id, ()))


@tool("workspace.read_file")
def read_file(world: Given[World], agent: Given[Inhabitant], path: str) -> str:
    """Read a file of the project.

    Args:
        path: its name, with its folders.
    """
    executors = Executors.of(world)
    return executors.workspace.text(executors.state_of(agent.agent_id).project_id, path)


@tool("workspace.write_file")
def write_file(world: Given[World], agent: Given[Inhabitant], path: str, text: str) -> dict[str, Json]:
    """Make a file of the project, or replace its text.

    Args:
        path: its name, with its folders.
        text: its text.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    version = executors.workspace.write(state.project_id, path, text, by=agent.agent_id, state=state)
    return {"path": path, "version": version}


@tool("workspace.edit_file")
def edit_file(world: Given[World], agent: Given[Inhabitant], path: str, old: str, new: str) -> dict[str, Json]:
    """Replace one piece of text in a file of the project.

    Args:
        path: the name of the file, with its folders.
        old: a text that occurs exactly once in it.
        new: the text that replaces it.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    text = executors.workspace.text(state.project_id, path)
    if not old or text.count(old) != 1:
        raise Refused(f"{path}: the old text must occur once, and occurs {text.count(old) if old else 0} times")
    changed = text.replace(old, new)
    version = executors.workspace.write(state.project_id, path, changed, by=agent.agent_id, state=state)
    return {"path": path, "version": version}


@tool("workspace.delete_file")
def delete_file(world: Given[World], agent: Given[Inhabitant], path: str) -> str:
    """Delete a file of the project.

    Args:
        path: its name, with its folders.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    executors.workspace.delete(state.project_id, path, by=agent.agent_id, state=state)
    return f"{path} is deleted"


# -- the task


@tool(FINISH)
def finish(world: Given[World], agent: Given[Inhabitant], summary: str) -> str:
    """Say that the goal is reached. The criteria are checked; the task ends only if they are met.

    Args:
        summary: what was done.
    """
    Executors.of(world).state_of(agent.agent_id).metadata["summary"] = summary[:_LONGEST_REASON]
    return "The criteria are checked."


@tool(UNCERTAIN)
def report_uncertainty(world: Given[World], agent: Given[Inhabitant], reason: str) -> str:
    """Say that you are not sure how to go on. Your confidence is checked after this step.

    Args:
        reason: what is not clear.
    """
    Executors.of(world).state_of(agent.agent_id).metadata["uncertain"] = reason[:_LONGEST_REASON]
    return "The confidence is checked after this step."


@tool(CHECK)
def request_confidence_check(world: Given[World], agent: Given[Inhabitant]) -> str:
    """Ask for a check of the confidence after this step."""
    Executors.of(world).state_of(agent.agent_id).metadata["request_confidence_check"] = True
    return "The confidence is checked after this step."


@tool(ASSIGN)
def assign_task(
    world: Given[World], agent: Given[Inhabitant], name: str, goal: str, agent_type: str,
    criteria: tuple[str, ...] = (), files: tuple[str, ...] = (), tests: str | None = None,
    depends_on: tuple[str, ...] = (), priority: int = 0,
) -> dict[str, Json]:  # fmt: skip
    """Give a part of the work to executors of a type. It is done in the same project.

    Args:
        name: a short name of the task: small letters, digits, _ and -.
        goal: what has to be reached.
        agent_type: the type of the executors, such as coder.
        criteria: when it is reached, in words; a model judges them.
        files: files that must exist then.
        tests: a file or folder whose tests must pass then.
        depends_on: the names of the tasks that must have succeeded before.
        priority: how urgent it is; a higher one comes first.
    """
    executors = Executors.of(world)
    state = executors.state_of(agent.agent_id)
    return executors.take(
        agent.agent_id,
        name,
        goal,
        agent_type,
        criteria=criteria,
        files=files,
        tests=tests,
        depends_on=depends_on,
        project=state.project_id,
        priority=priority,
        parent=state,
    )


CONTROL: Final = (FINISH, UNCERTAIN, CHECK)
"""The tools that each executor is offered. What they return says nothing about the work."""

TOOLS: Final = (
    list_files, read_file, write_file, edit_file, delete_file, TESTS, finish, report_uncertainty,
    request_confidence_check, assign_task,
)  # fmt: skip
"""All tools of executors."""

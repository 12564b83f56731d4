"""The modules of tools: scheduler, file_manager, code_executor, research, location.

What a tool knows of the user and the conversation comes from the runtime. It replaces what a model sends.
"""

from typing import Final, Literal, TypedDict, cast

from sim.agents.conversation import User
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel import perform, to_ns, to_seconds
from sim.kernel.codec import Json
from sim.kernel.duration import NS
from sim.kinds.chat.records import IncomingMessage, Job, ShownFile
from sim.kinds.chat.service import Chats
from sim.tools import Tools
from sim.tools.process import Command, ProcessLimits, ProcessResult
from sim.tools.registry import tool_of_action
from sim.tools.schema import Given
from sim.tools.tool import tool
from sim.world import Inhabitant, Refused, World
from sim.world.action import action

_MOST_PAGES: Final = 20
_LONGEST_JOB: Final = 4_000  # characters of the message of a job
_LATEST: Final = 366 * 86_400 * NS  # how far ahead a job may be
_PYTHON_LATENCY: Final = 2 * NS
_PYTHON_SECONDS: Final = 10.0


def _user(world: World, id: str) -> User:
    return Chats.of(world).conversations.user(id)


# -- scheduler


@tool("scheduler.add_job")
def add_job(
    world: Given[World],
    user: Given[str],
    platform: Given[str],
    channel: Given[str],
    thread: Given[str | None],
    message: str,
    after: str,
) -> dict[str, Json]:
    """Go on with this conversation at a later time: the message comes as if the person had sent it.

    Args:
        message: what is sent.
        after: the time from now, such as 2h or 1d.
    """
    try:
        delay = to_ns(after)
    except UsageError as error:
        raise Refused(str(error)) from error
    if not 0 < delay <= _LATEST:
        raise Refused("a job is due in the next 366 days")
    due = world.kernel.now + delay
    chats = Chats.of(world)
    made = chats.add_job(_user(world, user), _later(chats, user, platform, channel, thread, message), due_ns=due)
    return {"job_id": made.id, "due": to_seconds(due)}


def _later(chats: Chats, user: str, platform: str, channel: str, thread: str | None, message: str) -> IncomingMessage:
    """Return the message of a job."""
    if not message.strip() or len(message) > _LONGEST_JOB:
        raise Refused(f"the message of a job has 1 to {_LONGEST_JOB:,} characters")
    links = chats.conversations.user(user).links
    account = next((link.platform_user_id for link in links if link.platform == platform), None)
    if account is None:
        raise Refused(f"{user} has no account on {platform}")
    server = chats.server_of(platform, channel, thread)
    return IncomingMessage(platform, account, server, channel, thread, message.strip())


@tool("scheduler.list_jobs")
def list_jobs(world: Given[World], user: Given[str]) -> list[dict[str, Json]]:
    """List the jobs of the person that are not done yet."""
    return [_shown(job) for job in Chats.of(world).jobs.values() if job.user == user]


def _shown(job: Job) -> dict[str, Json]:
    due = None if job.due_ns is None else to_seconds(job.due_ns)
    return {"job_id": job.id, "due": due, "place": job.place, "message": job.message.content}


@tool("scheduler.cancel_job")
def cancel_job(world: Given[World], user: Given[str], job_id: str) -> str:
    """Cancel a job of the person.

    Args:
        job_id: its id.
    """
    Chats.of(world).cancel_job(user, job_id)
    return f"{job_id} is cancelled"


# -- file_manager


@tool("file_manager.create_document")
def create_document(
    world: Given[World], user: Given[str], title: str, content: str, kind: Literal["md", "txt", "csv", "json"] = "md"
) -> ShownFile:
    """Write a text file for the person.

    Args:
        title: its name; the kind is added if it is missing.
        content: its text.
        kind: what kind of text it is.
    """
    name = " ".join(title.split())
    if not name:
        raise Refused("a document has a title")
    name = name if name.endswith(f".{kind}") else f"{name}.{kind}"
    return Chats.of(world).add_file(_user(world, user), name, f"text/{kind}", content).shown()


@tool("file_manager.read_document")
def read_document(world: Given[World], user: Given[str], file_id: str) -> dict[str, Json]:
    """Read a text file of the person.

    Args:
        file_id: its id.
    """
    file = Chats.of(world).file(user, file_id)
    if file.content is None:
        raise Refused(f"{file.id} is no text")
    return {"filename": file.filename, "content": file.content}


@tool("file_manager.list_files", permission=Permission.GUEST)
def list_files(world: Given[World], user: Given[str]) -> list[ShownFile]:
    """List the files of the person."""
    return [one.shown() for one in Chats.of(world).files.values() if one.user == user]


# -- code_executor


@tool("code_executor.load_file")
def load_file(world: Given[World], user: Given[str], conversation: Given[str], file_id: str) -> str:
    """Put a file of the person into the folder in which Python code runs.

    Args:
        file_id: its id.
    """
    chats = Chats.of(world)
    file = chats.file(user, file_id)
    if file.content is None:
        raise Refused(f"{file.id} is no text")
    loaded = chats.loaded.setdefault(conversation, [])
    if file.id not in loaded:
        loaded.append(file.id)
    return f"{file.filename} is in the folder"


async def _run_python(world: World, agent: Inhabitant, code: str) -> ProcessResult:
    """Run the code in a sandbox, with the files that were loaded for the user of the conversation."""
    context = Tools.of(world).context(agent.agent_id)
    if not context:
        raise Refused(f"{agent.agent_id} has no conversation to answer")
    chats, user = Chats.of(world), str(context["user"])
    own = [chats.files[id] for id in chats.loaded.get(str(context["conversation"]), ()) if chats.files[id].user == user]
    files = {one.filename.replace("/", "_"): one.content or "" for one in own}
    try:
        command = Command(("python", "main.py"), {**files, "main.py": code}, limits=ProcessLimits(wall=_PYTHON_SECONDS))
    except UsageError as error:
        raise Refused(str(error)) from error
    outcome = await perform(Tools.of(world).processes.effect(command, latency_ns=_PYTHON_LATENCY))
    if outcome.kind != "ok":
        raise Refused(str(outcome.value.get("message", outcome.kind)) if outcome.value else outcome.kind)
    return cast("ProcessResult", outcome.value)  # of the effect above, now or when it was recorded


class PythonResult(TypedDict, total=False):
    """How code ended, what it printed, and the files that it made."""

    exit_code: int
    killed_by: str
    stdout: str
    stderr: str
    files: list[ShownFile]


@action("run_python", wait=_run_python, ends=True, everywhere=False, draws=False)
def run_python(world: World, agent: Inhabitant, result: ProcessResult, code: str) -> PythonResult:
    """Run Python code in a sandbox, in a folder with the files that were loaded. New text files belong to the person.

    Args:
        code: the code.
    """
    chats = Chats.of(world)
    user = _user(world, str(Tools.of(world).context(agent.agent_id)["user"]))
    made = [
        chats.add_file(user, name, "text/plain", one["text"]).shown()
        for name, one in result["files"].items()
        if not one["truncated"]
    ]
    shown: PythonResult = {"files": made}
    if (code_of_end := result["exit_code"]) is not None:
        shown["exit_code"] = code_of_end
    if (killed_by := result["killed_by"]) is not None:
        shown["killed_by"] = killed_by
    if out := result["stdout"]["text"]:
        shown["stdout"] = out
    if err := result["stderr"]["text"]:
        shown["stderr"] = err
    return shown


# -- research


@tool("research.web_search", permission=Permission.GUEST)
def web_search(world: Given[World], query: str, max_results: int = 5) -> list[dict[str, Json]]:
    """Search the web.

    Args:
        query: the words.
        max_results: the most pages, from 1 to 20.
    """
    if not 1 <= max_results <= _MOST_PAGES:
        raise Refused(f"a search returns 1 to {_MOST_PAGES} pages, not {max_results}")
    return Chats.of(world).search_web(query, max_results)


# -- location


@tool("location.get_location")
def get_location(world: Given[World], user: Given[str]) -> str:
    """Say where the person is."""
    return Chats.of(world).locations.get(user, "unknown")


@tool("location.remind_at")
def remind_at(
    world: Given[World],
    user: Given[str],
    platform: Given[str],
    channel: Given[str],
    thread: Given[str | None],
    place: str,
    message: str,
) -> dict[str, Json]:
    """Go on with this conversation when the person arrives at a place.

    Args:
        place: the place.
        message: what is sent then.
    """
    if not place.strip():
        raise Refused("a reminder needs a place")
    chats = Chats.of(world)
    later = _later(chats, user, platform, channel, thread, message)
    return {"job_id": chats.add_job(_user(world, user), later, due_ns=None, place=place.strip()).id}


TOOLS: Final = (
    add_job,
    list_jobs,
    cancel_job,
    create_document,
    read_document,
    list_files,
    load_file,
    tool_of_action(run_python, "code_executor.run_python"),
    web_search,
    get_location,
    remind_at,
)
"""All tools, by module."""

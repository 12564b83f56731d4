"""The tools of a world: which there are, who is offered which, and how a call runs.

A call goes through these steps, in this order: the tool is found, access is checked, what the runtime knows replaces
what the caller sent under its names, the arguments are checked against the schema, a person is asked if a rule demands
it, the audit record is written, and the tool runs. The action `use_tool` is the only way to call a tool.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from sim.base.errors import Cancelled, RunError, UsageError
from sim.base.text import dotted_name, of_error
from sim.kernel import perform
from sim.kernel.codec import JsonObject, decode, encode
from sim.tools.access import ToolAccess
from sim.tools.schema import schema_of_action
from sim.tools.tool import MEANINGS, Tool, wire_name
from sim.world import Action, ActionHandler, Inhabitant, Refused, Service, Warned, World
from sim.world.action import near
from sim.world.json_schema import mismatch

if TYPE_CHECKING:
    from sim.tools.approvals import Gate
    from sim.tools.audit import Audit
    from sim.tools.mcp_servers import McpServers
    from sim.tools.process import ProcessTools

WORLD: Final = "world."
"""The module of tools that offer actions: `world.transfer` executes the action `transfer`."""

_LONGEST_NAME = 200  # characters of a name that a model invented
_PREVIEW = 8000  # characters of a result too large for the record that its event keeps


@attrs.frozen
class CheckedCall:
    """A call that passed all checks.

    Attributes:
        tool: the tool.
        arguments: the arguments, with what the runtime gives.
        ran: whether it has run already, outside or as an action.
        value: its result, if it has run.
    """

    tool: Tool
    arguments: JsonObject
    ran: bool = False
    value: Any = None


class Tools(Service):
    """The tools of one world.

    Args:
        world: the world.

    Attributes:
        by_name: all tools by name.
        context: returns what the runtime knows of a call of an agent, such as its user and conversation; see `CONTEXT`.
        calls, failures: how often each tool was called, and failed.
        faulty: how many calls of models were not run; see `note_not_run`.
        first_fault: the tool, the agent and the cause of the first of them; empty if there is none.
    """

    name = "tools"

    def __init__(self, world: World) -> None:
        self.by_name: dict[str, Tool] = {}
        self.context: Callable[[str], JsonObject] = _nothing
        self.calls: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.faulty = 0
        self.first_fault = ""
        self._world = world
        self._by_wire: dict[str, str] = {}

    @cached_property
    def processes(self) -> "ProcessTools":
        """The permission of the operator to run commands; by default there is none."""
        from sim.tools.process import ProcessTools  # the import is slow

        return ProcessTools()

    @cached_property
    def servers(self) -> "McpServers":
        """The MCP servers of the run; by default there are none."""
        from sim.tools.mcp_servers import McpServers  # the import is slow

        return McpServers()

    def connected(self) -> AbstractAsyncContextManager[object]:
        """Return what connects to the MCP servers of the run, if it has any, for as long as it is entered."""
        return self.servers if "servers" in vars(self) else nullcontext()

    def check_servers(self) -> None:
        """Check that the tools of the scenario fit the MCP servers of the run, if it has any."""
        if "servers" in vars(self):
            self.servers.check()

    @classmethod
    def on(cls, world: World) -> Self:
        """Return the tools of a world; add them, and the action `use_tool`, if it has none."""
        if cls.name not in world.services:
            from sim.tools.actions import use_tool

            world.add_service(cls(world))
            if world.actions.find(use_tool.kind) is None:
                world.actions.register(use_tool)
        return cls.of(world)

    def add(self, *tools: Tool) -> None:
        """Add tools.

        Raises:
            UsageError: if there is one of its name.
        """
        for tool in tools:
            other = self._by_wire.get(tool.wire_name)
            if tool.name in self.by_name or other is not None:
                raise UsageError(f"there is already a tool {other or tool.name!r}")
            self.by_name[tool.name] = tool
            self._by_wire[tool.wire_name] = tool.name

    def find(self, name: str) -> Tool:
        """Return a tool by its name, or by the name that models see.

        Raises:
            Refused: if it does not exist; the message suggests the nearest name.
        """
        tool = self.by_name.get(self._by_wire.get(name, name)) or self._action_tool(name)
        if tool is None:
            raise Refused(f"there is no tool {name[:80]!r}{near(name, self.by_name)}")
        return tool

    def look_up(self, name: str) -> Tool | None:
        """Return a tool by its name, or by the name that models see, or None. Unlike `find`, this adds none."""
        tool = self.by_name.get(self.named(name))
        return self._made(self.named(name)) if tool is None else tool

    def offered(self, agent: Inhabitant, names: Iterable[str], behalf: tuple[str, ...] = ()) -> list[Tool]:
        """Return those tools of a list that an agent may call, in the order of the list.

        Args:
            agent: the agent.
            names: names of tools.
            behalf: see `ToolAccess.refusal`.

        Raises:
            Refused: if a tool does not exist.
        """
        access = ToolAccess.on(self._world)
        return [tool for tool in map(self.find, names) if access.may_see(agent, tool, behalf)]

    def _action_tool(self, name: str) -> Tool | None:
        """Return the tool that offers an action of the world, if the name is that of one; it is known from now on."""
        made = self._made(dotted_name(name) if name.startswith(wire_name(WORLD)) else name)
        if made is not None:
            self.add(made)
        return made

    def _made(self, name: str) -> Tool | None:
        """Return a new tool for an action of the world, if the name is that of one."""
        handler = self._world.actions.find(name.removeprefix(WORLD)) if name.startswith(WORLD) else None
        return None if handler is None or handler.kind in NEVER_TOOLS else tool_of_action(handler, name)

    # -- calls

    async def prepare(self, agent: Inhabitant, name: str, args: Any, behalf: tuple[str, ...]) -> CheckedCall:
        """Check a call, ask a person if needed, write the audit record, and run what runs outside.

        Raises:
            Refused: if a check fails, a person denies it, or the tool fails.
        """
        tool = self.find(name)
        sent = {} if args is None else args
        if not isinstance(sent, Mapping):
            raise Refused(f"the arguments of {name} are a mapping, not {type(args).__name__}")
        kept = tool.sent(sent)
        self._check_access(agent, tool, kept, behalf)
        why = mismatch(kept, tool.parameters, "the arguments")
        if why is not None:
            raise self._denied(agent, tool, kept, why)
        arguments = {**decode(encode(kept)), **self._injected(agent, tool)}  # a copy, which the tool may change
        gate = await self._approved(agent, tool, kept)
        if gate is not None:
            self._check_access(agent, tool, kept, behalf)  # rights may have been revoked while a person was awaited
        self._note(agent, "tool.call", tool, kept, **({} if gate is None else {"gate": gate.id}))
        self.calls[tool.name] = self.calls.get(tool.name, 0) + 1
        if tool.action is not None:
            return await self._act(agent, tool, arguments)
        if tool.runs == "core":
            return CheckedCall(tool, arguments)
        return await self._outside(tool, arguments, lambda: self._check_access(agent, tool, kept, behalf))

    async def _approved(self, agent: Inhabitant, tool: Tool, arguments: JsonObject) -> "Gate | None":
        """Wait for a person if the call needs one, and return the gate that was passed."""
        if "approvals" not in self._world.services:
            return None
        from sim.tools.approvals import Approvals  # the import is slow

        return await Approvals.of(self._world).check(agent, tool.name, arguments)

    def _check_access(self, agent: Inhabitant, tool: Tool, arguments: JsonObject, behalf: tuple[str, ...]) -> None:
        """Refuse a call that is not allowed at present."""
        access = ToolAccess.on(self._world)
        why = access.refusal(agent, tool, arguments, behalf)
        if why is not None:
            access.denied += 1
            raise self._denied(agent, tool, arguments, why)

    def _denied(self, agent: Inhabitant, tool: Tool, arguments: JsonObject, why: str) -> Refused:
        self._note(agent, "tool.denied", tool, arguments, reason=why)
        return Refused(f"{tool.name}: {why}" if not why.startswith(tool.name) else why)

    def run(self, ready: CheckedCall) -> Any:
        """Run a tool of the core in the present step, or return what it returned outside.

        Raises:
            Refused: if it fails.
        """
        if ready.ran:
            return self._recorded(ready.value)
        name = ready.tool.name
        try:
            value = ready.tool.call(ready.arguments)
        except (KeyboardInterrupt, MemoryError, RunError, Cancelled):
            raise  # these concern the process, the run or the agent, not the tool
        except Refused as refusal:
            raise self._failed(ready.tool, str(refusal)) from refusal
        except BaseException as error:
            raise self._failed(ready.tool, of_error(error)) from error
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise Refused(f"the tool {name!r} returned an awaitable: define it with `async def`, or with runs='effect'")
        return self._recorded(value)

    async def _outside(self, tool: Tool, arguments: JsonObject, check: Callable[[], None]) -> CheckedCall:
        """Run a tool as an effect, again after a failure if it may be repeated and `check` still allows it."""
        for attempt in range(tool.retries + 1):
            if attempt:
                check()
            outcome = await perform(tool.effect(arguments))
            if outcome.kind == "ok":
                return CheckedCall(tool, arguments, True, outcome.value)
            if attempt == tool.retries:
                break
        if outcome.kind == "error":
            raise self._failed(tool, f"{outcome.value['type']}: {outcome.value['message']}")
        self.failures[tool.name] = self.failures.get(tool.name, 0) + 1
        doubt = "; it may have had its effect" if tool.safety == "unsafe" else ""
        raise Refused(f"the tool {tool.name!r} has not answered in time{doubt}")

    async def _act(self, agent: Inhabitant, tool: Tool, arguments: JsonObject) -> CheckedCall:
        """Execute the action that a tool offers, as an action of the agent."""
        result = await self._world.execute(agent, Action(str(tool.action), arguments))
        if not result.success:
            self.failures[tool.name] = self.failures.get(tool.name, 0) + 1
            raise Refused(result.error or f"{tool.name} failed", skip=result.skipped)
        return CheckedCall(tool, arguments, True, result.data)

    def _failed(self, tool: Tool, why: str) -> Refused:
        self.failures[tool.name] = self.failures.get(tool.name, 0) + 1
        return Refused(f"the tool {tool.name!r} failed: {why}")

    def _injected(self, agent: Inhabitant, tool: Tool) -> Mapping[str, Any]:
        """Return what the runtime gives to a call."""
        if not tool.given:
            return {}
        context = {"world": self._world, "agent": agent, "user": agent.agent_id, **self.context(agent.agent_id)}
        return {name: context.get(MEANINGS[name]) for name in tool.given}

    def named(self, name: str) -> str:
        """Return the name of a tool by the name that models see. One that does not exist need not be of this form."""
        return self._by_wire.get(name, dotted_name(name))

    def _note(self, agent: Inhabitant, what: str, tool: Tool, arguments: JsonObject, **more: Any) -> None:
        """Append to the audit chain, if the world has one. It holds the hash of the arguments, which are on record."""
        audit = _audit(self._world)
        if audit is not None:
            digest = hashlib.sha256(encode(arguments)).hexdigest()
            audit.record(agent.agent_id, what, {"tool": tool.name, "runs": tool.runs, "arguments_hash": digest, **more})

    def _recorded(self, value: Any) -> Any:
        """Return a result as its event keeps it: one that is too large is replaced by its beginning, size and hash."""
        text = encode(value)
        limit = self._world.event_bus.max_data_bytes
        if len(text) <= limit // 2:
            return value
        whole = value if isinstance(value, str) else text.decode()
        return {"beginning": whole[:_PREVIEW], "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}

    def metrics(self) -> Mapping[str, float]:
        """Return the number of calls, of failed calls, and of calls that were not run."""
        return {"calls": sum(self.calls.values()), "failures": sum(self.failures.values()), "faulty": self.faulty}

    def summary(self) -> JsonObject:
        """Return the number of calls and of failed calls by tool, and how many calls were not run."""
        if not self.calls and not self.faulty:
            return {}
        by_tool = {"calls": dict(sorted(self.calls.items())), "failures": dict(sorted(self.failures.items()))}
        return {**by_tool, **({"faulty": self.faulty} if self.faulty else {})}

    def warnings(self) -> Sequence[Warned]:
        """Warn of calls of models that were not run."""
        if not self.faulty:
            return ()
        calls = "1 call of a tool was" if self.faulty == 1 else f"{self.faulty:,} calls of tools were"
        return (Warned(f"{calls} not run; the first: {self.first_fault}"),)


def _audit(world: World) -> "Audit | None":
    """Return the audit chain of a world, if it has one."""
    if "audit" not in world.services:
        return None
    from sim.tools.audit import Audit  # the import is slow

    return Audit.of(world)


def note_not_run(world: World, agent: Inhabitant, call: tuple[str, str], why: str) -> None:
    """Count and audit a call of a model that is not run: its tool or arguments are wrong, or a limit is reached.

    Args:
        world: the world.
        agent: the agent.
        call: the name of the tool, as the model sees or invents it, and the arguments, as it sent them.
        why: why it is not run.
    """
    tools, audit = world.services.get(Tools.name), _audit(world)
    name = dotted_name(call[0])
    if isinstance(tools, Tools):
        name = tools.named(call[0])
        tools.faulty += 1
        cause = why.removeprefix("the call was not run: ").split(". ", 1)[0]
        tools.first_fault = tools.first_fault or f"{name[:_LONGEST_NAME]} by {agent.agent_id}: {cause}"
    if audit is not None:
        digest = hashlib.sha256(call[1].encode(errors="replace")).hexdigest()
        about = {"tool": name[:_LONGEST_NAME], "arguments_hash": digest, "reason": why}
        audit.record(agent.agent_id, "tool.denied", about)


NEVER_TOOLS: Final = ("use_tool", "ask", "answer", "answer_chat", "orchestrate", "work_cycle", "run_step",
                      "execute_step")  # fmt: skip
"""Actions that are no tools: they would let a model call tools or models around its limits, or for other people."""


def tool_of_action(handler: ActionHandler, name: str) -> Tool:
    """Return the tool that executes an action of the world.

    Args:
        handler: the definition of the action.
        name: the name of the tool.
    """
    return Tool(
        name,
        _unused,
        handler.summary,
        schema_of_action(handler),
        permission=handler.permission,
        action=handler.kind,
        defaults=handler.defaults,
    )


def _unused(arguments: JsonObject) -> Any:
    raise AssertionError("the tool of an action is executed as that action")


def _nothing(agent_id: str) -> JsonObject:
    return {}

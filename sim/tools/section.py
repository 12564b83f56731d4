"""The section `tools` of a scenario: formulas, commands that run in a sandbox, and tools of MCP servers."""

from collections.abc import Mapping
from typing import Annotated, Any

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, ExpressionError
from sim.base.permissions import Permission
from sim.kernel import to_seconds
from sim.kernel.codec import JsonObject
from sim.kernel.duration import NS
from sim.kernel.effects import Safety
from sim.tools.mcp import check_server_name
from sim.tools.mcp_servers import McpServers
from sim.tools.process import Command, ProcessLimits, ProcessTools
from sim.tools.registry import Tools
from sim.tools.schema import OPEN
from sim.tools.tool import CONTEXT, Tool, hidden, injected, without_injected
from sim.world import Inhabitant, Refused, World
from sim.world.json_schema import schema_fault
from sim.world.section import Duration, Formula, Json, Level, Range, define_section, draws_nothing


@attrs.frozen
class FormulaTool:
    """A tool whose result is the value of a formula.

    Args:
        description: what it does, for the model.
        returns: the result, over `args`, `content`, `now` and `caller`, and, of the conversation in which it is called,
            `user`, `platform`, `channel`, `thread` and `conversation`.
        parameters: JSON Schema by parameter. A parameter `user_id` is filled in by the runtime.
        optional: names of optional parameters; an omitted one is null in the formula.
        artifact: the artifact whose content the formula reads as `content`, with the rights of the caller.
        permission: the lowest level of everyone for whom it is called.
        operation: the parameter that says what kind of call it is.
    """

    description: str
    returns: Formula
    parameters: Mapping[str, Json] = attrs.field(factory=dict)
    optional: tuple[str, ...] = ()
    artifact: str | None = None
    permission: Level = Permission.USER
    operation: str | None = None

    def __attrs_post_init__(self) -> None:
        _check_parameters(self.parameters, self.optional)


@attrs.frozen
class CommandTool:
    """A tool that runs a command in a sandbox, if the operator allows commands.

    Args:
        description: what it does, for the model.
        command: the program and its arguments, as a list; no shell takes a line apart.
        code: the file whose text the caller gives as `code`; null: none.
        input: whether the caller gives the standard input as `input`.
        files: further files of the folder of the command: texts by name.
        latency: the simulated duration of a call.
        seconds: the longest real time of a call, in seconds.
        permission: the lowest level of everyone for whom it is called.
    """

    description: str
    command: tuple[str, ...]
    code: str | None = None
    input: bool = False
    files: Mapping[str, str] = attrs.field(factory=dict)
    latency: Duration = NS
    seconds: Annotated[float, Range(0.1, 600)] = 30.0
    permission: Level = Permission.USER

    def __attrs_post_init__(self) -> None:
        self.made({"code": "", "input": ""})

    def made(self, arguments: Mapping[str, Any]) -> Command:
        """Return the command of a call.

        Raises:
            UsageError: if it is not valid.
        """
        files = {**self.files, **({} if self.code is None else {self.code: arguments["code"]})}
        limits = ProcessLimits(wall=self.seconds, cpu=max(1, round(self.seconds)))
        return Command(self.command, files, arguments["input"] if self.input else "", limits)


@attrs.frozen
class ServerTool:
    """A tool of an MCP server, as agents and their models see it.

    Args:
        description: what it does, for the model.
        parameters: JSON Schema by parameter; null: any arguments, which the server checks.
        optional: names of optional parameters.
        given: what the runtime fills in for each call, such as `user_id`, and no model can say; null: `user_id`, if it
            is a parameter.
        remote: its name on the server, if that is another one.
        safety: whether a call can be repeated after a crash or a failure; before an `unsafe` one is, a person decides.
        latency: the simulated duration of a call; null: its duration in real time.
        permission: the lowest level of everyone for whom it is called.
        operation: the parameter that says what kind of call it is.
    """

    description: str
    parameters: Mapping[str, Json] | None = None
    optional: tuple[str, ...] = ()
    given: tuple[str, ...] | None = None
    remote: str | None = None
    safety: Safety = "unsafe"
    latency: Duration | None = NS
    permission: Level = Permission.USER
    operation: str | None = None

    def __attrs_post_init__(self) -> None:
        _check_parameters(self.parameters or {}, self.optional, words=False)
        allowed = [name for name in CONTEXT if name not in ("world", "agent")]
        wrong = next((name for name in self.given or () if name not in allowed), None)
        if wrong is not None:
            raise UsageError(f"the runtime cannot give {wrong!r:.60}", hint=f"it gives {', '.join(allowed)}")


@attrs.frozen
class DeclaredServer:
    """An MCP server whose tools the scenario uses. Which server it is, the operator says.

    Args:
        tools: those of its tools that there are, by name; agents call them as `server.tool`.
    """

    tools: Mapping[str, ServerTool]


@attrs.frozen
class ToolsSettings:
    """Tools that the scenario adds.

    Args:
        functions: tools whose result is a formula, by name, such as `orders.lookup`.
        commands: tools that run a command, by name.
        servers: MCP servers that the operator names, and which of their tools there are, by name of the server.
    """

    functions: Mapping[str, FormulaTool] = attrs.field(factory=dict)
    commands: Mapping[str, CommandTool] = attrs.field(factory=dict)
    servers: Mapping[str, DeclaredServer] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name in self.servers:
            check_server_name(name)


def _check_parameters(parameters: JsonObject, optional: tuple[str, ...], *, words: bool = True) -> None:
    for name in optional:
        if name not in parameters:
            raise UsageError(f"optional names {name!r}, which is not a parameter")
    for name, schema in parameters.items():
        fault = schema_fault(schema)
        if (words and not name.isidentifier()) or fault is not None:
            why = "its name is not a word" if fault is None else fault[1]
            raise UsageError(f"the parameter {name[:80]!r} is not valid: {why}", hint="write name: {type: string}")


_PLACE = ("user", "platform", "channel", "thread", "conversation")


def _formula_tool(name: str, spec: FormulaTool) -> Tool:
    def call(arguments: Mapping[str, Any]) -> Any:
        world: World = arguments["world"]
        agent: Inhabitant = arguments["agent"]
        args = {parameter: arguments.get(parameter) for parameter in spec.parameters}
        content = None if spec.artifact is None else world.readable(agent.agent_id, spec.artifact)
        place = {key: arguments[key] for key in _PLACE}
        names = {"args": args, "content": content, "now": world.now, "caller": agent.agent_id, **place}
        try:
            return spec.returns.evaluate(names, PURE_FUNCTIONS)
        except ExpressionError as error:
            raise Refused(str(error)) from error

    parameters, filled_in = without_injected(name, _schema(spec.parameters, spec.optional))
    return Tool(
        name,
        call,
        spec.description,
        parameters,
        ("world", "agent", *dict.fromkeys((*_PLACE, *filled_in))),
        permission=spec.permission,
        safety="pure",
        operation=spec.operation,
    )


def _schema(parameters: JsonObject, optional: tuple[str, ...]) -> JsonObject:
    required = [parameter for parameter in parameters if parameter not in optional]
    return {"type": "object", "properties": dict(parameters), "required": required, "additionalProperties": False}


def _command_tool(name: str, spec: CommandTool, processes: ProcessTools) -> Tool:
    async def call(arguments: JsonObject) -> Any:
        result = await processes.run(spec.made(arguments).request(), "")
        return {**result, "stdout": result["stdout"]["text"], "stderr": result["stderr"]["text"]}

    names = [key for key, wanted in (("code", spec.code is not None), ("input", spec.input)) if wanted]
    descriptions = {"code": f"the text of {spec.code}", "input": "the standard input"}
    parameters: JsonObject = {
        "type": "object",
        "properties": {key: {"type": "string", "description": descriptions[key]} for key in names},
        "required": names,
        "additionalProperties": False,
    }
    return Tool(
        name,
        call,
        spec.description,
        parameters,
        runs="process",
        permission=spec.permission,
        safety="pure",
        latency=to_seconds(spec.latency),
        timeout=86_400.0,
    )


def _server_tool(server: str, name: str, spec: ServerTool, servers: McpServers) -> Tool:
    async def call(arguments: JsonObject) -> Any:
        return await servers.call(server, spec.remote or name, arguments)

    whole = f"{server}.{name}"
    parameters = OPEN if spec.parameters is None else _schema(spec.parameters, spec.optional)
    filled_in = injected(whole) if spec.given is None else spec.given
    own = [key for key in filled_in if spec.parameters is not None and key in spec.parameters]
    return Tool(
        whole,
        call,
        spec.description,
        hidden(parameters, own),
        tuple(own if spec.given is None else filled_in),
        # any argument can be one of the server's own; what is declared is known to be
        dropped=filled_in if spec.parameters is None else None,
        permission=spec.permission,
        safety=spec.safety,
        latency=None if spec.latency is None else to_seconds(spec.latency),
        operation=spec.operation,
        timeout=86_400.0,  # the client has its own, with a sentence that says more
    )


def _make(world: World, settings: ToolsSettings) -> None:
    tools = Tools.on(world)
    tools.add(*(_formula_tool(name, spec) for name, spec in settings.functions.items()))
    tools.add(*(_command_tool(name, spec, tools.processes) for name, spec in settings.commands.items()))
    for server, declared in settings.servers.items():
        tools.servers.declare(server)
        tools.add(*(_server_tool(server, name, spec, tools.servers) for name, spec in declared.tools.items()))


define_section("tools", ToolsSettings, _make, draws=draws_nothing)

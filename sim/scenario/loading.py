"""Load a scenario file: read, override, validate, cross-check, and report every problem at once."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import attrs
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from sim.actors import Agent
from sim.agents.family import allow_families, class_family, named_family
from sim.agents.packages import is_module_allowed
from sim.base.errors import Problem, ScenarioError, UsageError
from sim.base.permissions import Permission
from sim.base.registry import Definitions, current_definitions, using
from sim.base.text import of_error
from sim.kernel.duration import to_text
from sim.record.files import PLACES, POPULATIONS
from sim.scenario.error_text import words_of
from sim.scenario.fields import LEVELS, plain
from sim.scenario.live_changes import check_interventions, merged, read_changes
from sim.scenario.mappings import name_by_path, text_of
from sim.scenario.overrides import FILE, Override, apply_overrides, parse_all
from sim.scenario.packaged import find_scenario
from sim.scenario.place_graphs import LoadedGraph, load_graph
from sim.scenario.population import Population
from sim.scenario.populations import load_tables, populations_of, record_of
from sim.scenario.schema import Scenario
from sim.scenario.scopes import Context
from sim.scenario.semantic_checks import check_semantics
from sim.scenario.symbols import Symbols, collect, items
from sim.scenario.table_files import TableFile
from sim.scenario.units import FieldError, shown
from sim.scenario.yaml_tree import MAX_BYTES, REFUSED_VALUE, Map, Mark, RefusedValue, Seq, read_tree


def load(
    path: str | PathLike[str],
    overrides: Sequence[str] = (),
    allow: Sequence[str] = (),
    kinds: Mapping[str, type[Agent]] | None = None,
    *,
    definitions: Definitions | None = None,
) -> Scenario:
    """Return the scenario in a file.

    Args:
        path: the file, or PACKAGE:NAME of one that an installed package offers; see `find_scenario`.
        overrides: values to change, such as `seed=3` or `agents.grazer.count=10`.
        allow: installed packages, and modules, whose code the file may use; see `sim.agents.packages`.
        kinds: classes that the host program gives, and that the file may name as `kind`.
        definitions: what the file may name beside the words of `sim`; a run of the scenario uses them too. None: those
            in whose `with` block this is called, else what is defined in this process.

    Raises:
        ScenarioError: with all problems of the file.
        UsageError: if an override is malformed, or an allowed package cannot be imported.
    """
    file, allow = find_scenario(path, allow)
    return loads(read_text(file), str(file), overrides, allow, kinds, definitions=definitions)


def read_text(path: str | PathLike[str]) -> str:
    """Return the text of a scenario file.

    Raises:
        ScenarioError: if it cannot be read, is too large, or is not UTF-8.
    """
    file = str(path)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not allowed"
        hint = _what_is_there(Path(path)) if isinstance(error, FileNotFoundError) else None
        raise ScenarioError([Problem(file, 1, 1, f"the file cannot be read: {reason}", hint)]) from None
    if len(data) > MAX_BYTES:
        raise ScenarioError([_too_large(file)])
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise ScenarioError([Problem(file, line, column, "the file is not UTF-8 text")]) from None
    return text


def _what_is_there(missing: Path) -> str | None:
    """Return a hint for a file that does not exist: the scenario of the gallery, or one of a similar name beside it."""
    if missing.stem.isidentifier() and files("sim.gallery").joinpath(f"{missing.stem}.yaml").is_file():
        return f"copy it from the gallery, and run the copy: sim new --from {missing.stem}"
    near = get_close_matches(missing.name, sorted(file.name for file in missing.parent.glob("*.yaml")), 1, cutoff=0.75)
    return f"did you mean {missing.with_name(near[0])}?" if near else None


def loads(
    text: str,
    file: str = "<text>",
    overrides: Sequence[str] = (),
    allow: Sequence[str] = (),
    kinds: Mapping[str, type[Agent]] | None = None,
    *,
    definitions: Definitions | None = None,
) -> Scenario:
    """As `load`, from a text; problems name it `file`."""
    held = current_definitions() if definitions is None else definitions
    return ScenarioSource(text, file, parse_all(overrides), tuple(allow), kinds or {}, definitions=held).load()


def from_dict(
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    allow: Sequence[str] = (),
    kinds: Mapping[str, type[Agent]] | None = None,
) -> Scenario:
    """See `Scenario.from_dict`."""
    text, tables = text_of(data)
    changes, held = parse_all(overrides), current_definitions()
    source = ScenarioSource(
        text, "scenario", changes, tuple(allow), kinds or {}, definitions=held, tables=tables, from_program=True
    )
    return source.load()


def with_changes(scenario: Scenario, changes: Sequence[str]) -> Scenario:
    """Return a scenario with changes during a run, but for those of the state of agents.

    Args:
        scenario: the scenario of the run at its start.
        changes: the changes of live parameters, as `key=value`; a later one of a value replaces earlier ones.

    Raises:
        UsageError: if a parameter is not live, or a value is not valid.
    """
    others = merged((), read_changes(scenario, parse_all(changes)).others) if changes else ()
    changed: Scenario = scenario.source.load(others) if others else scenario
    return changed


def recorded_files_of(text: str, file: str, overrides: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the data that a scenario refers to, as `Scenario.recorded_files`, without running code that it names.

    Args:
        text, file, overrides: see `loads`.

    Raises:
        ScenarioError: if the text is no mapping.
        UsageError: if an override is malformed.
    """
    tree, _ = ScenarioSource(text, file)._tree()
    apply_overrides(tree, parse_all(overrides))
    graph, _ = load_graph(tree, file, (), None)
    tables, _ = load_tables(tree, file, {})
    files = {PLACES: None if graph is None else graph.record(), POPULATIONS: record_of(tables)}
    return {name: data for name, data in files.items() if data is not None}


@attrs.frozen
class ScenarioSource:
    """The text from which a scenario is loaded, and the changes to it.

    Attributes:
        text: the text of the file.
        file: its name, for problems.
        overrides: the changes to it, in order.
        allow: the packages and modules whose code it may use.
        kinds: the classes of the host program that it may name.
        symbols: the names that it declares; None before it is loaded.
        graph: the graph that its places refer to; None if there is none, or before it is loaded.
        definitions: what it may name beside the words of `sim`; None: what is defined in this process.
        tables: the tables that describe its agents, by name, as loaded, or as a program gives them.
        from_program: whether a program gives the scenario, so that errors name the path of a key and not a line.
    """

    text: str
    file: str
    overrides: tuple[Override, ...] = ()
    allow: tuple[str, ...] = ()
    kinds: Mapping[str, type[Agent]] = attrs.field(factory=dict)
    symbols: Symbols | None = None
    graph: LoadedGraph | None = None
    definitions: Definitions | None = None
    tables: Mapping[str, TableFile] = attrs.field(factory=dict)
    from_program: bool = False

    def load(self, changes: Sequence[Override] = (), *, check_later: bool = True) -> Scenario:
        """Return the scenario.

        Args:
            changes: further changes, after `overrides`.
            check_later: whether to check what its interventions set; they were checked when it was loaded first.

        Raises:
            ScenarioError: with all problems.
            UsageError: if the path of a change does not exist, or an allowed package cannot be imported.
        """
        with using(self.definitions):
            return self._load(changes, check_later=check_later)

    def _load(self, changes: Sequence[Override], *, check_later: bool) -> Scenario:
        allow_families(self.allow)
        tree, problems = self._tree()
        apply_overrides(tree, (*self.overrides, *changes))
        problems += _import_kinds(tree, self.allow)
        problems += _import_metrics(tree, self.allow)
        graph, more_problems = load_graph(tree, self.file, self.allow, self.graph)
        problems += more_problems
        tables, more_problems = load_tables(tree, self.file, self.tables)
        problems += more_problems
        populations, more_problems = populations_of(tree, tables)
        problems += more_problems
        symbols = collect(tree, None if graph is None else graph.graph.nodes, populations)
        scenario, more_problems = self._validate(tree, symbols, graph, populations)
        problems += more_problems
        if scenario is not None and not problems:
            scenario._source = attrs.evolve(self, symbols=symbols, graph=graph, tables=tables)
            if "outcomes" in scenario.sections:
                from sim.scenario.outcome_names import check_outcomes  # only such files need it

                problems += check_outcomes(tree, scenario)
            if "controls" in scenario.sections and not self.overrides and not changes:
                from sim.scenario.controls import check_controls  # only such files need it

                problems += check_controls(tree, scenario, scenario._source._check_again)
            if "islands" in scenario.sections:
                from sim.scenario.island_checks import check_islands  # only such files need it

                problems += check_islands(tree, scenario, symbols)
            if check_later:
                problems += check_interventions(tree, scenario, scenario._source._check_again)
        if scenario is None or problems:
            order = sorted(dict.fromkeys(problems), key=lambda one: (one.file == FILE, one.line, one.column))
            raise ScenarioError(order)
        return scenario

    def section(self, key: str) -> Any:
        """Return a section as it is written, with the overrides, so that two scenarios can be compared.

        Raises:
            ScenarioError: if the text is no mapping.
        """
        tree, _ = self._tree()
        apply_overrides(tree, self.overrides)
        return plain(tree.get(key))

    def _check_again(self, changed: Map) -> tuple[Scenario | None, list[Problem]]:
        nodes = None if self.graph is None else self.graph.graph.nodes
        populations, problems = populations_of(changed, self.tables)
        scenario, more_problems = self._validate(changed, collect(changed, nodes, populations), self.graph, populations)
        return scenario, problems + more_problems

    def _validate(
        self, tree: Map, symbols: Symbols, graph: LoadedGraph | None, populations: Mapping[str, Population]
    ) -> tuple[Scenario | None, list[Problem]]:
        problems = list(check_semantics(tree, symbols, populations))
        families = {kind: class_family(kind, agent) for kind, agent in self.kinds.items()}
        try:
            context = Context(symbols, families=families, graph=graph, populations=populations)
            return Scenario.model_validate(tree, context=context), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        validation_problems = [_problem(tree, part) for detail in details for part in _parts(detail)]
        return None, problems + [problem for problem in validation_problems if problem is not None]

    def _tree(self) -> tuple[Map, list[Problem]]:
        """Return the tree of the text, and what is wrong with it.

        Raises:
            ScenarioError: if it is no mapping.
        """
        if len(self.text) > MAX_BYTES:
            raise ScenarioError([_too_large(self.file)])
        tree, problems = read_tree(self.text, self.file)
        if self.from_program:
            name_by_path(tree)
            problems = [attrs.evolve(problem, file="") for problem in problems]
        if isinstance(tree, Map):
            return tree, problems
        if tree is not REFUSED_VALUE:
            message = f"expected a mapping with a name and agents, found {shown(tree)}"
            problems.append(Problem(self.file, 1, 1, message))
        raise ScenarioError(problems)


def _import_kinds(tree: Map, allow: Sequence[str]) -> Iterator[Problem]:
    """Import what the file names as `module:NAME`, if the module is allowed, because it says which settings there are.

    What is not allowed is refused when the simulation is built. A module that cannot be imported is tried once: each
    import would run its code again.
    """
    failed: dict[str, UsageError] = {}
    for entry in items(tree, "agents"):
        kind = entry.get("kind")
        if not isinstance(kind, str) or not isinstance(entry, Map) or ":" not in kind:
            continue
        module = kind.partition(":")[0]
        if is_module_allowed(module, allow):
            try:
                if module in failed:
                    raise failed[module]
                named_family(kind, allow)
            except UsageError as error:
                # After an AttributeError, the module is imported and only lacks this name; it can have that of another.
                if isinstance(error.__cause__, Exception | SystemExit) and not isinstance(
                    error.__cause__, AttributeError
                ):
                    failed[module] = error
                where = f"agents.{entry.get('name')}.kind"
                yield entry.values_at["kind"].problem(f"{where}: {error}", error.hint)


def _import_metrics(tree: Map, allow: Sequence[str]) -> Iterator[Problem]:
    """Import the modules whose functions metrics call, if the operator allows them."""
    metrics = tree.get("metrics")
    modules = metrics.get("modules") if isinstance(metrics, Map) else None
    named = modules if isinstance(modules, Seq) else Seq(tree.mark)
    for number, name in enumerate(named):
        if not isinstance(name, str):
            continue  # the check of the file reports it
        mark, where = named.values_at[number], f"metrics.modules[{number}]"
        if not is_module_allowed(name, allow):
            yield mark.problem(f"{where}: the module {name[:80]!r} is not allowed", f"allow it: --allow {name[:80]}")
            continue
        try:
            import_module(name)
        except (Exception, SystemExit) as error:  # the imported code may raise anything
            yield mark.problem(f"{where}: {name[:80]} cannot be imported: {of_error(error)}")


def _too_large(file: str) -> Problem:
    hint = "keep large data in the host program, or in a class of agents"
    return Problem(file, 1, 1, f"the file is larger than {MAX_BYTES} bytes", hint)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, for editors."""
    schema = Scenario.model_json_schema(schema_generator=_SchemaGenerator)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_for_editors(schema)}


class _SchemaGenerator(GenerateJsonSchema):
    """Omits defaults that are records: they have no JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # pydantic's declaration


def _for_editors(schema: Any) -> Any:
    """Return a part of the schema as editors show it: defaults as users write them, and no names of classes."""
    if isinstance(schema, list):
        return [_for_editors(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    named = [key for key in ("$defs", "properties") if key in schema]  # below these are names, such as `title`
    changed = {key: _for_editors(part) for key, part in schema.items() if key != "title" and key not in named}
    changed |= {key: {name: _for_editors(part) for name, part in schema[key].items()} for key in named}
    default, choices = changed.get("default"), [changed, *changed.get("anyOf", ())]
    if isinstance(default, int) and any(choice.get("format") == "time-span" for choice in choices):
        changed["default"] = to_text(default)  # not nanoseconds
    if changed.get("enum") == LEVELS and default is not None:
        changed["default"] = Permission(default).name.lower()
    return changed


def _parts(detail: Any) -> Iterator[dict[str, Any]]:
    """Yield one detail for each error of a validator that reports several."""
    error = detail.get("ctx", {}).get("error")
    if not isinstance(error, FieldError):
        yield detail
        return
    for part in error.parts:
        yield {**detail, "type": "ours", "loc": (*detail["loc"], *part.path), "ctx": {"error": part}}


def _problem(tree: Map, detail: Any) -> Problem | None:
    """Return the problem for one error of pydantic; None if its value was refused before."""
    location = tuple(detail["loc"])
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if isinstance(value, RefusedValue) or (kind == "too_short" and len(value) >= context["min_length"]):
        return None  # refused before: the value itself, or the items of the list
    on_key = location[-1:] == ("[key]",)
    here, mark, steps = _locate(tree, location[:-1] if on_key else location, on_key or kind == "extra_forbidden")
    message, hint = words_of(kind, location[-1], value, context, here)
    path = _path(steps) or ("the file" if kind == "missing" else "")
    return mark.problem(f"{path}: {message}" if path else message, hint)


def _locate(tree: Map, location: tuple[str | int, ...], on_key: bool) -> tuple[Any, Mark, tuple[str | int, ...]]:
    """Return the innermost collection on a path, its position, and the part of the path that exists."""
    here: Any = tree
    inner: Any = tree
    mark = tree.mark
    steps: list[str | int] = []
    for number, step in enumerate(location):
        last = number == len(location) - 1
        if isinstance(here, Map) and isinstance(step, str) and step in here:
            mark = here.keys_at[step] if last and on_key else here.values_at[step]
        elif isinstance(here, Seq) and isinstance(step, int) and step < len(here):
            mark = here.values_at[step]
        else:
            continue  # a step of the validator that is not in the file, such as the name of an alternative
        steps.append(step)
        inner, here = here, here[step]
    return inner, mark, tuple(steps)


def _path(steps: tuple[str | int, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in steps)
    return text.removeprefix(".")

"""Settings of sections and of kinds of agents: each type is read, refused at its place, and in the JSON Schema."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import attrs
import pytest

import sim
from sim.agents import Family, define_family
from sim.base.errors import ScenarioError, UsageError
from sim.base.expressions import Expression
from sim.base.permissions import Permission
from sim.scenario import loads
from sim.scenario.loading import json_schema
from sim.world.section import (
    CallCondition,
    Condition,
    Duration,
    Entry,
    EventFilter,
    Formula,
    Json,
    Level,
    Name,
    Pattern,
    PositiveDuration,
    Range,
    Recipient,
    Topic,
    define_section,
)
from tests.registries import kept_registries


@attrs.frozen
class Shelf:
    """A shelf.

    Args:
        length: how long it is.
        label: what stands on it.
    """

    length: Annotated[int, Range(1, 10)]
    label: str = "misc"

    def __attrs_post_init__(self) -> None:
        if self.label == "poison":
            raise UsageError("no shelf holds poison", hint="use a safe")


@attrs.frozen
class LibrarySettings:
    """A library.

    Args:
        title: a text.
        seats: a whole number.
        heat: a number with bounds.
        open: true or false.
        order: one of two words.
        tags: a list.
        loans: a mapping.
        limit: a number or nothing.
        main: a nested class.
        others: a list of nested classes.
        rooms: a mapping of nested classes.
        every: a duration.
        after: a duration above 0.
        when: a condition.
        asks: a condition about a call.
        only: a filter of events.
        fee: a formula.
        level: a level.
        door: a name.
        hears: patterns.
        says: a topic.
        guard: an agent or group.
        staff: an entry.
        more: any value.
        plain: one that a validator of attrs checks.
    """

    title: str = "Public"
    seats: int = 4
    heat: Annotated[float, Range(least=0.5, most=1)] = 1.0
    open: bool = True
    order: Literal["name", "year"] = "name"
    tags: tuple[str, ...] = ()
    loans: Mapping[str, int] = attrs.field(factory=dict)
    limit: Annotated[int, Range(1)] | None = None
    main: Shelf = Shelf(1)
    others: tuple[Shelf, ...] = ()
    rooms: Mapping[str, Shelf] = attrs.field(factory=dict)
    every: Duration = 0
    after: PositiveDuration | None = None
    when: Condition | None = None
    asks: CallCondition | None = None
    only: EventFilter | None = None
    fee: Formula | None = None
    level: Level = Permission.USER
    door: Name = "front"
    hears: tuple[Pattern, ...] = ()
    says: Topic = "book.lent"
    guard: Recipient | None = None
    staff: Entry | None = None
    more: Json = None
    plain: int = attrs.field(default=1, validator=attrs.validators.ge(1))


class Reader(sim.Agent):
    async def decide_action(self) -> sim.Action:
        return sim.Action("stop")


@pytest.fixture(autouse=True)
def _library() -> Iterator[None]:
    """A section and a kind with these settings."""
    with kept_registries():
        define_section("library", LibrarySettings)
        define_family(Family("reader", Reader, settings=LibrarySettings))
        yield


def of_section(setting: str, *overrides: str) -> Any:
    """Read a setting of the section."""
    text = f"name: x\nlibrary:\n  {setting}\nagents: [{{name: ada}}]\n"
    return loads(text, overrides=overrides).sections["library"]


def of_kind(setting: str, *overrides: str) -> Any:
    """Read a setting of the kind."""
    text = f"name: x\nagents:\n- name: ada\n  kind: reader\n  settings:\n    {setting}\n"
    return loads(text, overrides=overrides).agents[0].settings


GOOD = [
    ("title: Old", "title", "Old"),
    ("seats: 9", "seats", 9),
    ("heat: 0.5", "heat", 0.5),
    ("heat: 1", "heat", 1.0),
    ("open: false", "open", False),
    ("order: year", "order", "year"),
    ("tags: [a, b]", "tags", ("a", "b")),
    ("loans: {a: 1}", "loans", {"a": 1}),
    ("limit: 3", "limit", 3),
    ("limit: null", "limit", None),
    ("main: {length: 3}", "main", Shelf(3)),
    ("others: [{length: 3}, {length: 4, label: maps}]", "others", (Shelf(3), Shelf(4, "maps"))),
    ("rooms: {left: {length: 2}}", "rooms", {"left": Shelf(2)}),
    ("every: 1m30s", "every", 90 * 10**9),
    ("every: 0.5", "every", 10**9 // 2),
    ("after: 2h", "after", 7200 * 10**9),
    ("after: null", "after", None),
    ("level: admin", "level", Permission.ADMIN),
    ("door: back_2-x", "door", "back_2-x"),
    ('hears: ["book.*", x]', "hears", ("book.*", "x")),
    ("says: a.b", "says", "a.b"),
    ("guard: ada", "guard", "ada"),
    ("staff: ada", "staff", "ada"),
    ("more: {a: [1, null, {b: true}]}", "more", {"a": [1, None, {"b": True}]}),
    ("plain: 2", "plain", 2),
]
EXPRESSIONS = [
    ("when: now > 5 and me == 'ada'", "when"),
    ("asks: tool == 'lend' and args.days > 3", "asks"),
    ("only: data.n > 1 and topic == 'a'", "only"),
    ("fee: args.days * 2", "fee"),
]
BAD = [
    ("title: 5", 0, "title: expected text, found 5"),
    ("seats: 1.5", 0, "seats: expected a whole number, found 1.5"),
    ("seats: yes please", 0, "seats: expected a whole number, found the text 'yes please'"),
    ("heat: 2", 0, "heat: expected a value of at most 1"),
    ("heat: 0", 0, "heat: expected a value of at least 0.5"),
    ("open: 1", 0, "open: expected true or false, found 1"),
    ("order: yeer", 0, "order: expected 'name' or 'year', found the text 'yeer'"),
    ("tags: a", 0, "tags: expected a list, found the text 'a'"),
    ("tags: [a, 5]", 4, "tags[1]: expected text, found 5"),
    ("loans: [1]", 0, "loans: expected a mapping, found a list"),
    ("loans: {a: x}", 4, "loans.a: expected a whole number, found the text 'x'"),
    ("limit: 0", 0, "limit: expected a value of at least 1, found 0"),
    ("main: 5", 0, "main: expected a mapping, found 5"),
    ("main: {}", 0, "main: the key 'length' is missing"),
    ("main: {length: 11}", 9, "main.length: expected a value of at most 10, found 11"),
    ("main: {length: 1, lable: x}", 12, "main.lable: unknown key 'lable'"),
    ("main: {length: 1, label: poison}", 0, "main: no shelf holds poison"),
    ("others: [{length: 1}, {length: 0}]", 23, "others[1].length: expected a value of at least 1, found 0"),
    ("rooms: {left: {length: x}}", 16, "rooms.left.length: expected a whole number, found the text 'x'"),
    ("every: soon", 0, "every: "),
    ("every: -1", 0, "every: "),
    ("after: 0", 0, "after: "),
    ("when: now >", 0, "when: "),
    ("when: nothing > 1", 0, "when: "),
    ("asks: balance > 1", 0, "asks: "),
    ("only: me2 == 1", 0, "only: "),
    ("fee: tool", 0, "fee: "),
    ("level: king", 0, "level: "),
    ("door: a b", 0, "door: "),
    ('hears: ["a..b"]', 1, "hears[0]: "),
    ("says: a*", 0, "says: "),
    ("guard: nobody", 0, "guard: "),
    ("staff: nobody", 0, "staff: "),
    ("plain: 0", 0, ": 'plain' must be >= 1: 0"),
    ("titel: x", None, "unknown key 'titel'"),
]


@pytest.mark.parametrize("read", [of_section, of_kind])
@pytest.mark.parametrize(("setting", "name", "value"), GOOD)
def test_each_type_is_read(read: Any, setting: str, name: str, value: Any) -> None:
    """A setting has the value of the file; the others have their defaults."""
    settings = read(setting)
    assert settings == attrs.evolve(LibrarySettings(), **{name: value})
    assert type(getattr(settings, name)) is type(value)


@pytest.mark.parametrize("read", [of_section, of_kind])
@pytest.mark.parametrize(("setting", "name"), EXPRESSIONS)
def test_expressions_are_read(read: Any, setting: str, name: str) -> None:
    """An expression is parsed with the names that its meaning allows."""
    found = getattr(read(setting), name)
    assert isinstance(found, Expression)
    assert found.text == setting.partition(": ")[2]


@pytest.mark.parametrize(("read", "line", "column"), [(of_section, 3, 3), (of_kind, 6, 5)])
@pytest.mark.parametrize(("setting", "offset", "words"), BAD)
def test_each_fault_has_one_problem_at_its_place(
    read: Any, line: int, column: int, setting: str, offset: int | None, words: str
) -> None:
    """A value that does not fit is named with its path, its line and its column."""
    with pytest.raises(ScenarioError) as caught:
        read(setting)
    (problem,) = caught.value.problems
    assert words in problem.message
    value = 0 if offset is None else len(setting.partition(": ")[0]) + 2 + offset
    if "must be" not in words:  # the class is refused as a whole there
        assert (problem.line, problem.column) == (line, column + value)


def test_all_faults_are_reported_at_once() -> None:
    """Settings with several faults have several problems."""
    with pytest.raises(ScenarioError) as caught:
        of_section("{seats: x, order: y, main: {length: 0}}")
    assert len(caught.value.problems) == 3


def test_a_misspelt_key_is_known_by_its_neighbour() -> None:
    """The hint names the nearest key."""
    with pytest.raises(ScenarioError) as caught:
        of_kind("main: {length: 1, lable: x}")
    assert caught.value.problems[0].hint == "did you mean 'label'?"


@pytest.mark.parametrize(
    ("read", "prefix"), [(of_section, "library"), (of_kind, "agents.ada.settings")], ids=["section", "kind"]
)
def test_single_settings_can_be_set(read: Any, prefix: str) -> None:
    """`--set` reaches every setting, and a fault in it is shown there."""
    found = read("seats: 2", f"{prefix}.seats=7", f"{prefix}.main.length=5", f"{prefix}.every=2m")
    assert (found.seats, found.main, found.every) == (7, Shelf(5), 120 * 10**9)
    with pytest.raises(ScenarioError, match=r"seats: expected a whole number, found the text 'x'") as caught:
        read("seats: 2", f"{prefix}.seats=x")
    assert caught.value.problems[0].file == "--set"


def test_a_section_that_is_null_is_absent() -> None:
    """`library: null` is as if it were not written; `library: {}` has all defaults."""
    assert loads("name: x\nlibrary: null\nagents: [{name: ada}]\n").sections == {}
    assert loads("name: x\nlibrary: {}\nagents: [{name: ada}]\n").sections == {"library": LibrarySettings()}


def test_a_section_is_defined_once() -> None:
    """A key belongs to one package, and its class is checked when it is defined."""
    with pytest.raises(UsageError, match="the section 'library' is already defined"):
        define_section("library", LibrarySettings)
    with pytest.raises(UsageError, match="must be a frozen attrs class"):
        define_section("archive", dict)
    define_section("seed", LibrarySettings)
    with pytest.raises(UsageError, match="the section 'seed' has the name of another key"):
        loads("name: x\nseed: 1\nagents: [{name: ada}]\n")


def _found_in_schema() -> list[Any]:
    """Return the JSON Schemas of the section and of the settings of the kind."""
    schema = json_schema()
    rules = schema["$defs"]["Agent"]["allOf"]
    (kind,) = [rule["then"] for rule in rules if rule["if"]["properties"]["kind"]["const"] == "reader"]
    return [schema["properties"]["library"], kind["properties"]["settings"]]


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["section", "kind"])
def test_the_schema_describes_every_setting(which: int) -> None:
    """`sim info schema` has the types, bounds, defaults and descriptions, so that an editor can help."""
    found = _found_in_schema()[which]
    properties = found["properties"]
    assert set(properties) == {attribute.name for attribute in attrs.fields(LibrarySettings)}
    assert all("description" in part for part in properties.values())
    assert found["additionalProperties"] is False
    seats, heat, order = (properties[name] for name in ("seats", "heat", "order"))
    assert (seats["type"], seats["default"], seats["description"]) == ("integer", 4, "a whole number")
    assert (heat["minimum"], heat["maximum"], order["enum"]) == (0.5, 1, ["name", "year"])
    assert properties["others"]["items"]["required"] == ["length"]
    assert properties["rooms"]["additionalProperties"]["properties"]["length"]["maximum"] == 10
    assert {"type": "null"} in properties["limit"]["anyOf"]
    assert properties["every"]["default"] == "0s"


@pytest.mark.slow
def test_the_schema_agrees_with_the_check() -> None:
    """What the check accepts is valid under the schema, and faults in types are not."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema())

    def valid(setting: Mapping[str, Any]) -> bool:
        entry = {"name": "ada", "kind": "reader", "settings": setting}
        return bool(validator.is_valid({"name": "x", "library": setting, "agents": [entry]}))

    assert valid({"seats": 3, "main": {"length": 2}, "order": "year", "every": "2m"})
    assert not valid({"seats": "x"})
    assert not valid({"main": {"length": 20}})
    assert not valid({"titel": "x"})

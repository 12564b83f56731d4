"""`sim new`: write a scenario to start from, small or of the gallery, or a small package of agents."""

import keyword
import re
import sys
from pathlib import Path

import click

from sim.base.errors import UsageError
from sim.cli.gallery import scenario_copy, scenario_names, scenario_text, scenario_title
from sim.cli.info.schema import schema_text, write_new
from sim.cli.render.output import PATH, common, plain, print_json
from sim.scenario.yaml_tree import read_tree

SCHEMA = "scenario.schema.json"
_PLACES = 12  # of the ring in a package


@click.command(
    "new",
    epilog="""Examples:

    \b
      sim new village
      sim run village.yaml
      sim new --list
      sim new --from contagion
      sim new outbreak --from contagion --dir studies
      sim new walkers --package
      pip install -e walkers
      sim run walkers:walk""",
)
@click.argument("name", required=False)
@click.option("--from", "source", metavar="SCENARIO", help="Copy this scenario of the gallery; NAME may be left out.")
@click.option("--list", "listed", is_flag=True, help="List the scenarios of the gallery, and write nothing.")
@click.option("--dir", "folder", type=PATH, default=Path(), metavar="DIR", help="Default: the current folder.")
@click.option("--package", is_flag=True, help="Write a Python package with agents, a scenario, a graph and tests.")
@common
def command(name: str | None, source: str | None, listed: bool, folder: Path, *, package: bool, as_json: bool) -> None:
    """Write NAME.yaml, a scenario with comments, and a JSON Schema for editors; or the folder NAME with a package.

    The scenario is a small village to start from, or with --from a copy of one that comes with sim.
    """
    if listed:
        if name or source or package:
            raise UsageError("--list writes nothing, so it takes neither NAME nor --from nor --package")
        _list(as_json)
        return
    name = _checked_name(name, source, package=package)
    if package:
        files = _write_package(folder / name, name)
        target = plain(folder / name)
        done = f"wrote {target}; install it: pip install -e {target}; run it: sim run {name}:walk"
    else:
        files = _write_scenario(folder, name, source)
        done = f"wrote {' and '.join(plain(file) for file in files)}; run it: sim run {plain(files[0])}"
    print_json({"files": files}) if as_json else click.echo(done)


def _checked_name(name: str | None, source: str | None, *, package: bool) -> str:
    """Return the name of what is written.

    Raises:
        UsageError: if there is none, it is not valid, or the gallery has no such scenario.
    """
    if source is not None:
        if package:
            raise UsageError("--from copies a scenario, and --package writes a package", hint="give one of them")
        scenario_text(source)  # a wrong --from is said first
        name = name or source
    if name is None:
        raise UsageError("the name of the scenario is missing", hint="sim new village, or sim new --from contagion")
    if not re.fullmatch("[a-z][a-z0-9_-]{0,63}", name):
        what = "package" if package else "scenario"
        raise UsageError(
            f"{name!r} is not a valid name of a {what}", hint="use a-z, 0-9, hyphens and underscores, a letter first"
        )
    return name


def _write_scenario(folder: Path, name: str, source: str | None) -> list[Path]:
    """Write a scenario, and the schema if the folder has none: all scenarios in a folder share one."""
    starter = Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")
    text = starter.replace("NAME", name) if source is None else scenario_copy(source, name)
    target, schema = folder / f"{name}.yaml", folder / SCHEMA
    write_new(target, text)
    if schema.exists():
        return [target]
    write_new(schema, schema_text())
    return [target, schema]


def _write_package(folder: Path, name: str) -> list[Path]:
    """Write the files of a package into a new folder."""
    module = name.replace("-", "_")
    taken = module == "sim" or keyword.iskeyword(module) or module in sys.stdlib_module_names
    if taken or name.endswith("-") or "--" in name:
        hint = "Python has something of this name" if taken else "write hyphens between words only"
        raise UsageError(f"{name!r} cannot be the name of a package", hint=hint)
    tree, problems = read_tree(Path(__file__).with_name("package.yaml").read_text(encoding="utf-8"), "package.yaml")
    assert not problems, problems
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}", hint="choose another name") from error
    files = []
    for path, text in tree.items():
        target = folder / path.replace("MODULE", module)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_new(target, text.replace("RING", _ring()).replace("MODULE", module).replace("NAME", name))
        files.append(target)
    return files


def _ring() -> str:
    """Return a ring of places as GraphML, with the lengths of its edges."""
    nodes = "".join(f'    <node id="{number}"/>\n' for number in range(_PLACES))
    edges = "".join(
        f'    <edge source="{number}" target="{(number + 1) % _PLACES}">'
        f'<data key="distance">{number % 3 + 1}</data></edge>\n'
        for number in range(_PLACES)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '  <key id="distance" for="edge" attr.name="distance" attr.type="double"/>\n'
        f'  <graph edgedefault="undirected">\n{nodes}{edges}  </graph>\n</graphml>\n'
    )


def _list(as_json: bool) -> None:
    """Print the scenarios of the gallery, each with what it shows."""
    titles = {name: scenario_title(name) for name in scenario_names()}
    if as_json:
        print_json({"scenarios": [{"name": name, "description": title} for name, title in titles.items()]})
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")
    click.echo("\ncopy one: sim new --from NAME")

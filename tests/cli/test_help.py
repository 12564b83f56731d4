import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import sim as package
from sim.cli import VERBS, verbs
from sim.cli.info import PARTS

HEAVY = ("pydantic", "anyio", "trio", "openai", "rich", "asyncio", "sqlite3", "msgspec")


@pytest.mark.parametrize("verb", [*VERBS, *(f"info {part}" for part in PARTS)])
def test_every_verb_shows_an_example(sim, verb):
    """The help of each verb says what it does and shows a command that uses it."""
    done = sim(*verb.split(), "--help")

    assert done.code == 0
    assert "Example" in done.out
    assert f"\n    sim {verb}" in done.out
    assert "--json" in done.out


def test_help_imports_nothing_heavy():
    """`sim --help` lists all verbs and imports none of the libraries that take time."""
    code = (
        "import sys\nfrom sim.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert all(f"  {verb} " in done.stdout for verb in VERBS)
    assert done.stdout.splitlines()[-1] == "[]"


def test_public_names_come_when_they_are_used():
    """Each name that `sim` promises can be had, and only those: the lazy table and `__all__` agree, but for two."""
    assert {*package.__all__, "open", "property"} == set(package._HOME)
    for name in package._HOME:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError):
        getattr(package, "nothing")  # noqa: B009 - mypy knows that it is not there
    assert set(package._HOME) <= set(dir(package))


ROOT = Path(__file__).parents[2]
LATE = sorted(
    str(path.parent.relative_to(ROOT)).replace("/", ".")
    for path in (ROOT / "sim").rglob("__init__.py")
    if "late_names(" in path.read_text()
)


@pytest.mark.parametrize("name", LATE)
def test_names_of_packages_come_when_they_are_used(name):
    """Each name of a package can be had and listed, `__all__` has it, and no module of it has the same name."""
    found = import_module(name)
    late = {word for words in found._HOMES.values() for word in words.split()}
    assert late <= set(found.__all__)
    assert late <= set(dir(found))
    assert not late & {path.stem for path in Path(str(found.__file__)).parent.glob("*.py")} - {
        "tool"
    }  # the same, both ways
    for word in late:
        getattr(found, word)


def test_version(sim):
    """`--version` prints the version of the package."""
    assert sim("--version").out == f"sim {package.__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"), [("rnu", "run"), ("exprot", "export"), ("lst", "list"), ("info scheme", "schema")]
)
def test_unknown_verb(sim, words, meant):
    """A verb that does not exist is wrong usage, also one within another, and the nearest one is named."""
    done = sim(*words.split())

    assert done.code == 2
    assert done.err == f"sim: error: unknown command {words.split()[-1]!r}\nhint: did you mean {meant}?\n"


def test_unknown_option(sim):
    """An option that does not exist is wrong usage, and the nearest one is named."""
    done = sim("run", "x.yaml", "--seeed", "3")

    assert done.code == 2
    assert "hint: did you mean --seed?" in done.err


def test_no_verb(sim):
    """Without a verb the help is shown, and the exit code says that something is missing."""
    done = sim()

    assert (done.code, done.out) == (2, "")
    assert "Usage: sim" in done.err


def test_an_option_means_one_thing(sim):
    """`--out` is the folder of the runs in each verb that has it, and `--to` what is written."""
    context = click.Context(verbs)
    commands = ((verb, verbs.get_command(context, verb)) for verb in verbs.list_commands(context))
    options = [(verb, option) for verb, known in commands if known is not None for option in known.params]
    assert {getattr(option, "help", None) for _, option in options if "--out" in option.opts} == {
        "The folder of the runs."
    }
    assert {"sweep", "bench", "branch"} <= {verb for verb, option in options if "--to" in option.opts}

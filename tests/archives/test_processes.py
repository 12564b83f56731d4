"""What processes get that run the code of an archive: variables from a list, an empty folder, and an end."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

import sim
from sim.archives import archive_experiment, archive_run, check_archive, repeat
from sim.archives.processes import MOST_OUTPUT, building_variables, fetching_variables, run, running_variables
from sim.base.errors import RunError

SECRETS = {
    "OPENAI_API_KEY": "sk-1", "AWS_SECRET_ACCESS_KEY": "s", "GITHUB_TOKEN": "s", "SSH_AUTH_SOCK": "/s",
    "DATABASE_URL": "postgres://u:s@h", "UV_PUBLISH_TOKEN": "s", "PYTHONPATH": "/s", "PYTHONSTARTUP": "/s",
    "VIRTUAL_ENV": "/s", "LD_PRELOAD": "", "SIM_ANYTHING": "s", "MY_LAB_PASSWORD": "s",
}  # fmt: skip
"""Variables that no process of an archive may get."""

INDEXES = {
    "UV_INDEX_URL": "https://user:secret@packages.example/simple", "UV_INDEX_LAB_PASSWORD": "s",
    "PIP_INDEX_URL": "https://packages.example/simple", "HTTPS_PROXY": "http://proxy.example:3128",
}  # fmt: skip
"""Variables by which packages are fetched."""

SCENARIO = """
name: spied
until: 2m
agents:
  - {name: spy, kind: "spies:Spy"}
metrics: {every: 1m, values: {seen: "published('seen')"}}
"""
SPIES = """
import json, os, sys, sim

with open({seen!r}, "a") as stream:
    stream.write(json.dumps([dict(os.environ), os.getcwd(), os.listdir()]) + "\\n")

class Spy(sim.Agent):
    async def decide_action(self):
        self.loop.sleep(sim.WakeCondition.after_delay(30.0))
        return sim.Action("publish", {{"topic": "seen"}})
"""
INSTALLER = """#!{python}
# Stands for uv: makes a real environment, and lets it have what this one has, instead of fetching packages.
import json, os, subprocess, sys
with open({asked!r}, "a") as stream:
    stream.write(json.dumps([dict(os.environ), os.getcwd(), os.listdir()]) + "\\n")
words = sys.argv[1:]
if words[0] == "venv":
    subprocess.run([{python!r}, "-I", "-m", "venv", "--without-pip", words[-1]], check=True)
if words[:2] == ["pip", "install"]:
    if "--no-build" in words:
        sys.exit("one has no wheel")
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([words[words.index("-p") + 1], "-c", program], capture_output=True, text=True, check=True)
    with open(done.stdout.strip() + "/all.pth", "w") as stream:
        stream.write({paths!r})
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a scenario whose agents tell what they see."""
    (tmp_path / "spies.py").write_text(SPIES.format(seen=str(tmp_path / "seen")))
    (tmp_path / "spied.yaml").write_text(SCENARIO)
    (tmp_path / "bin").mkdir()
    paths = "".join(f"{path}\n" for path in sys.path if path and path != str(tmp_path))
    uv = tmp_path / "bin" / "uv"
    uv.write_text(INSTALLER.format(python=sys.executable, asked=str(tmp_path / "asked"), paths=paths))
    uv.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("spies", None)


def lines(path: Path) -> list[tuple[dict[str, str], str, list[str]]]:
    """Return what processes have seen: their variables, their folder, and what is in it."""
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="programs that begin with #!")
@pytest.mark.parametrize("kind", ["run", pytest.param("experiment", marks=pytest.mark.proof)])
def test_code_of_an_archive_gets_no_key_and_no_folder(folder, kind):
    """What is repeated, also in its worker processes, and what installs it get listed variables alone, and start in an
    empty folder that is not in the archive. The code has a home of its own; an installer that builds has no password.
    """
    archive = folder / "x.zip"
    if kind == "run":
        made = sim.run(folder / "spied.yaml", allow=("spies",), out=folder / "runs").run
        assert made is not None
        archive_run(made, archive)
    else:
        sim.sweep(folder / "spied.yaml", seeds=2, out=folder / "study", allow=("spies",))
        archive_experiment(folder / "study", archive)
    (folder / "seen").unlink()
    checked = check_archive(archive, folder / "in")
    (folder / "in" / "uv.toml").write_text("this would be an error of uv")
    (folder / "in" / "environment").mkdir()
    own = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **SECRETS, **INDEXES}
    assert repeat(folder / "in", checked.replay, None, own).same
    seen, asked = lines(folder / "seen"), lines(folder / "asked")
    for variables, place, content in seen:
        assert variables.keys() - {"LC_CTYPE"} == {"PATH", "LC_ALL", "HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"}
        assert not content
        assert not Path(place).is_relative_to(folder / "in")
        assert variables["HOME"] != own["HOME"]
        assert not Path(variables["HOME"]).exists()  # it was removed
    assert len(asked) == 4
    for variables, place, content in asked:
        assert not variables.keys() & SECRETS.keys()
        assert (variables["HOME"], variables["UV_NO_CONFIG"]) == (own["HOME"], "1")
        assert not content
        assert not Path(place).is_relative_to(folder / "in")
    wheels, builds = asked[-2][0], asked[-1][0]
    assert wheels.items() >= INDEXES.items()
    assert builds.keys() & INDEXES.keys() == {"PIP_INDEX_URL", "HTTPS_PROXY"}  # without what has a password


def test_variables_are_those_of_a_list(tmp_path):
    """No variable passes that is not listed, and a password only to what runs no code of others."""
    own = {**SECRETS, **INDEXES, "PATH": "/bin", "LC_TIME": "C", "NEVER_HEARD_OF": "1", "UV_NO_CONFIG": "1"}
    assert running_variables(own, tmp_path).keys() == {
        "PATH",
        "LC_TIME",
        "HOME",
        "USERPROFILE",
        "TMPDIR",
        "TEMP",
        "TMP",
    }
    assert fetching_variables(own).keys() == {"PATH", "LC_TIME", "UV_NO_CONFIG", *INDEXES}
    assert "secret" not in str(building_variables(own))


@pytest.mark.skipif(sys.platform == "win32", reason="uv looks elsewhere on Windows")
def test_uv_takes_the_settings_of_its_user_alone(tmp_path):
    """The file that the user names or has in his home is given to uv; no other is looked for in folders."""
    home = tmp_path / "home" / ".config" / "uv"
    home.mkdir(parents=True)
    assert (
        fetching_variables({"HOME": str(tmp_path / "other"), "XDG_CONFIG_DIRS": str(tmp_path)})["UV_NO_CONFIG"] == "1"
    )
    (home / "uv.toml").touch()
    assert fetching_variables({"HOME": str(tmp_path / "home")})["UV_CONFIG_FILE"] == str(home / "uv.toml")
    (tmp_path / "own.toml").touch()
    named = {"HOME": str(tmp_path / "home"), "UV_CONFIG_FILE": str(tmp_path / "own.toml")}
    assert fetching_variables(named)["UV_CONFIG_FILE"] == str(tmp_path / "own.toml")


def test_a_process_ends_with_its_group(tmp_path):
    """What a command has started and left is killed when it ends, and does not keep its outputs open."""
    program = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(p.pid)"
    )
    done = run([sys.executable, "-c", program], tmp_path, {}, 60.0)
    assert done.code == 0
    deadline = time.monotonic() + 10
    while Path(f"/proc/{done.stdout.strip()}").exists() and time.monotonic() < deadline:
        if "\nState:\tZ" in Path(f"/proc/{done.stdout.strip()}/status").read_text():
            break
        time.sleep(0.01)
    assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import time; time.sleep(600)", "it took longer than 0.5 s"),
        ("while True: print('x' * 10000)", f"it printed more than {MOST_OUTPUT:,} bytes"),
        ("import sys\nwhile True: sys.stderr.write('x' * 10000)", f"it printed more than {MOST_OUTPUT:,} bytes"),
    ],
)
def test_a_process_is_bounded(tmp_path, program, sentence):
    """A command that does not end, or prints without end, is killed, and one sentence says so."""
    seconds = 0.5 if "sleep" in program else 60.0
    with pytest.raises(RunError, match=sentence):
        run([sys.executable, "-c", program], tmp_path, {"PATH": os.defpath}, seconds)

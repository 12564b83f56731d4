"""Schelling's model on the page of `sim play` and in SolaraViz of Mesa: lines to write, seconds to the first picture.

    uv run python -m benchmarks.play_peers [PYTHON [TIMES [FOLDER]]]

PYTHON is that of an environment with SolaraViz and with the files that its page would load from the network:

    uv venv /tmp/solara
    uv pip install --python /tmp/solara/bin/python "mesa[viz]==3.3.1" networkx \\
        "solara==1.58.2" "solara-assets==1.58.2" "ipyvuetify<2"

Without it, `sim` alone is measured. FOLDER gets a screenshot of each first picture. Mesa's model is the one that it
comes with (`mesa.examples.basic.schelling`), of 20 by 20 places as well, once on the page that it comes with, where
people are picture files, and once on the shortest page that draws them as circles. A line counts if it has code: no
empty line, comment or docstring. A time goes from the command to the moment at which a real Chromium, which was
started before, has drawn the people. The first start of each is not counted, since it compiles bytecode.
"""

import ast
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Final

import attrs

from tests.viewer.browser import Browser

_SCENARIO: Final = Path("scenarios/schelling.yaml")
_EXAMPLE: Final = "examples/basic/schelling"
_FILES: Final = ("agents.py", "model.py", "app.py")
SIM: Final = "sim play"
CIRCLES: Final = "SolaraViz, circles"
SHIPPED: Final = "SolaraViz, its example"
_LONGEST: Final = 120.0  # real seconds to the first picture, at most
_CIRCLES: Final = """
from mesa.examples.basic.schelling.model import Schelling
from mesa.visualization import Slider, SolaraViz, SpaceRenderer, make_plot_component
from mesa.visualization.components import AgentPortrayalStyle


def portrayal(agent):
    return AgentPortrayalStyle(color="tab:red" if agent.type else "tab:blue")


model = Schelling()
renderer = SpaceRenderer(model, backend="matplotlib")
renderer.render(agent_portrayal=portrayal)
page = SolaraViz(
    model,
    renderer,
    components=[make_plot_component({"happy": "tab:green"})],
    model_params={"homophily": Slider("Homophily", 0.4, 0.0, 1.0, 0.05), "width": 20, "height": 20},
)
"""


@attrs.frozen
class Page:
    """A page that is measured.

    Attributes:
        name: what it is called in the table.
        command: what starts it; it gets a port.
        shown: an expression on the page that is true as soon as it has drawn the people.
        says_where: whether the command prints the address. Otherwise it is that of the port.
    """

    name: str
    command: tuple[str, ...]
    shown: str
    says_where: bool = False


def lines(text: str, *, python: bool) -> int:
    """Return how many lines of a text have code."""
    left: set[int] = set()
    if python:
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(end)):
                    left.update(range(node.lineno, end + 1))
                case _:
                    pass
    rows = enumerate(text.splitlines(), 1)
    return sum(bool(row.strip()) and not row.strip().startswith("#") and at not in left for at, row in rows)


def written() -> dict[str, int]:
    """Return how many lines were written for each page; those for Mesa are in the environment of this process."""
    mesa = resources.files("mesa")
    agents, model, app = (mesa.joinpath(_EXAMPLE, name).read_text(encoding="utf-8") for name in _FILES)
    behaviour = lines(agents, python=True) + lines(model, python=True)
    return {
        SIM: lines(_SCENARIO.read_text(encoding="utf-8"), python=False),
        CIRCLES: behaviour + lines(_CIRCLES, python=True),
        SHIPPED: behaviour + lines(app, python=True),
    }


def pages(python: str | None, home: Path) -> list[Page]:
    """Return what is measured.

    Args:
        python: the Python of an environment with SolaraViz; None: only `sim`.
        home: a folder for files that are made.
    """
    play = (sys.executable, "-m", "sim", "play", str(_SCENARIO), "--no-browser", "--out", f"{home}/runs", "--port")
    drawn = "Number(document.querySelector('canvas.map')?.dataset.drawn || 0) > 0"
    found = [Page(SIM, play, drawn, says_where=True)]
    if python is None:
        return found
    circles = home / "circles.py"
    circles.write_text(_CIRCLES, encoding="utf-8")
    image = "[...document.querySelectorAll('img.widget-image')].some((one) => one.complete && one.naturalWidth > 0)"
    for name, app in ((CIRCLES, circles), (SHIPPED, _folder(python) / _EXAMPLE / "app.py")):
        command = (python, "-m", "solara", "run", str(app), "--production", "--no-open", "--port")
        found.append(Page(name, command, image))
    return found


def _folder(python: str) -> Path:
    """Return the folder of Mesa in the environment of a Python."""
    script = "import mesa, solara; print(mesa.__path__[0])"
    asked = subprocess.run((python, "-c", script), capture_output=True, text=True, check=True, env=_variables())
    return Path(asked.stdout.strip())


def _variables() -> dict[str, str]:
    """Return the variables of the processes: without the environment of this one, and so that bytecode is kept."""
    left = ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in left}


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def seconds(page: Page, picture: Path | None) -> float:
    """Return the real seconds from the command of a page to its first picture."""
    port = _free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, Browser(Path(home)) as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=1, mobile=False)
        begun = time.monotonic()
        with subprocess.Popen(
            (*page.command, str(port)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=_variables(), start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                url = process.stdout.readline().split()[-1] if page.says_where else f"http://127.0.0.1:{port}"
                while not _listens(port):
                    _check(page, process, begun)
                    time.sleep(0.02)
                browser.call("Page.navigate", url=url)
                while not browser.evaluate(page.shown):
                    _check(page, process, begun)
                    time.sleep(0.02)
                found = time.monotonic() - begun
                if picture is not None:
                    browser.picture(picture)
                return found
            finally:
                os.killpg(process.pid, signal.SIGTERM)


def _check(page: Page, process: "subprocess.Popen[str]", begun: float) -> None:
    """End with a sentence if there will be no picture."""
    if process.poll() is not None:
        raise SystemExit(f"the command has ended with {process.returncode}: {page.command}")
    if time.monotonic() - begun > _LONGEST:
        raise SystemExit(f"no picture within {_LONGEST:g} s: {page.command}")


def main(python: str | None, times: int, folder: Path | None) -> None:
    """Measure all in turn, and print the lines and the medians."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        measured = pages(python, Path(home))
        found: dict[str, list[float]] = {page.name: [] for page in measured}
        for turn in range(times + 1):
            for page in measured:
                picture = None if folder is None else folder / f"{page.name.replace(', ', '-').replace(' ', '-')}.png"
                took = seconds(page, picture)
                if turn:
                    found[page.name].append(took)
    counted = written()
    for name, times_taken in found.items():
        each = " ".join(f"{took:.1f}" for took in times_taken)
        print(f"{name:24} {counted[name]:3} lines  {statistics.median(times_taken):4.1f} s (median of {each})")
    if python is None:
        print("SolaraViz was not measured: give the Python of an environment that has it")


if __name__ == "__main__":
    given = [*sys.argv[1:], *[""] * 3]
    main(given[0] or None, int(given[1] or 5), Path(given[2]) if given[2] else None)

"""The page of a view as one HTML file.

Texts of agents and scenarios are not trusted. They are in compressed blocks and in JSON, never in markup, and the
script makes text nodes of them. The policy of the page has the hashes of its own script and style, so no other script
runs and nothing is loaded.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.pages import document, embedded, shared_script
from sim.inspect.viewer.blocks import PageBlocks
from sim.inspect.viewer.view import View
from sim.record import StoredRun
from sim.record.page_file import page_file
from sim.runner.prompts import RepeatedPrompt

VIEW: Final = "view.html"
"""The name of the page in the folder of its run."""

_LIBRARIES: Final = ("d3-dispatch", "d3-quadtree", "d3-timer", "d3-force", "uplot")
_SCRIPTS: Final = (
    "data.js", "moment.js", "find.js", "controls.js", "layout.js", "map.js", "charts.js", "scrubber.js", "event.js",
    "agents.js", "chat.js", "events.js", "calls.js", "search.js", "main.js",
)  # fmt: skip
MARK: Final = "<!-- blocks -->"
_BODY: Final = (
    '<div id="page"></div>\n'
    f"<noscript><p>This page needs JavaScript. It loads nothing from the network.</p></noscript>\n{MARK}"
)


@attrs.frozen
class WrittenView:
    """A page that was written: its file, and the numbers of its events and chunks."""

    file: Path
    events: int
    chunks: int


def write_view(
    stored: StoredRun, target: Path | None = None, *, force: bool = False,
    repeated: Mapping[int, RepeatedPrompt] | None = None,
) -> WrittenView:  # fmt: skip
    """Write the page of a run as one HTML file, readable by its owner only.

    Args:
        stored: the run. It can still be running; then the page has what is on record now.
        target: the file; None: `view.html` in the run folder, which is replaced.
        force: whether to replace the target if it exists.
        repeated: requests and answers of models in the core, which a replay has repeated; None: they are left out.

    Raises:
        UsageError: if the target exists, or is in the folder of another run.
        RunError: if the run is damaged, or the file cannot be written.
    """
    head, tail = shell(stored, follows=False).split(MARK)
    with page_file(stored.path, VIEW, target, suffix=".view.html", force=force) as (file, draft):
        draft.write(head)
        view = View(stored, PageBlocks(draft))
        view.read(stored)
        view.calls.repeat(stored, repeated or {})
        draft.write(about_element(view.about()))
        draft.write(tail)
    return WrittenView(file, view.chunks.events, len(view.chunks.table))


def shell(stored: StoredRun, *, follows: bool) -> str:
    """Return the page without data.

    Args:
        stored: the run.
        follows: whether a server has the data.
    """
    style, script = _resources()
    title = f"{stored.info.name} (seed {stored.info.seed}): view"
    return document(
        title, _BODY, style=style, script=script, connects=follows, alerts=stored.integrity.told_in(stored.path)
    )


def about_element(about: Mapping[str, Any]) -> str:
    """Return the data from `View.about` as an element of the page."""
    return f'<script type="application/json" id="about">{embedded(about)}</script>'


@cache
def _resources() -> tuple[str, str]:
    """Return the style and the script of the page, with the libraries in it."""
    folder = files("sim.inspect.viewer") / "web"
    vendor = folder / "vendor"
    libraries = "\n".join((vendor / f"{name}.min.js").read_text(encoding="utf-8") for name in _LIBRARIES)
    scripts = shared_script() + "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    style = (vendor / "uplot.min.css").read_text(encoding="utf-8") + (folder / "style.css").read_text(encoding="utf-8")
    return style, f'{libraries}\n(() => {{\n"use strict";\n{scripts}}})();\n'

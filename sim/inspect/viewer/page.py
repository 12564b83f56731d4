"""The page of a view as one HTML file.

Texts of agents and scenarios are not trusted. They are in compressed blocks and in JSON, never in markup, and the
script makes text nodes of them. The policy of the page has the hashes of its own script and style, so no other script
runs and nothing is loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal, TextIO

import attrs

from sim.base.pages import document, embedded
from sim.inspect.viewer.blocks import NoBlocks, PageBlocks, PageTooLarge
from sim.inspect.viewer.overview import Overview
from sim.inspect.viewer.section import Section
from sim.inspect.viewer.sections import sections
from sim.inspect.viewer.view import View
from sim.kernel.codec import JsonObject, encode
from sim.record import StoredRun
from sim.record.page_file import page_file
from sim.runner.prompts import RepeatedPrompt

VIEW: Final = "view.html"
"""The name of the page in the folder of its run."""

_LIBRARIES: Final = ("d3-dispatch", "d3-quadtree", "d3-timer", "d3-force", "uplot")
REPORT: Final = "report.html"
"""The name of the page that opens at the overview."""

_FIRST: Final = ("elements", "data", "moment", "find", "controls", "lanes", "plot", "replays")
_LAST: Final = "main"
"""The scripts that others need when they are read, and the one that needs all others."""

Opens = Literal["agents", "overview"]
"""The tab with which a page opens."""


@attrs.frozen
class Extra:
    """What a page has beside the view of a run.

    Attributes:
        style, script: added to those of the page.
        about: returns data that is added to that of the run.
    """

    style: str
    script: str
    about: Callable[[], JsonObject]


MARK: Final = "<!-- blocks -->"
_BODY: Final = (
    '<div id="page"></div>\n'
    f"<noscript><p>This page needs JavaScript. It loads nothing from the network.</p></noscript>\n{MARK}"
)


@attrs.frozen
class WrittenView:
    """A page that was written.

    Attributes:
        file: its file.
        events, chunks: how many of them it has.
        whole: whether it has the events. Otherwise it would have been too large, and it has the overview alone.
    """

    file: Path
    events: int
    chunks: int
    whole: bool


def write_view(
    stored: StoredRun,
    target: Path | None = None,
    *,
    force: bool = False,
    repeated: Mapping[int, RepeatedPrompt] | None = None,
    opens: Opens = "agents",
    kinds: Sequence[type[Section]] | None = None,
) -> WrittenView:
    """Write the page of a run as one HTML file, readable by its owner only.

    Args:
        stored: the run. It can still be running; then the page has what is on record now.
        target: the file; None: `view.html` in the run folder, or `report.html` if it opens at the overview. That is
            replaced.
        force: whether to replace the target if it exists.
        repeated: requests and answers of models in the core, which a replay has repeated; None: they are left out.
        opens: the tab with which it opens. A page that opens at the overview is written without the events if it would
            be too large with them.
        kinds: the sections of the overview; by default those of `sim`.

    Raises:
        UsageError: if the target exists, or is in the folder of another run.
        RunError: if the run is damaged, or the file cannot be written.
    """
    kinds = sections() if kinds is None else tuple(kinds)
    name, suffix = (VIEW, ".view.html") if opens == "agents" else (REPORT, ".html")

    def write(*, whole: bool) -> WrittenView:
        with page_file(stored.path, name, target, suffix=suffix, force=force) as (file, draft):
            return _write(stored, file, draft, repeated or {}, opens, kinds, whole=whole)

    try:
        return write(whole=True)
    except PageTooLarge:
        if opens == "agents":
            raise
    return write(whole=False)


def _write(
    stored: StoredRun,
    file: Path,
    draft: TextIO,
    repeated: Mapping[int, RepeatedPrompt],
    opens: Opens,
    kinds: Sequence[type[Section]],
    *,
    whole: bool,
) -> WrittenView:
    head, tail = shell(stored, kinds, follows=False, opens=opens).split(MARK)
    draft.write(head)
    blocks, overview = PageBlocks(draft), Overview(stored, kinds)
    view = View(stored, blocks, blocks if whole else NoBlocks())
    view.read(stored, overview.folds)
    view.calls.repeat(stored, repeated)
    about = {**view.about(), "overview": blocks.add(encode(overview.to_json())), "opens": opens, "whole": whole}
    if not whole:
        about |= {"chunks": [], "calls": [], "parts": []}
    draft.write(about_element({**about, "tabs": tabs(kinds)}))
    draft.write(tail)
    return WrittenView(file, view.chunks.events, len(view.chunks.table), whole)


def tabs(kinds: Sequence[type[Section]]) -> list[tuple[str, str]]:
    """Return the name and the title of each section that is a tab of its own."""
    return [(kind.name(), kind.title) for kind in kinds if kind.tab]


def shell(
    stored: StoredRun,
    kinds: Sequence[type[Section]],
    *,
    follows: bool,
    opens: Opens = "agents",
    more: Extra | None = None,
) -> str:
    """Return the page without data.

    Args:
        stored: the run.
        kinds: the sections of the overview.
        follows: whether a server has the data.
        opens: the tab with which it opens.
        more: what it has beside the view.
    """
    style, script = _resources(tuple(kinds), "" if more is None else more.script)
    style += "" if more is None else more.style
    title = f"{stored.info.name} (seed {stored.info.seed}): {'view' if opens == 'agents' else 'report'}"
    return document(
        title, _BODY, style=style, script=script, connects=follows, alerts=stored.integrity.told_in(stored.path)
    )


def about_element(about: JsonObject) -> str:
    """Return the data from `View.about` as an element of the page."""
    return f'<script type="application/json" id="about">{embedded(about)}</script>'


@cache
def _resources(kinds: tuple[type[Section], ...], more: str) -> tuple[str, str]:
    """Return the style and the script of the page, with the libraries in it, and more before its last part.

    The script of a section is a block, so that its names are its own.
    """
    package = files("sim.inspect.viewer")
    web, vendor = package / "web", package / "web" / "vendor"
    libraries = [(vendor / f"{name}.min.js").read_text(encoding="utf-8") for name in _LIBRARIES]
    core, others = _scripts(web), [*_scripts(package / "tabs").values()]
    first, last = [core.pop(name) for name in _FIRST], core.pop(_LAST)
    drawn = [f"{{\n{kind.script}}}\n" for kind in kinds]
    script = "\n".join(
        [*libraries, '(() => {\n"use strict";', *first, *core.values(), *others, *drawn, more, last, "})();\n"]
    )
    styles = (vendor / "uplot.min.css", web / "style.css", web / "overview.css")
    return "".join(style.read_text(encoding="utf-8") for style in styles), script


def _scripts(folder: Traversable) -> dict[str, str]:
    """Return the scripts in a folder by name, in the order of the names."""
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".js")), key=lambda file: file.name)
    return {file.name.removesuffix(".js"): file.read_text(encoding="utf-8") for file in files}

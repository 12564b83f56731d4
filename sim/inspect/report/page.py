"""The report as one HTML file: data, style and script, with a content security policy.

Text of agents and scenarios is not trusted. It is only inside the JSON, in which `<`, `>` and `&` are escaped as
`\\u003c` and so on; control characters and bidirectional formatting characters are escaped, too. The script turns text
into text nodes, never into markup. As a second protection, the policy of the page contains the hashes of its own script
and style, so that no other script runs and nothing is loaded from the network.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sim.base.pages import document, embedded, shared_script
from sim.base.text import plain
from sim.inspect.report.collect import collect
from sim.record import StoredRun
from sim.record.page_file import page_file

REPORT = "report.html"
"""The name of the report in the folder of its run."""

_SCRIPTS = ("basics.js", "charts.js", "agents.js", "graph.js", "surveys.js", "page.js")

_BODY = """<main id="page"></main>
<noscript><p>This report needs JavaScript. It loads nothing from the network.</p></noscript>
<script type="application/json" id="data">{data}</script>"""


def write_report(stored: StoredRun, target: Path | None = None, *, force: bool = False) -> Path:
    """Write the report of a run as one HTML file, readable by its owner only, and return its path.

    Args:
        stored: the run.
        target: the file; None: `report.html` in the run folder, which is replaced; of a run in an archive, a new file
            beside it.
        force: whether to replace the target if it exists.

    Raises:
        UsageError: if the target exists, or is in the folder of another run.
        RunError: if the run is damaged, or the file cannot be written.
    """
    text = render(collect(stored), stored.integrity.told_in(stored.path))
    with page_file(stored.path, REPORT, target, suffix=".html", force=force) as (file, draft):
        draft.write(text)
    return file


def render(data: Mapping[str, Any], alerts: Iterable[str] = ()) -> str:
    """Return the page for the data from `collect`, with red lines for what is wrong with the record."""
    style, script = _resources()
    run = data["run"]
    title = f"{run['name']} (seed {run['seed']}): report"
    body = _BODY.format(data=embedded(_harmless(data)))
    return document(title, body, style=style, script=script, alerts=alerts)


def _harmless(value: Any) -> Any:
    """Escape characters that are not printable, and replace NaN and infinities by null."""
    match value:
        case str():
            return plain(value)
        case Mapping():
            return {plain(key): _harmless(part) for key, part in value.items()}
        case list() | tuple():
            return [_harmless(part) for part in value]
        case float() if not math.isfinite(value):
            return None
    return value


@cache
def _resources() -> tuple[str, str]:
    """Return the style and the script of the report."""
    folder = files("sim.inspect.report") / "web"
    scripts = shared_script() + "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return (folder / "style.css").read_text(encoding="utf-8"), f'(() => {{\n"use strict";\n{scripts}}})();\n'

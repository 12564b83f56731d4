"""The report as one HTML file: data, style and script, with a content security policy.

Text of agents and scenarios is not trusted. It is only inside the JSON, in which `<`, `>` and `&` are escaped as
`\\u003c` and so on; control characters and bidirectional formatting characters are escaped, too. The script turns text
into text nodes, never into markup. As a second protection, the policy of the page contains the hashes of its own script
and style, so that no other script runs and nothing is loaded from the network.
"""

import json
import math
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sim.errors import UsageError
from sim.pages import document
from sim.report.collect import collect
from sim.store import StoredRun
from sim.store.archive import archive_of
from sim.store.files import DATABASE, failure
from sim.text import plain

REPORT = "report.html"
"""The name of the report in the folder of its run."""

_SCRIPTS = ("basics.js", "charts.js", "agents.js", "graph.js", "page.js")

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
    archive = archive_of(stored.path)
    own = stored.path / REPORT if archive is None else archive.with_suffix(".html")
    file = own if target is None else target
    if archive is not None or file.resolve() != own.resolve():
        if (file.parent / DATABASE).exists():
            raise UsageError(f"{file} is in the folder of a run", hint=f"choose another folder, or {own}")
        if file.exists() and not force:
            raise UsageError(f"{file} exists", hint="choose another name, or replace the file with --force")
    text = render(collect(stored))
    try:
        with tempfile.TemporaryDirectory(prefix=".report-", dir=file.parent) as folder:
            draft = Path(folder) / "draft"
            draft.touch(0o600)
            draft.write_text(text, encoding="utf-8")
            draft.replace(file)
    except OSError as error:
        raise failure(file, error) from error
    return file


def render(data: Mapping[str, Any]) -> str:
    """Return the page for the data from `collect`."""
    style, script = _resources()
    run = data["run"]
    title = f"{run['name']} (seed {run['seed']}): report"
    return document(title, _BODY.format(data=_embedded(data)), style=style, script=script)


def _embedded(data: Mapping[str, Any]) -> str:
    """Return data as JSON for HTML: ASCII only, without characters that are special in HTML."""
    text = json.dumps(_harmless(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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
    folder = files("sim.report") / "web"
    scripts = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return (folder / "style.css").read_text(encoding="utf-8"), f'(() => {{\n"use strict";\n{scripts}}})();\n'

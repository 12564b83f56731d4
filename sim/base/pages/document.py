"""A page as one HTML file, with its style and script."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sim.base.text import plain

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="sim">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{alerts}{body}
</body>
</html>
"""


def document(
    title: str, body: str, *, style: str = "", script: str = "", connects: bool = False, alerts: Iterable[str] = ()
) -> str:
    """Return a page.

    Its content security policy contains the hashes of its own style and script. No other script runs, and nothing is
    loaded from the network.

    Args:
        title: any text; it is escaped.
        body: HTML; the caller must escape text that is not trusted.
        style: CSS in addition to the common style.
        script: JavaScript for the end of the body; empty: the policy allows no script.
        connects: whether the script may ask the server of the page.
        alerts: what is wrong with the record that the page is about, any text: a red line each, above all else.
    """
    style = _base() + style
    sources = [f"style-src {_source(style)}"]
    if script:
        sources.append(f"script-src {_source(script)}")
        body += f"\n<script>{script}</script>"
    if connects:
        sources.append("connect-src 'self'")
    policy = "; ".join(["default-src 'none'", *sources, "base-uri 'none'", "form-action 'none'"])
    red = "".join(f'<p class="alert" role="alert">{html.escape(plain(one))}</p>\n' for one in alerts)
    return _PAGE.format(policy=policy, title=html.escape(plain(title)), style=style, alerts=red, body=body)


def embedded(data: Any) -> str:
    """Return data as JSON for an element of a page: ASCII only, without characters that are special in HTML.

    Raises:
        ValueError: if it has a number that is not finite.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def light_colours() -> Mapping[str, str]:
    """Return the colours of pages on a light screen, by name; for images, which have no style sheet."""
    return dict(re.findall(r"--([\w-]+): (#\w+)", _base().partition("@media")[0]))


@cache
def _base() -> str:
    return (files("sim.base.pages") / "base.css").read_text(encoding="utf-8")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

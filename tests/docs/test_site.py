"""The documentation site: it builds without a warning, is complete, and needs no network."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import sim
from sim.cli import VERBS

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
LOADING = {"src", "srcset", "data", "poster", "action"}  # attributes whose address a browser loads, or sends to


class _Page(HTMLParser):
    """The addresses and the anchors of one page.

    Attributes:
        loads: addresses that a browser loads together with the page.
        links: addresses that a reader can follow.
        anchors: what a link into the page can name.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Sort the attributes of a tag."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif value and (name in LOADING or (name == "href" and tag == "link")):
                self.loads.append(value)
            elif name == "href" and value:
                self.links.append(value)


def pages(site: Path) -> dict[Path, _Page]:
    """Return the pages of a site by path."""
    return {path.resolve(): _Page(path) for path in sorted(site.rglob("*.html"))}


def broken_links(site: Path) -> Iterator[str]:
    """Yield every link, and every loaded address, that leads to a file or an anchor that the site does not have."""
    known = pages(site)
    for path, page in known.items():
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in known and anchor not in known[target].anchors):
                yield f"{path.relative_to(site.resolve())}: {address}"


def loaded_from_outside(site: Path) -> Iterator[str]:
    """Yield every address outside the site that a page or a style sheet loads."""
    for path, page in pages(site).items():
        for address in page.loads:
            if urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data"):
                yield f"{path.name}: {address}"
    for path in (*site.rglob("*.css"), *site.rglob("*.html"), *site.rglob("*.svg")):
        for match in OUTSIDE.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.name}: {match[0]}"


def build(to: Path) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder, as CONTRIBUTING.md says."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(to / "trees"), "-c", "docs"]
    return subprocess.run(
        [*command, ".", str(to / "site")], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )


def test_the_page_of_the_api_names_every_public_name():
    """What can be imported from `sim` is described on the page of the API: told without building the site."""
    page = (ROOT / "docs" / "api.md").read_text()
    described = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)", page, re.MULTILINE))
    assert [name for name in (*sim.__all__, "open") if name not in described] == [], "add them to docs/api.md"


def _errors_of_sim():
    """Return the names of all classes of errors and warnings in `sim`."""
    classes: list[tuple[str, set[str]]] = []
    for path in (ROOT / "sim").rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        classes += [(node.name, {ast.unparse(base) for base in node.bases}) for node in nodes]
    found = {"BaseException", "Exception", "UserWarning", "ValueError", "MemoryError"}
    known = 0
    while known != len(found):
        known = len(found)
        found |= {name for name, bases in classes if bases & found}
    return found & {name for name, _ in classes}


def _raised_by_public_names():
    """Yield the name of each public function, class and method, and the words in front of what it raises."""
    for name in (*sim.__all__, "open", "property"):
        value = getattr(sim, name)
        methods = inspect.getmembers(value) if inspect.isclass(value) else ()
        for shown, one in ((name, value), *((f"{name}.{key}", one) for key, one in methods if not key.startswith("_"))):
            raises = inspect.cleandoc(getattr(one, "__doc__", None) or "").partition("\nRaises:\n")[2].split("\n\n")[0]
            yield shown, {word for entry in re.findall(r"^    ([\w, ]+):", raises, re.M) for word in entry.split(", ")}


@pytest.mark.slow
def test_an_error_that_documentation_names_can_be_imported_from_sim():
    """Whatever a page or the docstring of a public name says that is raised, a program can catch by a public name."""
    errors, public = _errors_of_sim(), set(sim.__all__)
    assert {"RunError", "LimitError", "Refused", "ExpressionError"} <= errors
    pages = {path.name: path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]}
    told = [(name, set(re.findall(r"`(?:sim\.)?(\w+)`|\bsim\.(\w+)", text))) for name, text in pages.items()]
    named = [(where, {word for pair in words for word in pair}) for where, words in told]
    missing = [(where, sorted(words & errors - public)) for where, words in (*named, *_raised_by_public_names())]
    assert [one for one in missing if one[1]] == [], "add them to sim/__init__.py and docs/api.md"


@pytest.mark.proof
@pytest.mark.timeout(500)
def test_the_site_is_complete_and_needs_no_network(tmp_path):
    """The site builds without a warning, has every public name, has no broken link, and loads nothing from outside."""
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    described = _Page(site / "docs" / "api.html").anchors
    assert [name for name in (*sim.__all__, "open") if f"sim.{name}" not in described] == [], "add them to docs/api.md"
    commands = _Page(site / "docs" / "cli.html").anchors
    assert [name for name in VERBS if f"sim-{name}" not in commands] == []
    index = {link for link in _Page(site / "docs" / "index.html").links if not link.startswith("#")}
    sections = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert sorted(sections - index - {"index.html"}) == [], "add them to docs/index.md"
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= {p.name for p in (site / "docs").iterdir()}
    assert list(broken_links(site)) == []
    assert list(loaded_from_outside(site)) == []


@pytest.mark.parametrize(
    ("text", "broken", "outside"),
    [
        ('<a href="other.html#there">', 0, 0),
        ('<a href="https://example.org/">', 0, 0),
        ('<a href="missing.html">', 1, 0),
        ('<a href="other.html#missing">', 1, 0),
        ('<a href="#missing">', 1, 0),
        ('<img src="missing.png">', 1, 0),
        ('<script src="https://example.org/a.js">', 0, 1),
        ('<link href="//example.org/a.css">', 0, 1),
        ("<style>@import 'https://example.org/a.css'</style>", 0, 1),
        ("<style>p {background: url(//example.org/a.png)}</style>", 0, 1),
    ],
)
def test_the_checks_find_what_they_look_for(text, broken, outside, tmp_path):
    """A link that leads nowhere is found, and so is everything that a browser would load from another machine."""
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "other.html").write_text('<p id="there">')
    assert len(list(broken_links(tmp_path))) == broken
    assert len(list(loaded_from_outside(tmp_path))) == outside

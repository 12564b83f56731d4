"""docs/claims.md has each claim of the pages with a number or an "always", beside what shows it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CLAIMS = "docs/claims.md"
PAGES = ["README.md", "ARCHITECTURE.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]

UNIVERSAL = re.compile(
    r"\b(?:always|never|exactly once|bit for bit|byte for byte|bit-for-bit"
    r"|the same (?:hash|record|runs?|events|results?|bytes|answers?|outcomes?|order))\b",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.#-])\d")

ELSEWHERE = {
    CLAIMS: "the table itself",
    "docs/cli.md": "made from the commands: docs/test_cli_page.py",
    "docs/events.md": "made from the event types: docs/test_events_page.py",
    "docs/faults.md": "a table of claims and tests: architecture/test_faults.py",
    "docs/seed_rules.md": "a table of claims and tests: docs/test_seed_rules.py",
    "docs/jury.md": "its figures are compared with what its commands print: docs/test_jury_page.py",
    "docs/games.md": "its figures are compared with what its commands print: docs/test_games_page.py",
    "docs/generative_agents.md": "its figures are compared with what its commands print: docs/test_generative_page.py",
    "docs/feed.md": "its figures are compared with what its commands print: docs/test_feed_page.py",
    "docs/gallery.md": "its figures are compared with what its commands print: docs/test_gallery_page.py",
    "docs/tutorials/figure.md": "its figures are compared with what its commands print: docs/test_tutorial_pages.py",
    "docs/tutorials/mesa.md": "its figures are compared with what its commands print: docs/test_tutorial_pages.py",
    "docs/tutorials/netlogo.md": "its figures are compared with what its commands print: docs/test_tutorial_pages.py",
    "docs/tutorials/survey.md": "its figures are compared with what its commands print: docs/test_tutorial_pages.py",
    "docs/glossary.md": "definitions: docs/test_glossary.py",
}
"""Pages whose claims are shown by a test of the whole page."""

NO_CLAIMS = [
    ("docs/.*", r"^\| .*`--\w", "an option: `sim COMMAND --help` says the same, and cli/test_help.py runs each"),
    (
        "docs/(?:metrics|watch).md",
        r"^\| `(?:sim_|Sim)",
        "a metric or an alert: dashboards/test_files.py compares page and code",
    ),
    ("docs/models.md", r"^\| `[a-z_]+`.*\| \d \| \d \|$", "retries: docs/test_models_page.py compares page and code"),
    ("docs/modes.md", r"^\| .*\|$", "measured: the page has the command above each table"),
    (
        "docs/scenario.md",
        r"^\| (?:\*\*[^|]*\*\* )?`\w+\(",
        "functions: docs/test_reference.py compares page and declarations",
    ),
    ("docs/scenario.md", r"^\| `(?:me|iteration)`, ", "definitions of names in expressions"),
    ("docs/tools.md", r"^that ", "what is expressly not promised"),
    ("docs/view.md", r"^\| \+ - 0 \| ", "keys of the keyboard"),
    ("docs/why.md", r"are published \(Zhang et al\. 2025\)", "a figure of others, with its source"),
    ("docs/watch.md", r"^\| `\w+\.json` \|", "what a dashboard is about"),
    (
        "README.md|docs/.*",
        r"(?i)\b(?:on|from) day 1\b.*(?:\?|:$)|^Take one recorded run",
        "times of an example, in a question",
    ),
    (
        "docs/.*",
        r"^\[1, 7\]\}`\.$|\(PEP 399\)|of draft 2020-12|^If you look for a smaller one",
        "no number of a behaviour",
    ),
]
"""Forms of sentences that need no row of their own: page, form, and why."""

DEFAULTS = {
    "docs/scenario.md": "docs/test_reference.py::test_a_default_on_the_page_is_that_of_the_code",
    "docs/tools.md": "docs/test_claims.py::test_the_limits_of_commands_are_those_of_the_code",
}
"""Pages with tables of keys and their defaults, and the tests that compare them with the code."""


class Claim(NamedTuple):
    """A row of docs/claims.md."""

    page: str
    text: str
    shown_by: str


def _claims() -> list[Claim]:
    found, page = [], ""
    for line in (ROOT / CLAIMS).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            page = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith(("| claim |", "| ---")):
            text, shown_by = line.removeprefix("| ").removesuffix(" |").split(" | ")
            found.append(Claim(page, text, shown_by))
    return found


@cache
def _plain(page: str) -> str:
    """Return the text of a page without line breaks."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def _sentences(page: str) -> Iterator[str]:
    """Yield sentences and rows of tables of a page, without code blocks, printed tables, headings and pictures.

    What is measured stands between marks: docs/test_front.py compares it.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^<!-- measured: .*?^<!-- /measured -->$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```[^\n]*$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4}.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\|.* default \|.*\n\| ---.*\n(?:\|.*\n)+", "\n", text, flags=re.MULTILINE)  # see DEFAULTS
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|>]|\d+\.) ?)", text):
        line = re.sub(r"^(?:\d+\.|[-*>]) ", "", " ".join(block.split()))
        if line.startswith("|"):
            yield line
        elif not line.startswith(("#", "![")):
            yield from re.split(r"(?<=[.:!?]) (?=[A-Z`“\[*])", line)


def _says_something(sentence: str) -> bool:
    """Return whether a sentence has a number or a word such as "always", outside of code, addresses and years."""
    bare = re.sub(r"`[^`]*`", "`c`", sentence)
    bare = re.sub(r"\]\([^)]*\)|https?://\S+|127\.0\.0\.1|\([^()]*\b(?:19|20)\d\d[a-z]?\)", "]", bare)
    return bool(UNIVERSAL.search(bare) or NUMBER.search(bare))


@cache
def _tests_in(file: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
    return frozenset(found)


def test_each_claim_stands_on_its_page():
    """A claim is word for word on the page under whose heading it stands, so a page cannot change without its row."""
    claims = _claims()
    assert len(claims) > 200
    assert [claim for claim in claims if claim.text not in _plain(claim.page)] == []


@pytest.mark.slow
def test_what_shows_a_claim_exists():
    """A claim is shown by tests of the project, or by commands of the project."""
    for claim in _claims():
        named = re.findall(r"`([^`]+)`", claim.shown_by)
        assert named, claim
        for name in named:
            file, _, test = name.partition("::")
            if test:
                assert test in _tests_in(file), (name, claim)
            else:
                assert re.match(r"sim |uv run |--plain$", name), (name, claim)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_each_sentence_with_a_number_or_an_always_has_a_row(page):
    """A sentence with a number, an "always", a "never" or a "the same hash" is a claim, and so has its row."""
    forms = [form for pages, form, _ in NO_CLAIMS if re.fullmatch(pages, page)]
    claims = [claim.text for claim in _claims() if claim.page == page]
    unshown = [
        sentence
        for sentence in _sentences(page)
        if _says_something(sentence)
        and not any(re.search(form, sentence) for form in forms)
        and not any(text in sentence or sentence in text for text in claims)
    ]
    assert unshown == []


def test_no_exception_is_left_over():
    """Each page and each form without rows of its own still exists, and so does what compares tables of defaults."""
    assert set(ELSEWHERE) <= set(PAGES)
    table = re.compile(r"^\|.* default \|.*\n\| ---", re.MULTILINE)
    assert {page for page in PAGES if table.search((ROOT / page).read_text(encoding="utf-8"))} == set(DEFAULTS)
    assert all(test in _tests_in(file) for file, _, test in (name.partition("::") for name in DEFAULTS.values()))
    for pages, form, why in NO_CLAIMS:
        texts = [sentence for page in PAGES if re.fullmatch(pages, page) for sentence in _sentences(page)]
        assert any(re.search(form, text) for text in texts), why

"""The glossary is a short, sorted table of the terms that users meet, and modules have no private vocabulary."""

import ast
import re
from pathlib import Path

import pytest

import sim

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "glossary.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]
TERMS = [row[0] for row in ROWS[2:]]


def test_every_row_has_a_term_a_meaning_and_a_page():
    """A row has three cells; the meaning is one or two sentences."""
    assert ROWS[0] == ["term", "meaning", "more"]
    for row in ROWS[2:]:
        assert len(row) == 3, row
        assert row[1].endswith("."), row
        assert 1 <= len(re.findall(r"[.;](?: |$)", row[1])) <= 3, row


def test_terms_are_in_order_and_unique():
    """Terms are in alphabetical order, and each is explained once."""
    assert sorted(set(TERMS), key=str.casefold) == TERMS


def test_a_term_is_used_on_the_page_that_its_row_names():
    """Each term is one that users meet: the page of its row uses it, in singular or plural."""
    unused = []
    for term, _, link in ROWS[2:]:
        found = re.fullmatch(r"\[(\w+)\]\(([\w./]+\.md)\)", link)
        assert found is not None, link
        text = " ".join((DOCS / found[2]).read_text(encoding="utf-8").split())
        if not re.search(rf"\b{re.escape(term.removesuffix('y'))}", text, re.IGNORECASE):
            unused.append((term, found[2]))
    assert unused == []


def test_it_is_short():
    """Who looks up a word reads a page, not a book."""
    assert len(PAGE.split()) < 3300


def test_public_classes_are_explained():
    """A word of the name of every public class, but errors, begins a word of the glossary, as in `Preempted`."""
    words = [word for term in TERMS for word in term.replace("-", " ").split()]
    classes = [name for name in sim.__all__ if name[0].isupper() and not issubclass(getattr(sim, name), BaseException)]
    stems = {
        name: tuple(part.removesuffix("s")[:6].lower() for part in re.findall("[A-Z][a-z]+", name)) for name in classes
    }
    assert len(classes) > 30
    assert [name for name, parts in stems.items() if not any(word.startswith(parts) for word in words)] == []


PLAIN = """
acces all amount answer ask asking behaviour bin block body book bound branching build builder call capabilitie
capacity catalog cause change chart chat check codec coerce collect comparison compiler concurrency config connection
content core cost count crashpoint declared distance divergence document driver error event fail field figure file
fingerprint follower foreign format fresh function future grammar graph hashing in job listing load loading local lost
manager map markup meaning missing money name need never new note of option order output pacing page part pattern
people plan probing publish pytest reading rebuild registry reorder rerun restricted resuming right rng routine running
schedule scope scripted semantic serialization serie setting sheet show shown shrinking slicer software standalone start
still stop stream streaming summary surrounding symbol table tell text timer toolbox transport tree trouble type unit
until use value verify verifying villager written yaml
"""
"""Words of module names that mean in this project what they mean elsewhere."""


@pytest.mark.slow
def test_modules_are_named_by_terms():
    """A word of a module's name is in the glossary, in plain English, or in the docstring that explains the module."""
    words = {word for term in TERMS for word in term.lower().replace("-", " ").split()}
    folder = Path(sim.__file__).parent
    named = [path for path in folder.rglob("*.py") if not path.stem.startswith("__")]
    unknown = {}
    for path in named:
        told = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").lower()
        for word in (part.removesuffix("s") for part in path.stem.strip("_").split("_")):
            known = word in PLAIN.split() or word[:4] in told
            if not known and not any(term.startswith(word[:5]) for term in words):
                unknown[path.relative_to(folder).as_posix()] = word
    assert len(named) > 200
    assert unknown == {}

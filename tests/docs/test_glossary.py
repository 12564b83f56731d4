"""The glossary is a sorted table of terms, and what it names exists."""

import re
from importlib.util import find_spec
from pathlib import Path

import sim

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]
TERMS = [row[0] for row in ROWS[2:]]


def test_every_row_has_a_term_a_meaning_and_a_module():
    """A row has three cells; the meaning is one to three sentences."""
    assert ROWS[0] == ["term", "meaning", "where"]
    for row in ROWS[2:]:
        assert len(row) == 3, row
        assert row[1].endswith("."), row
        assert 1 <= len(re.findall(r"[.;](?: |$)", row[1])) <= 3, row


def test_terms_are_in_order_and_unique():
    """Terms are in alphabetical order, and each is explained once."""
    assert sorted(set(TERMS), key=str.casefold) == TERMS


def test_the_modules_exist():
    """The module that a row names can be imported; after a move, its row names the new place."""
    assert [row for row in ROWS[2:] if not re.fullmatch(r"`[\w.]+`", row[2])] == []
    assert [row for row in ROWS[2:] if find_spec(row[2].strip("`")) is None] == []


def test_public_classes_are_explained():
    """A word of the name of every public class begins a word of the glossary, as in `Preempted` and preemption."""
    words = [word for term in TERMS for word in term.replace("-", " ").split()]
    classes = [name for name in sim.__all__ if name[0].isupper() and not issubclass(getattr(sim, name), sim.SimError)]
    stems = {name: tuple(part[:6].lower() for part in re.findall("[A-Z][a-z]+", name)) for name in classes}
    assert len(classes) > 30
    assert [name for name, parts in stems.items() if not any(word.startswith(parts) for word in words)] == []


PLAIN = """
all amount answer ask behaviour bin block body bound branching build builder call capabilitie capacity catalog
cause change chart check coerce collect comparison concurrency compiler config connection content cost count crashpoint
declared distance document driver error event field file follower format fresh function future grammar graph hashing in
listing load loading local lost manager map markup meaning missing money name need never new note of option order output
page part people plan probing publish pytest reading rebuild rerun restricted resuming rng routine running
scripted semantic serialization serie sheet show slicer software standalone start stop summary table tell text
toolbox transport tree trouble type unit until use value verify verifying villager written yaml
"""
"""Words of module names that mean in this project what they mean elsewhere."""


def test_modules_are_named_by_terms():
    """Every word of a module's name is a word of the glossary, or of plain English: there is no private vocabulary."""
    words = {word for term in TERMS for word in term.lower().replace("-", " ").split()}
    folder = Path(sim.__file__).parent
    named = {path.relative_to(folder): path.stem for path in folder.rglob("*.py") if not path.stem.startswith("__")}
    unknown = {
        str(path): word
        for path, name in named.items()
        for word in (part.removesuffix("s") for part in name.strip("_").split("_"))
        if word not in PLAIN.split() and not any(term.startswith(word[:5]) for term in words)
    }
    assert len(named) > 200
    assert unknown == {}

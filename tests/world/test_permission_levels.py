import pytest

from sim.base.errors import UsageError
from sim.base.permissions import Permission


def test_levels_are_ordered():
    """A higher level includes the lower ones."""
    assert Permission.GUEST < Permission.USER < Permission.ADMIN < Permission.OWNER


@pytest.mark.parametrize("level", list(Permission))
def test_a_level_is_found_by_its_name(level):
    """Each level is written in lower case."""
    assert level is Permission.parse(level.name.lower())


@pytest.mark.parametrize("text", ["", "root", "OWNER", "owner ", "3", "ownr"])
def test_what_is_no_level_is_refused(text):
    """Nothing matches means refused; no level is assumed."""
    with pytest.raises(UsageError):
        Permission.parse(text)


def test_the_nearest_level_is_named():
    """A typo draws a hint."""
    with pytest.raises(UsageError) as caught:
        Permission.parse("ownr")

    assert caught.value.hint == "did you mean 'owner'?"

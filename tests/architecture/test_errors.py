"""Errors that users can catch are public."""

import sim
from sim.base import errors


def test_each_error_of_the_tree_is_public():
    """What a program can be given to catch has a public name: each class of the tree of errors is one of `sim`."""
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, BaseException)]
    own = {one.__name__: one for one in classes if one.__module__ == errors.__name__}
    assert {"RunError", "LimitError", "UsageError"} <= set(own)
    assert {name: getattr(sim, name, None) for name in own} == own

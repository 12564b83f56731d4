"""A module with a metric, which a scenario needs to be checked."""

import sys

import pytest


@pytest.fixture
def measuring(tmp_path, monkeypatch):
    """A module `measuring` in the folder of the test, which is imported from there: that of another test is gone."""
    (tmp_path / "measuring.py").write_text("import sim\n\n@sim.metric\ndef odd(world):\n    return 1\n")
    monkeypatch.delitem(sys.modules, "measuring", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

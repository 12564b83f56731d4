"""`sim replay` and `sim branch` as commands: what they import."""

import json

import pytest

OWN = """
from sim import Action, Agent


class Own(Agent):
    async def decide_action(self):
        return Action("noop", {})
"""
SCENARIO = "name: own\nuntil: 3s\nagents: [{name: a, kind: 'own_again:Own', loop: {min_loop_delay: 1s}}]\n"


@pytest.mark.parametrize("verb", [("replay",), ("branch", "--at", "1s")], ids=["replay", "branch"])
def test_code_beside_a_run_file_is_not_imported(start, tmp_path, verb):
    """A run folder may come from somebody else: with --allow a module comes from where one works, never from there."""
    (tmp_path / "own_again.py").write_text(OWN)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    installed = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}  # as the installed command has it
    ran = start("run", "own.yaml", "--allow", "own_again", "--json", **installed)
    out, err = ran.communicate(timeout=60)
    assert ran.returncode == 0, err
    folder = tmp_path / json.loads(out)["run"]
    (folder / "own_again.py").write_text("import sys\nsys.stderr.write('code of the run folder ran')\n" + OWN)
    name, *options = verb

    again = start(name, folder, *options, "--allow", "own_again", **installed)
    _, err = again.communicate(timeout=60)
    assert "code of the run folder" not in err
    assert again.returncode == 0, err

    (tmp_path / "own_again.py").unlink()
    again = start(name, folder, *options, "--allow", "own_again", "--allow-change", **installed)
    _, err = again.communicate(timeout=60)
    assert "code of the run folder" not in err
    assert again.returncode == 2

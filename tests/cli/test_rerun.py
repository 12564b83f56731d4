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


@pytest.mark.slow
def test_code_beside_a_run_file_is_not_imported(start, tmp_path):
    """A run folder may come from somebody else: with --allow a module comes from where one works, never from there."""

    def call(*args: object) -> tuple[int, str, str]:
        # as the installed command has it: Python itself adds no folder to import from
        process = start(*args, "--allow", "own_again", PYTHONSAFEPATH="1", PYTHONDONTWRITEBYTECODE="1")
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    (tmp_path / "own_again.py").write_text(OWN)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    code, out, err = call("run", "own.yaml", "--json")
    assert code == 0, err
    folder = tmp_path / json.loads(out)["run"]
    (folder / "own_again.py").write_text("import sys\nsys.stderr.write('code of the run folder ran')\n" + OWN)
    code, _, err = call("replay", folder)
    assert (code, "code of the run folder" in err) == (0, False), err
    (tmp_path / "own_again.py").unlink()
    code, _, err = call("branch", folder, "--at", "1s", "--allow-change")
    assert (code, "code of the run folder" in err) == (2, False), err

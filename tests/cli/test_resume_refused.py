"""`sim resume` on what it cannot go on with, and damage to a run file: one clear sentence, before anything is used."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from sim import Action, Agent, Effect, perform
from sim.base.errors import RunError
from sim.runner import replay, resume, run
from tests.record import resealed

TALKING = """
name: talking
seed: 1
until: 0.2
agents: [{name: a, kind: talker, count: 3, loop: {min_loop_delay: 0.01}}]
"""
PAYLOADS = {
    "effects": ("result", "request", "kind", "outcome", "attempts", "request_hash"),
    "arrivals": ("data", "kind", "time_ns"),
    "contents": ("data",),
    "chunks": ("data",),
}
calls: list[str] = []


class Talker(Agent):
    """Performs effects, modelled and measured in turn."""

    async def decide_action(self) -> Action | None:
        n = self.state["n"] = self.state.get("n", 0) + 1
        request = {"say": "a text that is long enough to be a part of its own. " * 8, "n": n}
        modelled = 20_000_000 if n % 2 else None
        outcome = await perform(Effect("talk", request, _talk, latency_ns=modelled, safety="pure"))
        self.state["heard"] = outcome.value
        return Action("publish", {"topic": "was.heard", "data": outcome.value})


def _talk(request, key):
    calls.append(key)
    return {"answer": request["n"] * 7, "text": "what was heard"}


@pytest.fixture
def finished(sim, tiny):
    """A run that has finished."""
    assert sim("run", tiny, "-q").code == 0
    (folder,) = Path("runs").iterdir()
    return folder


def one_sentence(done, code: int) -> str:
    """Return the one sentence that a command failed with."""
    lines = done.err.splitlines()
    assert done.code == code, done.err
    assert lines[0].startswith("sim: error: ")
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), done.err
    return str(lines[0].removeprefix("sim: error: "))


def test_a_finished_run(sim, finished):
    """A finished run has nothing to go on with."""
    assert one_sentence(sim("resume", finished), 2) == f"{finished} has finished: there is nothing to continue"


def test_a_missing_run(sim, tiny):
    """A run that is not there is named."""
    assert one_sentence(sim("resume", "nothing"), 2) == "there is no run 'nothing' in runs"


def test_a_foreign_file(sim, finished):
    """A database of another program is no run."""
    path = finished / "run.db"
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (a)")
    other.close()
    assert one_sentence(sim("resume", finished), 2) == f"{path} is not a run: another program made it"
    path.write_text("this is no database at all, but a text that is a little longer than a header " * 9)
    assert "it is not a SQLite database" in one_sentence(sim("resume", finished), 1)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_run(sim, finished, share):
    """A file that was cut is said to be damaged, or to be no run."""
    path = finished / "run.db"
    resealed.change(finished, "UPDATE run SET status = 'running', hash = NULL, digest = NULL, summary = NULL")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    sentence = one_sentence(sim("resume", finished), 2 if share == 0 else 1)
    assert "is damaged" in sentence or "is not a run" in sentence or "not a SQLite database" in sentence


def test_a_run_without_a_file(sim, finished):
    """A folder without a run file is no run."""
    (finished / "run.db").unlink()
    assert one_sentence(sim("resume", finished), 2) == f"there is no run {str(finished)!r} in runs"


@pytest.fixture(scope="module")
def talked(tmp_path_factory):
    """A run with effects and an input that was killed right before its end."""
    root = tmp_path_factory.mktemp("talked")
    (root / "talking.yaml").write_text(TALKING)
    result = run(root / "talking.yaml", out=root / "runs", kinds={"talker": Talker}, progress=_publish_once())
    folder = Path(result.run or "")
    resealed.change(
        folder, "UPDATE run SET status = 'running', events = NULL, hash = NULL, digest = NULL, summary = NULL"
    )
    with sqlite3.connect(folder / "run.db") as database:
        for table in PAYLOADS:
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone()[0], table  # noqa: S608 - ours
        assert database.execute("SELECT count(*) FROM arrivals WHERE effect IS NULL").fetchone()[0]
    database.close()
    return folder


def _publish_once():
    """Return a `progress` that makes one call from outside."""
    done: list[bool] = []

    def progress(runner):
        if not done:
            done.append(True)
            runner.host.submit("publish", {"topic": "from.outside", "data": "hello"})

    return progress


def test_it_is_whole_before_the_damage(talked, tmp_path):
    """Without damage the run is resumed to its end: what the next test refuses is refused for the damage."""
    whole = tmp_path / talked.name
    shutil.copytree(talked, whole)
    assert resume(whole, kinds={"talker": Talker}).status == "finished"


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), [(table, name) for table, names in PAYLOADS.items() for name in names])
def test_one_flipped_bit_is_found_before_use(talked, tmp_path, table, column):
    """One flipped bit in any payload is found before anything is done: by resume and by replay, in one sentence."""
    rng = random.Random(f"{table} {column}")
    for number in range(6):
        hurt = tmp_path / f"{number}" / talked.name
        shutil.copytree(talked, hurt)
        _flip(hurt / "run.db", table, column, rng)
        before = len(calls)
        for again in (resume, replay):
            with pytest.raises(RunError, match=r"damaged|cannot be used"):
                again(hurt, kinds={"talker": Talker})
        assert len(calls) == before


def _flip(file: Path, table: str, column: str, rng: random.Random) -> None:
    """Flip a bit of one value, in such a way that the tables still take it."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA ignore_check_constraints = ON")
    given = f"SELECT id, CAST({column} AS BLOB), typeof({column}) FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
    id, raw, kind = rng.choice(database.execute(given).fetchall())
    if kind == "integer":
        database.execute(f"UPDATE {table} SET {column} = {column} + 1 WHERE id = ?", (id,))  # noqa: S608 - ours
    elif raw:
        place = rng.randrange(len(raw))
        body = raw[:place] + bytes([raw[place] ^ 1 << rng.randrange(7)]) + raw[place + 1 :]
        database.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE id = ?", (body, id))  # noqa: S608 - ours
    else:
        database.execute(f"UPDATE {table} SET {column} = 'x' WHERE id = ?", (id,))  # noqa: S608 - ours
    database.close()

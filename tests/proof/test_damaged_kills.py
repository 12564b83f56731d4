"""Kill -9 a run with unsafe effects, damage a byte of its folder, resume: nothing unsafe twice, nothing false shown."""

import io
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.cli import main
from sim.record.files import DATABASE
from sim.record.head import read_head
from tests.proof.bench import Bench, Ended, Kill, moment

KILLS = 125
"""In each of the four tests: 500. A third at random moments, a third aimed, a third followed by damage."""

CALLS, WHOLE = 40, 55
"""How many calls of the service a kill may wait for, and about how many a whole run makes."""

OPENING = ("run.drafted", "run.created", "writer.before", "resume.claimed")
CLOSING = ("run.finishing", "run.finished")
CHECKPOINTS = ("writer.written", "writer.unnoted", "writer.committed", "effect.started", "effect.done", "resume.live")
AIMED = OPENING + CLOSING + CHECKPOINTS
ONCE = {"run.drafted", "run.created", "resume.claimed", "resume.live", "run.finishing", "run.finished"}

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1500)]


@attrs.frozen
class Shown:
    """What a verb said of a run: its exit code, the one JSON object on stdout, and stderr."""

    code: int
    out: dict[str, Any] | None
    err: str


@attrs.define
class Tally:
    """What was done and seen, for people."""

    kills: int = 0
    damaged: int = 0
    refused: int = 0
    allowed: int = 0
    lost: int = 0
    in_doubt: int = 0
    unreported: int = 0

    def text(self, what: str) -> str:
        """Say it in one line."""
        return (
            f"{what}: {self.kills} kills, {self.damaged} followed by damage; {self.refused} resumes refused, of which"
            f" {self.allowed} continued with --allow-loss and {self.lost} were lost; {self.in_doubt} effects decided;"
            f" {self.unreported} times only a commit that was not yet reported was gone"
        )


def _look(*args: object) -> Shown:
    """Call a verb inside this process, with `--json`."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*map(str, args), "--json"])
    assert "Traceback" not in err.getvalue(), err.getvalue()
    shown = out.getvalue().strip()
    return Shown(int(ended.value.code or 0), json.loads(shown) if shown else None, err.getvalue())


def _aimed(rng: random.Random) -> Kill:
    """Aim at opening, closing and checkpoints: at a crash point, or at real moments around the start and the end."""
    if rng.random() < 0.3:
        return Kill(None, rng.choice([0, WHOLE]), rng.uniform(0.1, 0.9))
    name = rng.choice(AIMED)
    return Kill(name, 1 if name in ONCE else rng.randint(1, CALLS))


def _kills(rng: random.Random) -> Iterator[tuple[Kill, bool]]:
    """Yield kills without end, and whether damage follows: at a random moment, aimed, and at either with damage."""
    while True:
        aimed = _aimed(rng)
        plan = [(moment(rng, CALLS), False), (aimed, False), (rng.choice([moment(rng, CALLS), aimed]), True)]
        rng.shuffle(plan)
        yield from plan


def _commit(folder: Path) -> int:
    """Return the number of the last commit that SQLite finds in the database of a run."""
    with closing(sqlite3.connect((folder / DATABASE).as_uri() + "?mode=ro", uri=True)) as database:
        ((number,),) = database.execute("SELECT number FROM commits")
    return int(number)


def _acknowledged(folder: Path) -> int:
    """Return the number of the last commit in `run.head`. A run reports a commit, and acts on it, only after this."""
    head = read_head(folder).head
    assert head is not None, "a published run has a head"
    return head.commit


def _damage(folder: Path, rng: random.Random) -> str:
    """Damage a random file of the folder at a random byte, and say how."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_size)
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    how = rng.choice(["flip", "flip", "flip", "zero", "cut", "remove"])
    if how == "flip":
        data[at] ^= 1 << rng.randrange(8)
    elif how == "zero":
        data[at:] = bytes(len(data) - at)
    else:
        del data[at:]
    if how == "remove":
        path.unlink()
    else:
        path.write_bytes(data)
    return f"{how} {path.name} at {at} of {len(data)}"


def _decide(in_doubt: list[dict[str, Any]], rng: random.Random, retried: Counter[tuple[str, int]]) -> list[str]:
    """Return the options that decide all effects in doubt, each in one of the ways."""
    options: list[str] = []
    for effect in in_doubt:
        decision = rng.choice(["retry", "done", "failed"])
        if decision == "retry":
            retried[effect["agent"], effect["ordinal"]] += 1
        if decision == "done":
            decision = "done:" + json.dumps({"number": 5, "text": "a person saw it"})
        options += ["--effect", f"{effect['id']}={decision}"]
    return options


class Campaign:
    """One scenario that is killed, damaged and resumed until a number of kills is reached."""

    def __init__(self, bench: Bench, rng: random.Random) -> None:
        self.bench = bench
        self.rng = rng
        self.kills = _kills(rng)
        self.tally = Tally()
        self.retried: Counter[tuple[str, int]] = Counter()
        self.story: list[str] = []

    def chain(self) -> None:
        """Run, be killed and damaged up to three times, resume; check what the service saw and what is shown."""
        self.bench.fresh()
        self.retried.clear()
        self.story.clear()
        kill, damage = next(self.kills)
        ended = self._end(kill, "run", "proof.yaml")
        killed = 0
        while ended.code != 0:
            killed += 1
            self.tally.kills += 1
            if not self.bench.published:
                return  # killed before the run was published: there is nothing to resume
            truth = self._truth()
            if damage:
                self._damage_shown(truth)
            resumed = self._resume(last=killed >= 3)
            if resumed is None:
                break
            ended, damage = resumed
        self._check_calls()
        if killed and ended.code == 0:
            shown = _look("show", self.bench.run)
            assert shown.code == 0, self._told(shown)
            assert shown.out is not None
            assert shown.out["status"] == "finished", self._told(shown)
            verified = _look("verify", self.bench.run)
            assert verified.code == 0, self._told(verified)

    def _end(self, kill: Kill, *args: object) -> Ended:
        self.story.append(f"{args[0]}, killed at {kill.point or 'a moment'} ({kill.n})")
        ended = self.bench.end(kill, *args)
        assert ended.code in (0, -9), self._told(ended)
        self.bench.service.settle()
        return ended

    def _truth(self) -> Shown:
        """What `show` says of the killed run as it was left: it must open."""
        shown = _look("show", self.bench.run)
        assert shown.code == 0, self._told(shown)
        return shown

    def _damage_shown(self, truth: Shown) -> None:
        """Damage the run; whatever the damage, `show` says the truth or says that the run is damaged.

        A kill may come between a commit and its line in `run.head`. If damage takes that commit away, the run is shown
        as if the kill had come a moment earlier. Nothing that was acknowledged is lost, and a disk that never wrote
        the commit leaves the same files, so that no reader could tell the two apart.
        """
        acknowledged = _acknowledged(self.bench.run)
        unreported = _commit(self.bench.run) == acknowledged + 1
        self.story.append(_damage(self.bench.run, self.rng))
        self.tally.damaged += 1
        shown = _look("show", self.bench.run)
        same = shown.code == 0 and shown.out == truth.out
        warned = shown.code == 0 and shown.out is not None and shown.out["lost"] and shown.out["lost"] in shown.err
        if shown.code == 0 and not same and not warned and unreported and _commit(self.bench.run) == acknowledged:
            self.tally.unreported += 1
            return
        assert same or warned or shown.code in (1, 2), self._told(shown)

    def _resume(self, *, last: bool) -> tuple[Ended, bool] | None:
        """Resume, deciding what is in doubt; None if the run is lost for good and says so."""
        options: list[str] = []
        for _ in range(4):
            before = self._unsafe_calls()
            asked = self.bench.call("resume", self.bench.run, *options)
            self.story.append(f"resume {' '.join(options)}: {asked.code} {asked.err[-200:]}")
            assert "Traceback" not in asked.err, self._told(asked)
            if asked.code == 0:
                return asked, False
            in_doubt = asked.result.get("doubts", []) if asked.out.strip() else []
            if in_doubt:
                self.tally.in_doubt += len(in_doubt)
                options = [option for option in options if option == "--allow-loss"]
                options += _decide(in_doubt, self.rng, self.retried)
                if not last and self.rng.random() < 0.5:
                    kill, damage = next(self.kills)
                    return self._end(kill, "resume", self.bench.run, *options), damage
                continue
            if "has finished" in asked.err:
                return None
            assert self._unsafe_calls() == before, self._told(asked)
            if "--allow-loss" in asked.err and "--allow-loss" not in options:
                self.tally.refused += 1
                self.tally.allowed += 1
                options.append("--allow-loss")
                continue
            self.tally.refused += 1
            self.tally.lost += 1
            assert asked.error, self._told(asked)
            return None
        raise AssertionError(f"resume never ended: {self.story}")

    def _unsafe_calls(self) -> int:
        return sum(call.safety == "unsafe" for call in self.bench.service.calls)

    def _check_calls(self) -> None:
        """No unsafe effect was called a second time without a person's word."""
        for place, seen in self.bench.service.seen().items():
            # After a loss an agent may decide otherwise, so that the same place holds an effect of another kind.
            calls = [call for call in seen if call.safety == "unsafe"]
            assert len(calls) <= 1 + self.retried[place], f"{place} {len(calls)} calls: {self.story}"

    def _told(self, ended: Shown | Ended) -> str:
        return f"{self.story}\n{ended.code} {ended.out}\n{ended.err}"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_kills_and_damage_lose_nothing_unnoticed(service, tmp_path, tell, mode, backend):
    """Killed at any moment, with a damaged byte anywhere in its folder or none, a run with unsafe effects repeats none
    of them without a person's word, can be opened by some verb, and is never shown as what it is not.
    """
    rng = random.Random(f"damage {mode} {backend}")
    bench = Bench(tmp_path, service, backend, mode=mode, unsafe=0.6, workers=8, until=0.25)
    campaign = Campaign(bench, rng)
    while campaign.tally.kills < KILLS:
        campaign.chain()
    assert campaign.tally.damaged
    tell(campaign.tally.text(f"damage, {mode}, {backend}"))


def test_a_commit_that_was_not_reported_can_be_lost_without_a_warning(service, tmp_path):
    """Killed between a commit and its line in `run.head`, a run whose last commit is damaged is the run before it: it
    is shown without a warning, resumes, and is verified.
    """
    bench = Bench(tmp_path, service, "asyncio", mode="autonomous", unsafe=0.0, workers=2, until=0.25)
    bench.fresh()
    assert bench.end(Kill("writer.unnoted", 12), "run", "proof.yaml").code == -9
    acknowledged = _acknowledged(bench.run)
    assert _commit(bench.run) == acknowledged + 1
    log = bench.run / f"{DATABASE}-wal"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1  # in the last frame, which ends the last commit
    log.write_bytes(data)

    shown = _look("show", bench.run)

    assert (shown.code, shown.err) == (0, "")
    assert shown.out is not None
    assert (shown.out["status"], shown.out["lost"]) == ("killed", None)
    assert _commit(bench.run) == acknowledged
    assert bench.call("resume", bench.run).code == 0
    assert _look("verify", bench.run).code == 0

"""The pool: long-lived workers, jobs whose process ends early, and nothing left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.experiments.pool import Deadline, Ended, WorkerPool
from tests.experiments.killed_sweep import work

ROOT = Path(__file__).parents[2]


def test_all_jobs_are_done_by_few_workers() -> None:
    """Each job has its result, whatever the order; the jobs are taken as they are needed."""
    jobs = (("do", number) for number in range(40))
    with WorkerPool(2) as pool:
        assert sorted(result for _, result in pool.run(work, jobs) if isinstance(result, int)) == [
            number * number for number in range(40)
        ]
        assert list(pool.run(work, [("do", 9)])) == [(("do", 9), 81)]  # it can be used again


@pytest.mark.proof
def test_the_deadline_ends_what_is_under_way() -> None:
    """What is not done then is killed and has no result; no job begins after it; the pool can be used again."""
    with WorkerPool(1) as pool:
        assert list(pool.run(work, [("wait", 1), ("do", 2)], Deadline.after("500ms"))) == []
        assert list(pool.run(work, [("do", 3)], Deadline(0.0))) == []
        assert list(pool.run(work, [("do", 3)])) == [(("do", 3), 9)]


def test_only_the_guilty_job_is_lost() -> None:
    """A job that ends its process is lost; those that were under way beside it are done again."""
    jobs = [("do", number) for number in range(10)]
    jobs.insert(4, ("die", 99))
    with WorkerPool(2) as pool:
        found = dict(pool.run(work, jobs))
    assert found.pop(("die", 99)) == Ended()
    assert found == {("do", number): number * number for number in range(10)}


def test_a_job_that_was_killed_once_is_done_again(tmp_path: Path) -> None:
    """Memory that was short once, or a person who killed a worker, costs no result."""
    jobs = [("do", 1), (f"once {tmp_path / 'mark'}", 7), ("do", 2)]
    with WorkerPool(2) as pool:
        assert sorted(result for _, result in pool.run(work, jobs) if isinstance(result, int)) == [1, 4, 49]


def end_workers(pool: WorkerPool) -> None:
    """Kill the workers of a pool, and wait until it has noticed."""
    executor = pool._executor
    assert executor is not None
    manager: Any = executor._executor_manager_thread
    for worker in list(executor._processes.values()):
        worker.kill()
    manager.join()


def test_workers_that_end_between_two_jobs_cost_no_job() -> None:
    """A worker may end while the caller writes a result, or before it asks for more: each job is done all the same."""
    with WorkerPool(2) as pool:
        assert list(pool.run(work, [("do", 3)])) == [(("do", 3), 9)]
        end_workers(pool)
        found: list[tuple[Any, Any]] = []
        for job, result in pool.run(work, [("do", number) for number in range(12)]):
            if not found:
                assert pool._executor is None
            found.append((job, result))
            if len(found) == 6:
                end_workers(pool)
    assert sorted(found) == [(("do", number), number * number) for number in range(12)]


@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_a_job_that_ends_its_process_does_not_end_the_main_process(how: str) -> None:
    """SystemExit or KeyboardInterrupt in a worker costs that job alone, and stdout belongs to the results."""
    program = (
        "from sim.experiments.pool import WorkerPool\nfrom tests.experiments.killed_sweep import work\n"
        f"with WorkerPool(1) as pool:\n    found = dict(pool.run(work, [('do', 2), ({how!r}, 3), ('write', 4)]))\n"
        f"print([found['do', 2], found[{how!r}, 3], found['write', 4]])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{[4, Ended(), 16]}\n"
    assert "written past Python" in done.stderr


def test_workers_have_the_environment_of_their_program_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that was set after an earlier pool, such as a key, is there; one that was removed is not."""
    for value in ("one", "two", None):
        if value is None:
            monkeypatch.delenv("SIM_TEST_KEY")
        else:
            monkeypatch.setenv("SIM_TEST_KEY", value)
        with WorkerPool(1) as pool:
            assert dict(pool.run(os.getenv, ["SIM_TEST_KEY"])) == {"SIM_TEST_KEY": value}


def test_a_module_of_the_current_folder_does_not_replace_one_of_python(tmp_path: Path) -> None:
    """Workers import as their program does: a file `statistics.py` beside a scenario is not what they work with."""
    (tmp_path / "statistics.py").write_text("raise SystemExit('imported')")
    program = (
        f"import sys\nsys.path[:] = [{str(ROOT)!r}, *sys.path[1:]]\nimport multiprocessing\n"
        "multiprocessing.set_forkserver_preload(['decimal'])\nfrom sim.experiments.pool import WorkerPool\n"
        "from tests.experiments.killed_sweep import work\n"
        "with WorkerPool(1) as pool:\n    print(list(pool.run(work, [('do', 3)])))\n"
        "from multiprocessing.forkserver import _forkserver\nprint(_forkserver._preload_modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[(('do', 3), 9)]", "['decimal', 'sim.experiments.measure']"]
    assert "imported" not in done.stderr


def children(of: int) -> set[int]:
    """Return the workers that a process has begun, itself or by the process that it forks them from."""
    told = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in told.splitlines()[1:]]
    all_ = {int(pid): (int(parent), what) for pid, parent, what in lines}
    servers = {pid for pid, (parent, what) in all_.items() if parent == of and "multiprocessing.forkserver" in what}
    return {pid for pid, (parent, what) in all_.items() if parent in servers or (parent == of and "spawn_main" in what)}


def alive(process: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_closing_early_leaves_no_worker() -> None:
    """Ctrl-C in the block kills the workers."""
    before = children(os.getpid())

    def begin() -> None:
        with WorkerPool(2) as pool:
            next(pool.run(work, [("do", number) for number in range(1000)]))
            assert children(os.getpid()) - before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin()
    assert not children(os.getpid()) - before


def test_other_processes_of_the_program_go_on() -> None:
    """A pool kills its own workers alone, not what the program began after it."""
    with WorkerPool(1) as pool:
        other = get_context("spawn").Process(target=time.sleep, args=(1000,))
        other.start()
        try:
            assert dict(pool.run(work, [("die", 1), ("do", 2)])) == {("die", 1): Ended(), ("do", 2): 4}
            assert other.is_alive()
        finally:
            other.kill()
            other.join()


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """Workers of a process that was killed do not wait for ever."""
    program = tmp_path / "program.py"
    program.write_text(
        "import time\nfrom sim.experiments.pool import WorkerPool\nfrom tests.experiments.killed_sweep import work\n"
        "if __name__ == '__main__':\n"
        "    with WorkerPool(1) as pool:\n        for job, result in pool.run(work, [('do', 3)]):\n"
        "            print(result, flush=True)\n            time.sleep(100)\n"
    )
    process = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "9\n"
    workers = children(process.pid)
    assert workers
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


def _left_by_runs(scenario: str) -> int:
    """Return how many objects of five runs are never collected in a process that has frozen what it had before."""
    gc.collect()
    gc.freeze()
    before = gc.get_freeze_count()
    for seed in range(5):
        sim.run(scenario, seed=seed)
    return gc.get_freeze_count() - before


def test_a_worker_keeps_nothing_of_its_trials(tmp_path: Path) -> None:
    """The runs of a worker add nothing to what the garbage collector leaves alone, however many they are."""
    file = tmp_path / "one.yaml"
    agents = "[{name: a, count: 5, loop: {min_loop_delay: 1m}, rules: [{do: noop}]}]"
    file.write_text(f"name: one\nuntil: 1h\nagents: {agents}\n")
    with WorkerPool(1) as pool:
        ((_, left),) = pool.run(_left_by_runs, [str(file)])
    assert isinstance(left, int)
    assert left <= 0


@pytest.mark.slow
def test_runs_at_the_same_time_leave_the_collector_as_it_was() -> None:
    """Whichever of two runs of a program ends first, nothing stays frozen, and the next run is as patient."""
    program = (
        "import asyncio, gc, sim\nfrom sim.runner import engine\n"
        "one = {'name': 'one', 'until': '1h', 'agents': [{'name': 'a', 'rules': [{'do': 'noop'}]}]}\n"
        "async def main():\n    await asyncio.gather(sim.run_async(one), sim.run_async(one, seed=2))\n"
        "before = gc.get_threshold()\nasyncio.run(main())\n"
        "with engine.COLLECTOR.patient():\n    print(gc.get_freeze_count() > 0)\n"
        "print(gc.get_freeze_count(), gc.get_threshold() == before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0", "True"]

"""Ctrl-C during a run on shards: it ends the run at each stage, also beside an event loop that runs."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.llm.access import Access
from sim.record import open_run
from sim.runner.event_loop import RunThread
from sim.runner.shards.protocol import Order
from sim.runner.shards.sharded import on_shards
from tests.llm.endpoint import Endpoint, Reply, whole
from tests.shards.test_shard_calls import ISLES
from tests.shards.test_shards import Inside
from tests.shards.worlds import world

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one thread")


def _press_ctrl_c() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@contextmanager
def _joined() -> Iterator[Any]:
    _press_ctrl_c()
    yield Inside


@pytest.mark.slow
def test_ctrl_c_before_a_run_on_shards_has_begun_ends_it(tmp_path: Path) -> None:
    """Ctrl-C while an endpoint is looked at, or a cluster is joined, ends the run: nothing is asked or recorded."""

    def listing(path: str) -> Reply:
        _press_ctrl_c()
        return Reply(body={"data": []}, delay=60)

    with Endpoint(lambda seen: Reply(body=whole("yes"))) as endpoint:
        endpoint.listing = listing
        access = Access(models=("vllm:m",), base_url=endpoint.url)
        with pytest.raises(KeyboardInterrupt):
            on_shards(2, nullcontext(Inside))(ISLES, out=tmp_path, access=access)
    assert (len(endpoint.probes), endpoint.seen) == (1, [])
    with pytest.raises(KeyboardInterrupt):
        on_shards(2, _joined())(ISLES, out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_beside_an_event_loop_ends_a_run_on_shards(tmp_path: Path) -> None:
    """Where an event loop is running, as in a notebook, Ctrl-C ends a run on shards after the window under way, and the
    run can be resumed."""

    class Pressed(Inside):
        def ask(self, order: Order) -> None:
            super().ask(order)
            thread = threading.current_thread()
            assert isinstance(thread, RunThread)
            assert not thread.interrupted or order.number == 5
            if order.number == 5 and not thread.interrupted:
                _press_ctrl_c()
                while not thread.interrupted:
                    time.sleep(0.001)

    async def cell() -> None:
        on_shards(2, nullcontext(Pressed))(world(3), out=tmp_path)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt, match=r"sim resume .* continues it in one process"):
            loop.run_until_complete(cell())
    finally:
        loop.close()
        signal.signal(signal.SIGINT, before)
    (folder,) = tmp_path.iterdir()
    with open_run(folder) as run:
        assert run.info.status == "interrupted"
    assert sim.resume(folder).hash == sim.run(world(3), out=None).hash

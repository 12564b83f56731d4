from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inbox.helpers import DESK, Program, going_on, programs


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Program]]:
    """Starts processes that wait for their arguments."""
    with programs(tmp_path) as call:
        yield call


@pytest.fixture
def desk(tmp_path: Path, start: Callable[[], Program]) -> tuple[Path, Program]:
    """A run of `DESK` that is under way: its folder, and its process."""
    (tmp_path / "desk.yaml").write_text(DESK)
    program = start().begin("run", "desk.yaml", "--json")
    return going_on(tmp_path / "runs"), program

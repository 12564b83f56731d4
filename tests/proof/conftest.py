import sys
from collections.abc import Callable, Iterator

import pytest

from tests.proof.service import Service


@pytest.fixture
def service() -> Iterator[Service]:
    """The world outside."""
    with Service() as running:
        yield running


@pytest.fixture
def tell(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a figure, also when the test passes."""

    def call(text: str) -> None:
        with capfd.disabled():
            sys.stderr.write(f"\n  {text}\n")

    return call

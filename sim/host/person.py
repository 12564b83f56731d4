"""Edge: the work of an effect that waits for a person. It never ends by itself; who waits abandons it."""

from typing import Any

import anyio


async def await_person(request: Any, key: str) -> None:
    """Wait until the effect is abandoned, because the decision has arrived as an input.

    Args:
        request: what is asked, which is on record.
        key: the idempotency key of the effect.
    """
    await anyio.sleep_forever()

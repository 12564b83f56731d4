"""Defaults of this package that commands and scenario files tell, by themselves: the rest takes time to import."""

from typing import Final

CONCURRENCY: Final = 64
"""The number of concurrent requests to one endpoint."""

MAX_TOKENS: Final = 1024
"""The length of the longest answer, in tokens, of a request that sets none."""

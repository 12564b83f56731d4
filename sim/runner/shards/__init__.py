"""Shards: processes, here or on a Ray cluster, that run the islands of one world, with the hash that one process has.

Read first: `coordinator.py` (windows, samples and the end), then `shard.py` (one process).
"""

from sim.runner.shards.sharded import run_on_shards

__all__ = ["run_on_shards"]

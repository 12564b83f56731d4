"""Benchmarks: `sim` beside what a user would pick instead, on the same work, in one run.

    uv run --group bench python -m benchmarks --help

Layout: `workload` (what a workload and a measurement are), `workloads/` (one file each), `worker` (one measurement, in
a process of its own), `harness` (interleaved repeats, medians, ratios), `machine`, `report`, `plot`, `calls` (counts of
calls, which do not depend on the machine), `day` (the load test), `virtual_asyncio` (asyncio with a clock that jumps).
"""

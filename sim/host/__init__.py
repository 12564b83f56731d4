"""Edge: runs a kernel inside an asyncio or trio program, in real time, and carries out effects.

Modules:

- `host`: the host, which runs one kernel
- `pacing`: the pace of simulated time against real time
- `inbox`: arrivals, which are inputs and outcomes of effects
- `effect_tasks`: carries out effects in tasks
- `replayer`: replays a run from its record
- `time_slicer`: runs a kernel in short slices of real time
- `until`: runs a host until a time or a condition
- `watchdog`: reports steps that block the run
"""

"""Edge: runs a kernel inside an asyncio or trio program, in real time, and carries out effects.

Modules:

- `host`: the host, which runs one kernel
- `effect_tasks`: carries out effects in tasks
- `replayer`: replays a run from its record
- `time_slicer`: runs a kernel in short slices of real time
- `until`: runs a host until a time or a condition
- `watchdog`: reports steps that block the run
"""

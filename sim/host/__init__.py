"""The edge: runs a kernel inside an asyncio or trio program, in real time, and carries out effects.

May import: `world` and below. Read first: `host.py` (runs one kernel), then `arrivals.py` (what arrives) and
`replayer.py` (arrivals from a record).
"""

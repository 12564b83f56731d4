"""Attribution: why a recorded run came out as it did. When did its outcome become likely, and what decided it?

May import: `runner` and below, and the other modules of experiments. Read first: `futures.py` (many futures of one
past), then `curve.py` (turning points), then `deciding.py` (what decided it).
"""

"""Shrinks a scenario to the smallest file that still violates a property.

Read first: `shrinking.py` (what is tried, in which order), `still_fails.py` (when a smaller file is accepted).
"""

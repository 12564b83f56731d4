"""Experiments: many runs of one scenario, with other values and seeds, and what they say together.

Modules: `pool` (long-lived worker processes), `estimate` (means over seeds, with intervals), `charts`.
"""

"""Many runs of one scenario, with other values, seeds or modes, and what they say together.

Here are sweeps, arms, scores, and in `bench` comparisons of modes. May import: `runner` and below. Read first:
`plan.py` (what is to be run), `experiment.py` (carries it out), `estimate.py` (means over seeds, with intervals).
"""

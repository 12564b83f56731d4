"""Experiments: many runs of one scenario, with other values and seeds, and what they say together.

The modules, from the question to the page:

    points       combinations of values, one for each varied key
    designs      which combinations are tried
    sweep_plan   the plan of a sweep: combinations, seeds, precision
    trial        one run and its measurements
    measure      runs one trial, in a worker (edge)
    pool         long-lived worker processes (edge)
    results      the file to which each trial is written
    sweep        carries out a plan, and evaluates it
    estimate     means over seeds, with confidence intervals
    sweep_page   the page, with `charts`
"""

"""Experiments: many runs of one scenario, with other values and seeds, and what they say together.

The modules of sweeps and arms, from the question to the page:

    points       combinations of values, one for each varied key
    designs      which combinations are tried
    plan         the plan: combinations or arms, seeds, precision
    arms         the arms of a run: their plan, their differences, the agents that they reached
    trial        one run and its measurements
    reach        when the events of an agent begin to differ
    measure      runs the trials of a job, in a worker (edge)
    workers      who does the jobs: `pool` (processes, edge) or `ray_workers` (a Ray cluster, edge)
    results      the file to which each trial is written
    experiment   carries out a plan, and evaluates it
    estimate     means over seeds, with confidence intervals
    folder       the folder with all files
    tables       tables for a terminal and for notebooks
    page         the page, with `figures`, which are drawn by `charts`

The modules of scores:

    scoring      scores recorded runs, by queries and by judges (edge)
    scores       the file of the scores of judges, and what scores say together
    variance     how much of their variance comes from judges, seeds and agents
"""

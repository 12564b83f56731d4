"""The bench: an experiment that runs one scenario in several modes with the same seeds, and compares them.

Its plan, jobs, results and folder are those of all experiments. Here is what it alone has:

    plan              makes the plan: varied values, seeds, modes
    job               a job: all modes of one seed, in one process (edge)
    concurrency       calls of language models in flight, over simulated time
    sessions          when and on which machine it was measured (edge)
    outcome_distance  the distance of the outcomes of two runs
    rows              the results by combination and mode
    files             what follows from them: page, JSON, CSV
    page              the page, with `page_parts`, and the sections `outcomes` and `page_notes`
"""

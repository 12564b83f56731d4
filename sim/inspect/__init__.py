"""Looking at runs, under way or over. It reads, and changes nothing.

Here are the page that plays a run, reports, metrics for Prometheus, runs as Python objects, and two runs side by side.
May import: `experiments` and below. Read first: `analysis/run.py` (a run as an object), then
`viewer/view.py` (how a record becomes a page).
"""

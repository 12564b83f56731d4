"""The report: one HTML file that shows what happened in a run, made from its record alone.

One pass over the events feeds collectors, each of which keeps a bounded amount and says what the page needs as JSON:

    bins      the span of a run in equal parts, over which everything is counted
    states    how many agents were in each state, and a swimlane for each agent
    topics    how many events of each kind; actions; what the scenario sampled and agents observed
    usage     what was taken from limits, against what they allow
    models    calls of language models; effects
    graph     who addressed or paid whom
    errors    errors, refusals and alerts
    people    a row and a story for each agent
    collect   the pass
    page      the file: data, style and script (those in `web`) in one, under a policy that allows nothing else
"""

from sim.report.collect import collect
from sim.report.page import REPORT, render, write_report

__all__ = ["REPORT", "collect", "render", "write_report"]

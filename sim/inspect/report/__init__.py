"""The report: one HTML file that shows a run, made from its record only.

One pass over the events feeds collectors. Each collector keeps a bounded amount of data, and returns JSON for the page:

    bins        equal parts of the simulated time of a run, for counts over time
    states      the number of agents in each state, and a swimlane for each agent
    topics      counts of events and actions; metrics and observations
    limits      the use of limits, budgets and quotas
    models      calls of language models; effects
    gates       the calls that a person had to approve
    tasks       what agents had to do
    channels    what employees posted
    conversations  what people and agents wrote to each other
    graph       the graph of messages or payments between agents
    errors      errors, refusals and alerts
    surveys     the answers to surveys, by time and group
    people      a row and a history for each agent
    collect     the pass over the events
    page        the file: data, style and script (from `web`), with a content security policy
"""

from sim.inspect.report.collect import collect
from sim.inspect.report.page import REPORT, render, write_report

__all__ = ["REPORT", "collect", "render", "write_report"]

"""The viewer: what a run looked like in time and space, what its agents said, and what came out of it, as one page.

The record is read once, and cut by time into *chunks*. Each chunk has a *keyframe* (the state of all agents at its
start), the changes after it, and the events as they were recorded. The page decodes a chunk when it is needed. So
moving to any time is fast, however long the run is.

    names       the agents, channels, conversations and users that are named, by number
    starts      places and balances at the start of a run, which no event has
    states      what is known of each agent: state, place, balance, last action
    contacts    who said something to whom, or paid
    map         what the map shows: a plane, a grid, a graph of places, or contacts
    series      curves over the whole run, thinned out
    chunks      the pass over the events, which cuts chunks
    calls       calls of models and other effects, with all that was asked and answered
    blocks      compressed parts of the data, in a page or in a file
    view        all of these together, for a run of which more may come
    bins        equal parts of the simulated time of a run, for counts over time
    folds       what events add up to: one pass over them feeds all folds
    section     a section of the overview: a fold and the script that draws it
    sections    the sections, each in a module and a script of its own
    room        how much text a section has room for
    overview    the settings and totals of a run, and its sections
    page        the page as one file
    server      the page on this machine, which follows a run
"""

from sim.inspect.viewer.page import REPORT, VIEW, WrittenView, write_view
from sim.inspect.viewer.server import ViewServer

__all__ = ["REPORT", "VIEW", "ViewServer", "WrittenView", "write_view"]

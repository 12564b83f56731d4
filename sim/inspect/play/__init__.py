"""Playing a scenario: a person starts, pauses, steps and changes a run on a page in the browser, while it is computed.

The run is an ordinary one, in a thread of its own, with an ordinary run folder. Whether it continues, and how fast, is
asked between its instants and is no part of it, so it is not on record. What a person changes in it is an input, as
from a terminal. The page is served by another process, which reads the record.

    gate      asked by the host between two instants: whether the run continues, and how fast
    changes   what a person does in a run: sets controls, talks to agents, decides; and the list of what was done
    player    one run after the other: setup, go, pause, step, speed, stop
    requests  what a window of the page asks for
    pipe      the messages between the process of the run and that of the page
    server    the process of the run: carries out requests, and sends what the page shows of its state
    site      the process of the page
"""

from sim.inspect.play.player import ScenarioPlayer
from sim.inspect.play.server import PlayOptions, PlayServer, play

__all__ = ["PlayOptions", "PlayServer", "ScenarioPlayer", "play"]

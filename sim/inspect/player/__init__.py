"""The player: a run that a person starts, holds, steps and changes on a page in the browser, while it is computed.

The run is an ordinary one, in a thread of its own, with an ordinary run folder. Whether it goes, and how fast, is asked
between its instants and is no part of it: so nothing of that is on record. What a person changes in it is an input,
as from a terminal.

    gate      asked by the host between two instants: whether the run goes on, and how fast
    changes   what a person changes in a run: its controls, what is said and decided, and the list of that
    player    one run after the other: setup, go, pause, step, speed, stop
    server    the page on this machine, and the requests of its windows
"""

from sim.inspect.player.player import Player
from sim.inspect.player.server import PlayOptions, PlayServer, play

__all__ = ["PlayOptions", "PlayServer", "Player", "play"]

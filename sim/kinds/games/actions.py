"""The action `play`."""

from typing import Any

from sim.kinds.games.prompts import MODEL, asked
from sim.kinds.games.service import Games
from sim.world import Inhabitant, World
from sim.world.action import action


async def _play(world: World, agent: Inhabitant, move: Any = None) -> dict[str, Any]:
    """Make the moves of an agent, and wait until the round is over."""
    game = Games.of(world).of_agent(agent)
    if move is None and agent.state.get("strategy") == MODEL:
        move = await asked(world, agent, game)
    return await game.play(agent.agent_id, game.checked(agent.agent_id, move))


@action("play", wait=_play, ends=True, everywhere=False, draws=False)
def play(world: World, agent: Inhabitant, played: dict[str, Any], move: Any = None) -> dict[str, Any]:
    """Make a move in the present round of a game, and wait until all players have moved.

    Args:
        move: the move, or a list with one for each match of the agent; a number in a public good.
    """
    return played

"""Players: agents that play by a strategy, or ask a language model for their moves."""

import math
from collections.abc import Mapping
from typing import Any

from sim.actors import Agent
from sim.agents.family import Family, define_family
from sim.agents.toolbox import agent_expression
from sim.base.expressions import no_such
from sim.kinds.games.actions import play
from sim.kinds.games.checks import check_games, check_params
from sim.kinds.games.prompts import MODEL
from sim.kinds.games.seat import Move, Seat
from sim.kinds.games.service import PLAYER, Games
from sim.kinds.games.settings import MOVE_NAMES
from sim.kinds.games.strategies import Strategy, known_strategies
from sim.world import Action, ActionResult, World


class Player(Agent):
    """An agent that plays by a strategy. A subclass can define `choose` instead.

    Args:
        agent_id, world, group, permission, params: see `Agent`.
    """

    class Params:
        """How a player plays.

        Args:
            strategy: the name of a strategy: one of the game, one that comes with games, or `model`.
            wording: for a model: the name of a wording of the game.
        """

        strategy: str = "tit_for_tat"
        wording: str = ""

    def __init__(self, agent_id: str, world: World, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        self.state = {"strategy": getattr(self.params, "strategy", ""), "payoff": None, "cooperation": None}
        self._strategies: dict[str, Strategy] = {}

    def about(self) -> Mapping[str, Any]:
        """See `Agent.about`: its strategy and its mean payoff."""
        return {"game": f"strategy {self.state['strategy']}, mean payoff {self.state['payoff']}"}

    def choose(self, seat: Seat) -> Move:
        """Return the move of a seat. A subclass can override it.

        Args:
            seat: what the player knows of one match.
        """
        name = self.state["strategy"]
        strategy = self._strategies.get(name)
        if strategy is None:
            strategy = self._strategies[name] = self._strategy_of(name)
        return strategy(seat, self.rng)

    def _strategy_of(self, name: str) -> Strategy:
        game = Games.of(self.world).of_agent(self)
        text = game.settings.strategies.get(name)
        if text is None:
            built_in = known_strategies(game.settings)
            if name not in built_in:
                raise no_such(f"{self.agent_id}: there is no strategy", name, [*built_in, *game.settings.strategies])
            return built_in[name]
        expression, toolbox = agent_expression(text, MOVE_NAMES, name), Games.of(self.world).toolbox

        def move(seat: Seat, draws: Any) -> Move:
            other = seat.others[0] if len(seat.others) == 1 else None
            past = {"mine": seat.mine, "theirs": seat.theirs, "payoffs": seat.payoffs, "played": len(seat.mine)}
            present = {"left": seat.left, "other": other, "me": self.agent_id, "now": self.world.now, "pi": math.pi}
            chosen: Move = expression.evaluate({**past, **present}, toolbox.used_by(self))
            return chosen

        return move

    async def decide_action(self) -> Action:
        """Play the next round; stop when the game is over."""
        return self.decide_now()

    def decide_now(self) -> Action:
        """See `decide_action`."""
        game = Games.of(self.world).of_agent(self)
        if game.over:
            return Action("stop")
        if self.state["strategy"] == MODEL:
            return Action("play")
        return Action("play", {"move": [self.choose(seat) for seat in game.seats(self.agent_id)]})

    def after_action(self, result: ActionResult) -> None:
        """Note the mean payoff of this generation so far."""
        if result.success and isinstance(result.data, dict) and "payoff" in result.data:
            tally = Games.of(self.world).of_agent(self).standing[self.agent_id]
            self.state["payoff"], self.state["cooperation"] = tally.mean, tally.share


define_family(
    Family(
        PLAYER,
        Player,
        needs={"games": "plays a game"},
        check=check_games,
        fits=check_params,
        actions=(play,),
        draws=("the moves of strategies that are not certain of theirs",),
    )
)

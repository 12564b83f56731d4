"""Prompts: the text for a language model that plays a game, and how its answers become moves."""

from functools import partial
from typing import Any, Final

from sim.agents.engine import prompt
from sim.agents.interview import Question, answer_in_form
from sim.kinds.games.seat import Move, Seat
from sim.kinds.games.service import Game
from sim.llm.service import Models
from sim.llm.types import ChatMessage, ModelRequest
from sim.world import World

MODEL: Final = "model"
"""The strategy of players that ask a language model."""

USE: Final = "game"
"""The use case of the model calls, as in `models.uses`."""

_SHOWN: Final = 20  # rounds of a match in a prompt
_WORDING: Final = "You play a game with others. Choose what you do in the next round."


async def asked(world: World, agent: Any, game: Game) -> list[Move]:
    """Return the moves that a model gives for an agent: one call, or two, for each of its seats."""
    return [await _asked(world, agent, game, seat) for seat in game.seats(agent.agent_id)]


async def _asked(world: World, agent: Any, game: Game, seat: Seat) -> Move:
    good = game.settings.public_good
    question = (
        Question("What do you do?", options=seat.moves)
        if good is None
        else Question("How much do you contribute?", scale=(0, int(good.endowment)))
    )
    wording = game.settings.wordings.get(agent.params.wording, _WORDING)
    system = prompt(wording, [("persona", agent.persona), ("rules", _rules(seat)), ("rounds", _past(seat))])
    messages = ChatMessage("system", system), ChatMessage("user", f"{question.ask} {question.form}")
    request = ModelRequest(messages, use=USE)
    answer = await answer_in_form(partial(Models.of(world).complete, agent), agent.agent_id, question, request)
    if answer.value is None:
        game.miss(agent.agent_id, str(answer.error))
    return answer.value


def _rules(seat: Seat) -> list[str]:
    good = seat.game.public_good
    if good is None:
        other = seat.game.moves(1 - seat.side if seat.game.against else 0)
        lines = [
            f"If you choose {mine} and the other chooses {theirs}, you get {seat.payoff(mine, theirs):g}."
            for mine in seat.moves
            for theirs in other
        ]
    else:
        lines = [
            f"{len(seat.others) + 1} players, of whom you are one, get {good.endowment:g} each and contribute a part.",
            f"Contributions are multiplied by {good.multiplier:g} and shared equally. Each keeps what it has left.",
        ]
    left = "not known to you" if seat.left is None else f"{seat.left}, with this one"
    return [*lines, f"Rounds that are left: {left}."]


def _past(seat: Seat) -> list[str]:
    rounds = list(enumerate(zip(seat.mine, seat.theirs, seat.payoffs, strict=True), 1))
    other = "the other" if seat.game.public_good is None else "the others, on average"
    return [
        f"Round {number}: you {_shown(mine)}, {other} {_shown(theirs)}; you got {_shown(payoff)}."
        for number, (mine, theirs, payoff) in rounds[-_SHOWN:]
    ] or ["This is the first round."]


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

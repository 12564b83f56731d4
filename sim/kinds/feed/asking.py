"""Users that ask a language model: what it is shown, and its reactions as calls of tools."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sim.agents.engine import CoreLoop, LoopLimits, prompt, time_context
from sim.llm.service import Skipped
from sim.llm.types import ChatMessage, ModelRequest
from sim.tools import Tools
from sim.world import Action, Refused, World

USE: Final = "feed"
"""The use case of the model calls, as in `models.uses`."""

_INSTRUCTIONS: Final = (
    "You use a social network. You are shown posts. React as you would, by calling tools, or not at all. "
    "When you are done, answer without calling a tool."
)
_LIMITS: Final = LoopLimits(iterations=5)


async def asked(world: World, agent: Any, actions: Iterable[str]) -> Mapping[str, Any]:
    """Show a user its feed, let a model react, and return how that ended.

    Args:
        world: the world.
        agent: the user.
        actions: the kinds of action that it can react with, as tools.

    Raises:
        Refused: if no model answered.
    """
    seen = await world.execute(agent, Action("browse_feed"))
    if not seen.success:
        raise Refused(f"the feed was not shown: {seen.error}")
    posts = seen.data["posts"]
    sections = [("persona", agent.persona), ("profile", agent.profile()), ("time_context", time_context(world))]
    system = prompt(agent.params.wording or _INSTRUCTIONS, sections)
    shown = prompt("Your feed:", [("posts", [_line(post) for post in posts] or ["There is nothing new."])])
    tools = Tools.of(world).offered(agent, [f"world.{kind}" for kind in actions])
    loop = CoreLoop(world, agent, tools, limits=_LIMITS, request=ModelRequest((), use=USE))
    result = await loop.run([ChatMessage("system", system), ChatMessage("user", shown)])
    if isinstance(result.cause, Skipped):
        raise Refused(str(result.error), skip=True)
    if result.cause is not None or result.ending == "invalid_answer":
        raise Refused(f"no reaction: {result.error}")
    return {"shown": len(posts), "tools": result.tools, "ending": result.ending}


def _line(post: Mapping[str, Any]) -> str:
    said = [f"{post[name]} {name}" for name in ("likes", "dislikes", "reposts", "replies") if post[name]]
    about = [post["topic"], f"{post['age'] / 3600:.1f} h ago", *said]
    via = f", reposted by {post['via']}" if post["via"] else ""
    line = f"{post['post']}. {post['author']}{via} ({', '.join(part for part in about if part)}): {post['text']}"
    return " ".join(line.split())  # a line break in a post would begin a line that looks like another post

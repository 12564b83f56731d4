"""What a scenario says of chat agents: personas, budgets, modules, the corpus.

The defaults are from the rules in `docs/seed_rules.md`.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import attrs

from sim.agents.engine import LoopLimits
from sim.base.errors import UsageError
from sim.kernel.duration import NS
from sim.world.section import PositiveDuration, Range

DAY_NS: Final = 86_400 * NS

Tokens = Annotated[int, Range(1, 100_000_000)]
Budget = Annotated[int, Range(0, 100_000_000)]
Count = Annotated[int, Range(1, 100_000)]


@attrs.frozen
class Persona:
    """Who an agent is in a place: on a server, on a platform, or by default.

    Args:
        prompt: its system prompt.
        platform: the platform on which it appears; null: it is only the default.
        server: the server of this platform; null: the whole platform.
        default: whether it appears where no other does.
        modules: the modules whose tools may be used, such as `research`.
        model: the tier of the model; null: that of the use case.
        max_tokens: the longest answer in tokens; null: that of `models`.

    Raises:
        UsageError: if a server has no platform, or the persona appears nowhere.
    """

    prompt: str
    platform: str | None = None
    server: str | None = None
    default: bool = False
    modules: tuple[str, ...] = ()
    model: str | None = None
    max_tokens: Tokens | None = None

    def __attrs_post_init__(self) -> None:
        if self.server is not None and self.platform is None:
            raise UsageError("a server belongs to a platform", hint="give `platform`")
        if self.platform is None and not self.default:
            raise UsageError("the persona appears nowhere", hint="give `platform`, or `default: true`")


@attrs.frozen
class BudgetSettings:
    """How many tokens a user may use in a period. With 0, nothing is answered.

    Args:
        rule: `strict`: what a call may use is set aside before it is made, so a budget is never exceeded; `seed`: it
            is checked once, before a message is answered, so that one answer may exceed it.
        guest: the tokens of a guest; null: unlimited.
        user: the tokens of a user; null: unlimited.
        admin: the tokens of an admin; null: unlimited.
        owner: the tokens of an owner; null: unlimited.
        users: the tokens of single users, by platform and account; null: unlimited.
        period: the length of a period. The first begins when the user is made.
    """

    rule: Literal["strict", "seed"] = "strict"
    guest: Budget | None = 5_000
    user: Budget | None = 50_000
    admin: Budget | None = None
    owner: Budget | None = None
    users: Mapping[str, Mapping[str, Budget | None]] = attrs.field(factory=dict)
    period: PositiveDuration = 30 * DAY_NS


@attrs.frozen(kw_only=True)
class ChatLimits(LoopLimits):
    """The limits of one answer, before each model call.

    Args:
        iterations: the most model calls.
        same_tool: how often the same tool may be called in a row; null: no limit.
        time: the longest simulated time.
        history: the most messages of the model history; null: no limit but the window.
        tokens: the most tokens of all calls; null: no limit but the budget.
        cost: the most money for all calls; 0: none is made; null: no limit.
        invalid_answers: how many answers are tolerated of which nothing can be used.
        result_length: how many characters of a tool's result the model sees.
    """

    iterations: Annotated[int, Range(1, 1000)] = 10
    same_tool: Annotated[int, Range(1, 1000)] | None = None


@attrs.frozen
class CorpusPage:
    """A page of the corpus, which `research.web_search` searches.

    Args:
        title: its title.
        text: its text.
        url: its address.
    """

    title: str
    text: str
    url: str


@attrs.frozen
class ChatSettings:
    """Agents that answer in chats: personas, budgets, limits, and what their tools work on.

    Args:
        personas: the personas by name.
        prompt: the system prompt where there is no persona.
        guest_modules: the modules whose tools may be used where there is no persona.
        tools: the names of further tools, such as `world.transfer`, for personas that have their module.
        rights: whose levels allow a tool: `least`, those of all whose texts are in the prompt, the lowest counts; or
            `own`, that of the user who asks alone.
        budget: the tokens of users.
        limits: the limits of one answer.
        memories: how many semantic memories of a user are in a prompt.
        window: the most tokens of recent messages in a prompt.
        context: the most tokens of a prompt; a model with a smaller context window has less.
        summarise: whether what is older than the window is summarised, and semantic memories are taken from it.
        idle: the silence after which the agent of a conversation is let go; the next message makes another one.
        corpus: the pages that can be searched, by name.
        jobs: the most scheduled jobs of a user.
        files: the most files of a user.
        file_length: the most characters of a file.
    """

    personas: Mapping[str, Persona] = attrs.field(factory=dict)
    prompt: str = "You are a helpful assistant."
    guest_modules: tuple[str, ...] = ("research",)
    tools: tuple[str, ...] = ()
    rights: Literal["least", "own"] = "least"
    budget: BudgetSettings = attrs.field(factory=BudgetSettings)
    limits: ChatLimits = attrs.field(factory=ChatLimits)
    memories: Annotated[int, Range(0, 100)] = 5
    window: Tokens = 4_000
    context: Tokens = 16_000
    summarise: bool = True
    idle: PositiveDuration = 1800 * NS
    corpus: Mapping[str, CorpusPage] = attrs.field(factory=dict)
    jobs: Count = 20
    files: Count = 100
    file_length: Annotated[int, Range(1, 1_000_000)] = 100_000

    def __attrs_post_init__(self) -> None:
        places: dict[tuple[str | None, str | None], str] = {}
        for name, persona in self.personas.items():
            places_of: list[tuple[str | None, str | None]] = [(None, None)] if persona.default else []
            if persona.platform is not None:
                places_of.append((persona.platform, persona.server))
            for place in places_of:
                if place in places:
                    where = "are the default" if place == (None, None) else "appear at the same place"
                    raise UsageError(f"the personas {places[place]!r} and {name!r} {where}", hint="only one can")
                places[place] = name


@attrs.frozen
class ChatAgentSettings:
    """The template of the agents that answer, one for each conversation.

    Args:
        use: the use case of the model calls, as in `models.uses`.
    """

    use: str = "agent"

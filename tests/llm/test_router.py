"""Which model answers what, in which order, and why."""

from typing import get_args

import pytest

from sim.base.errors import UsageError
from sim.llm.prices import Price, Prices, TokenPrices
from sim.llm.router import Router, Target, step_down, steps_down
from sim.llm.types import ChatMessage, ErrorClass, ModelError, ModelRequest, Sampling

SMALL, LARGE, OTHER = Target("openai", "small"), Target("openai", "large"), Target("local", "llama3:8b")


def ask(use="agent", tier=None, max_tokens=None):
    """Return a request."""
    return ModelRequest((ChatMessage("user", "hello"),), sampling=Sampling(max_tokens=max_tokens), use=use, tier=tier)


@pytest.fixture
def router():
    """Return a router with all kinds of choices."""
    return Router(
        {"small": (SMALL,), "large": (LARGE, SMALL, OTHER)},
        default="small",
        uses={"judge": "large", "vote": "local:voter"},
        agents={"ann": {"judge": "small", "*": "large"}},
        groups={"experts": {"summary": "large", "*": "local:expert"}},
    )


@pytest.mark.parametrize(
    ("agent", "group", "use", "tier", "models", "why"),
    [
        ("bob", "all", "agent", None, ["small"], "default"),
        ("bob", "all", "unheard of", None, ["small"], "default"),
        ("bob", "all", "judge", None, ["large", "small", "llama3:8b"], "use"),
        ("bob", "all", "vote", None, ["voter"], "use"),
        ("bob", "all", "judge", "small", ["small"], "request"),
        ("bob", "experts", "agent", None, ["expert"], "group"),
        ("bob", "experts", "judge", None, ["expert"], "group"),
        ("bob", "experts", "summary", "small", ["large", "small", "llama3:8b"], "group"),
        ("bob", "experts", "agent", "small", ["small"], "request"),
        ("ann", "experts", "agent", None, ["large", "small", "llama3:8b"], "agent"),
        ("ann", "experts", "judge", "large", ["small"], "agent"),
        ("ann", "experts", "agent", "small", ["small"], "request"),
        ("ann", "experts", "summary", None, ["large", "small", "llama3:8b"], "group"),
    ],
)
def test_the_special_goes_before_the_general(router, agent, group, use, tier, models, why):
    """Agent and use, group and use, tier of the request, agent, group, use, default: the first that is said counts."""
    route = router.route(agent, group, ask(use, tier))
    assert ([target.model for target in route.targets], route.why) == (models, why)


def test_a_route_names_its_tier(router):
    """A route knows the tier it comes from; a model that was named directly has none."""
    assert router.route("bob", "all", ask("judge")).tier == "large"
    assert router.route("bob", "all", ask("vote")).tier == ""


def windows(**sizes):
    """Return prices that only tell windows."""
    return Prices({name: Price(TokenPrices(0, 0, 0), context=size) for name, size in sizes.items()})


@pytest.mark.parametrize(
    ("tokens", "models", "skipped"),
    [(100, ["a", "b", "c"], 0), (101, ["b", "c"], 1), (1001, ["c"], 2)],
)
def test_models_that_cannot_read_it_are_left_out(tokens, models, skipped):
    """A window that is known to be too small rules a model out, with the reason; an unknown one does not."""
    chain = [Target("p", name) for name in "abc"]
    router = Router({"all": chain}, default="all", prices=windows(a=100, b=1000))
    route = router.route("x", "", ask(), tokens)
    assert [target.model for target in route.targets] == models
    assert len(route.skipped) == skipped
    assert all(f"{tokens} tokens" in reason for reason in route.skipped)


def test_one_model_always_remains():
    """If all windows are too small the largest is asked all the same: the estimate may be wrong, the endpoint knows."""
    router = Router({"all": [Target("p", "a"), Target("p", "b")]}, default="all", prices=windows(a=100, b=1000))
    assert router.route("x", "", ask(), 5000).targets == (Target("p", "b"),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tiers": {"small": ()}, "default": "small"}, "no model"),
        ({"tiers": {"small": (SMALL,)}, "default": "smal"}, "unknown tier 'smal'"),
        ({"tiers": {"small": (SMALL,)}, "default": "small", "uses": {"judge": "x"}}, "unknown tier 'x'"),
        ({"tiers": {"small": (SMALL,)}, "default": "small", "agents": {"ann": {"*": ":x"}}}, "PROVIDER:NAME"),
        ({"tiers": {"small": (SMALL,)}, "default": "small", "groups": {"all": {"*": "x"}}}, "unknown tier 'x'"),
    ],
)
def test_dangling_names_are_refused_at_once(arguments, message):
    """A tier that is empty or not defined, or a model without its provider, is an error when the router is made."""
    with pytest.raises(UsageError, match=message):
        Router(arguments.pop("tiers"), **arguments)


def test_an_unknown_tier_names_the_nearest(router):
    """A request for a tier that is not there is refused with a hint."""
    with pytest.raises(UsageError) as caught:
        router.route("bob", "all", ask(tier="larg"))
    assert caught.value.hint == "did you mean 'large'?"


@pytest.mark.parametrize("text", ["", "openai", "openai:", ":small"])
def test_a_model_needs_its_provider(text):
    """PROVIDER:NAME needs both; a name may contain colons and comes back as it was written."""
    with pytest.raises(UsageError, match="PROVIDER:NAME"):
        Target.parse(text)
    assert str(Target.parse("local:llama3:8b")) == str(OTHER)


def test_what_another_model_would_not_mend_ends_the_chain():
    """A bad or overlong request and a refusal of the content do not step down; everything else does."""
    final = {kind for kind in get_args(ErrorClass) if not steps_down(kind)}
    assert final == {"bad_request", "context_length", "content"}


def test_a_step_down_says_why():
    """The reason names both models, the class of error and the number of tries."""
    assert step_down(LARGE, SMALL, ModelError("overload", "busy"), 3) == (
        "openai:large → openai:small: overload after 3 tries"
    )
    assert step_down(LARGE, SMALL, ModelError("quota", "spent"), 1).endswith("quota after 1 try")

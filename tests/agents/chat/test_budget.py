"""Token budgets: each rule is shown for what it promises, also when a user writes in many places at once."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.chat.community import Community, community, say
from tests.agents.people import Step

PERIOD = 30 * 86_400
ANSWER = [{"say": "word " * 60}]


def used(ran: Community, user: str = "user:1") -> int:
    """Return the tokens that the log has for a user."""
    (tokens,) = ran.rows(f"SELECT sum(input_tokens + output_tokens) FROM token_log WHERE user = '{user}'")  # noqa: S608
    return int(tokens or 0)


def at_once(count: int) -> list[Step]:
    """Return the steps of a person who writes in many channels at one moment."""
    return [say(1, "Tell me a story", f"channel-{n}") for n in range(count)]


SLOW: dict[str, Any] = {"provider": "simulated", "simulated": {"first_token": 30}, "max_tokens": 200}


@pytest.mark.parametrize("budget", [200, 500, 1000, 3000])
def test_strict_is_never_exceeded(tmp_path: Path, budget: int) -> None:
    """With twenty messages at once, calls side by side together use at most the budget; the rest is refused."""
    ran = community(tmp_path, ANSWER, at_once(20), chat={"budget": {"guest": budget}}, models=SLOW)
    assert 0 < used(ran) <= budget
    assert ran.refusals.count("budget") > 0
    assert len(ran.refusals) == 20
    account = ran.chats.budgets.accounts["user:1"]
    assert (account.used, account.held) == (used(ran), 0)


@pytest.mark.parametrize("budget", [200, 500, 1000])
def test_the_seed_checks_once_for_a_message(tmp_path: Path, budget: int) -> None:
    """One after the other, the last message may use more than is left, by at most one run."""
    steps = [say(60 * n, "Tell me a story") for n in range(1, 20)]
    ran = community(tmp_path, ANSWER, steps, chat={"budget": {"rule": "seed", "guest": budget}}, models=SLOW)
    runs = ran.rows("SELECT tokens FROM chat_responses WHERE refusal IS NULL ORDER BY id")
    assert sum(runs[:-1]) < budget <= sum(runs)
    assert ran.refusals[len(runs) :] == ["budget"] * (19 - len(runs))


def test_the_seed_overshoots_side_by_side(tmp_path: Path) -> None:
    """By the rule of the seed, all messages at one moment pass the check; this is what `strict` is for."""
    ran = community(tmp_path, ANSWER, at_once(20), chat={"budget": {"rule": "seed", "guest": 500}}, models=SLOW)
    assert ran.refusals == [None] * 20
    assert used(ran) > 500 * 3


def test_a_budget_is_renewed_thirty_days_after_the_user_was_made(tmp_path: Path) -> None:
    """The period begins with the user's first message, not with the run; it is the same for later periods."""
    first = 1000.0
    moments = [first, first + 60, first + PERIOD - 60, first + PERIOD, first + PERIOD + 60, first + 3 * PERIOD]
    steps = [say(at, "Tell me a story") for at in moments]
    ran = community(tmp_path, ANSWER, steps, chat={"budget": {"rule": "seed", "guest": 100}}, until="100d")
    assert ran.refusals == [None, "budget", "budget", None, "budget", None]
    assert ran.chats.budgets.resets == 2
    assert ran.rows("SELECT user, resets, used FROM user_budgets") == [
        ("user:1", 2, ran.chats.budgets.accounts["user:1"].used)
    ]
    resets = ran.rows("SELECT time FROM events WHERE topic = 'chat.budget_reset'")
    assert resets == [first + PERIOD, first + 3 * PERIOD]


@pytest.mark.parametrize("level", ["admin", "owner"])
def test_no_budget_is_unlimited(tmp_path: Path, level: str) -> None:
    """Admins and owners have no budget by default."""
    ran = community(tmp_path, ANSWER, at_once(30), levels={"ana": level}, models=SLOW)
    assert ran.refusals == [None] * 30
    assert used(ran) > 5000


def test_a_guest_has_five_thousand_tokens(tmp_path: Path) -> None:
    """The default of the seed; the answer says when the budget is renewed, and costs nothing."""
    steps = [say(60 * n, "Tell me a story " * 20) for n in range(1, 40)]
    ran = community(tmp_path, ANSWER, steps, calendar={"start": "2026-03-02T00:00", "zone": "UTC"})
    assert 4000 < used(ran) <= 5000
    assert ran.answers()[-1] == "Your token budget for this period is used up. It is renewed on 2026-04-01 00:01."
    assert ran.rows("SELECT DISTINCT tokens FROM chat_responses WHERE refusal = 'budget' AND iterations = 0") == [0]


def test_a_call_that_fails_gives_its_tokens_back(tmp_path: Path) -> None:
    """What was set aside for a call that no model answered can be used again."""
    rules = [{"when": "now < 30", "fail": "bad_request"}, *ANSWER]
    ran = community(tmp_path, rules, [say(1, "a"), say(60, "b")], chat={"budget": {"guest": 300}}, models=SLOW)
    assert ran.refusals == ["no_model", None]
    assert ran.chats.budgets.accounts["user:1"].held == 0


def test_two_users_have_two_budgets(tmp_path: Path) -> None:
    """What one user uses is not taken from another."""
    often = [say(60 * n, "Tell me a story") for n in range(1, 9)]
    steps = {"ana": often, "bo": [say(1000, "Tell me a story", "other")]}
    ran = community(tmp_path, ANSWER, steps, chat={"budget": {"guest": 500}}, models=SLOW)
    answers = dict(
        ran.rows("SELECT account, group_concat(coalesce(refusal, 'answered')) FROM chat_responses GROUP BY 1")
    )
    assert "budget" in answers["ana"]
    assert answers["bo"] == "answered"


def test_what_was_refused_is_not_answered_later(tmp_path: Path) -> None:
    """The prompt of the next person in a channel has the refusal, so the question is not open any more."""
    rules = [{"text": "{all*}", "say": "=str(len(text))"}]
    steps = {"ana": [say(60 * n, "What is this?") for n in range(1, 5)], "bo": [say(1000, "And this?")]}
    ran = community(tmp_path, rules, steps, chat={"budget": {"guest": 100}}, levels={"bo": "user"}, models=SLOW)
    assert "budget" in ran.refusals
    assert [role for role, _ in ran.messages()] == ["user", "assistant"] * 5
    (asked,) = ran.answers("bo")
    assert int(asked) < 100  # the text of one message, with its author

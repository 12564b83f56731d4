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


@pytest.mark.parametrize(("until", "over"), [("1h", False), ("30d", False), ("2592001s", True), ("100d", True)])
def test_a_budget_whose_period_is_over_is_whole_again(tmp_path: Path, until: str, over: bool) -> None:
    """At the end, a user who has not written since the renewal has the whole budget, and nothing is used of it."""
    ran = community(tmp_path, ANSWER, [say(1, "Tell me a story")], until=until)
    spent = 0 if over else used(ran)
    assert used(ran) > 0
    assert ran.rows('SELECT used, budget, "left", renewed FROM user_budgets') == [
        (spent, 5000, 5000 - spent, PERIOD + 1)
    ]


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
    left = 5000 - used(ran)
    assert ran.answers()[-1] == (
        f"Your token budget for this period has {left} tokens left, and this answer needs at least 216. "
        "It is renewed on 2026-04-01 00:01."
    )
    assert ran.rows('SELECT user, budget, used, "left", renewed_at FROM user_budgets') == [
        ("user:1", 5000, used(ran), left, "2026-04-01 00:01")
    ]
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


REFUSED = [say(60 * n, "What is this?", attachments=[{"filename": f"{n}.txt", "content": "x"}]) for n in range(1, 5)]


def test_what_a_person_is_refused_is_for_the_person(tmp_path: Path) -> None:
    """Neither refused messages nor refusals nor attachments are in a prompt, and no file is kept of them."""
    rules = [{"text": "{all*}", "say": "=str(len(conversation)) + ' ' + text"}]
    steps = {"ana": REFUSED, "bo": [say(1000, "And this?")], "cy": [say(1000, "And this?", "elsewhere")]}
    chat = {"budget": {"guest": 100}}
    ran = community(tmp_path, rules, steps, chat=chat, levels={"bo": "user", "cy": "user"}, models=SLOW)
    assert ran.refusals == ["budget"] * 4 + [None] * 2
    assert ran.rows("SELECT role, audience FROM conversation_messages WHERE conversation = 'conversation-1'") == [
        *[("user", "person"), ("assistant", "person")] * 4, ("user", "all"), ("assistant", "all"),
    ]  # fmt: skip
    tokens = ran.rows("SELECT input_tokens FROM token_log")
    assert len(set(tokens)) == 1  # in the channel of refusals as where no one has written
    assert ran.rows("SELECT file FROM files") == []
    assert ran.chats.conversations.behalf("conversation-1") == ("user:2",)


def test_a_refusal_during_an_answer_withholds_all_of_it(tmp_path: Path) -> None:
    """If the budget ends after some calls, no later prompt has the message, the calls, their results or the refusal."""
    search = {"research.web_search": {"query": "x"}}
    rules = [{"text": "again", "say": "=str(len(conversation))"}, {"say": "I look", "call": search}]
    steps = {"ana": [say(1, "go")], "bo": [say(600, "again")]}
    ran = community(tmp_path, rules, steps, chat={"budget": {"guest": 400}}, levels={"bo": "user"})
    assert ran.refusals == ["budget", None]
    assert ran.answers("bo") == ["2"]  # the prompt, and the message of bo
    seen = dict(ran.rows("SELECT role, group_concat(DISTINCT audience) FROM conversation_messages "
                         "WHERE time < 600 GROUP BY 1"))  # fmt: skip
    assert seen == {"user": "person", "assistant": "none,person", "tool_call": "person", "tool_result": "person"}
    ended = "SELECT ending, iterations > 0, tools > 0, tokens > 0 FROM chat_responses"
    assert ran.rows(ended) == [("user_budget", 1, 1, 1), ("natural_completion", 1, 0, 1)]


def test_a_budget_says_what_is_left_and_what_is_needed(tmp_path: Path) -> None:
    """A budget that no renewal makes large enough says so; without a calendar the renewal is a day of the run."""
    ran = community(tmp_path, ANSWER, [say(1, "hello")], chat={"budget": {"guest": 40}})
    assert ran.answers()[0].startswith("This answer needs at least ")
    assert ran.answers()[0].endswith(", more than your whole token budget of 40.")
    assert ran.rows("SELECT renewed_at FROM user_budgets") == ["day 31 at 00:00"]
    assert ran.rows("SELECT ending, iterations FROM chat_responses") == [("user_budget", 0)]
    long = "word " * 300
    ran = community(tmp_path / "b", ANSWER, [say(1, long), say(60, long)], chat={"budget": {"guest": 600}})
    assert ran.answers()[1].endswith("It is renewed on day 31 at 00:00.")
    assert "tokens left, and this answer needs at least" in ran.answers()[1]


def test_the_history_is_shortened_before_a_person_is_refused(tmp_path: Path) -> None:
    """If only the older messages make a call too large for the budget, they are left out, and that is counted."""
    steps = [say(60 * n, "Tell me " + "more " * 40) for n in range(1, 7)]
    rules = [{"say": "=str(len(conversation))"}]
    ran = community(tmp_path, rules, steps, chat={"budget": {"guest": 950}})
    assert ran.answers()[:4] == ["2", "4", "6", "4"]
    assert ran.rows("SELECT shortened FROM chat_responses LIMIT 4") == [0, 0, 0, 4]
    assert ran.result.services["chat"]["shortened"] == 1
    assert used(ran) <= 950


def test_a_single_user_has_a_budget_of_its_own(tmp_path: Path) -> None:
    """A number for one account stands before that of the level; null is unlimited."""
    budget = {"guest": 300, "users": {"chat": {"ana": None, "bo": 40}}}
    steps = {name: [say(60 * n, "Tell me a story", name) for n in range(1, 9)] for name in ("ana", "bo", "cy")}
    ran = community(tmp_path, ANSWER, steps, chat={"budget": budget}, models=SLOW)
    refused = dict(ran.rows("SELECT account, count(refusal) FROM chat_responses GROUP BY 1"))
    assert refused["ana"] == 0 < refused["cy"] < refused["bo"] == 8
    assert ran.rows("SELECT budget FROM user_budgets ORDER BY user") == [None, 40, 300]


def test_tokens_that_are_set_aside_are_not_used_up(tmp_path: Path) -> None:
    """While other messages are answered, a refusal says what is set aside for them, not that the budget is used up."""
    ran = community(tmp_path, ANSWER, at_once(2), chat={"budget": {"guest": 200}}, models=SLOW)
    (refused,) = [text for text in ran.answers() if "set aside" in text]
    assert refused.startswith("Your other messages are still being answered, and ")
    assert "needs at least" in refused
    assert refused.endswith("Please ask again when the others are answered.")
    assert sorted(map(str, ran.refusals)) == ["None", "budget"]


def test_a_budget_of_nothing_answers_nothing(tmp_path: Path) -> None:
    """Zero is a budget, not the lack of one, by both rules."""
    for rule in ("strict", "seed"):
        ran = community(tmp_path / rule, ANSWER, [say(1, "hi")], chat={"budget": {"rule": rule, "guest": 0}})
        assert ran.answers() == ["Your token budget is 0, so I cannot answer."]
        assert ran.rows("SELECT refusal, ending, tokens FROM chat_responses") == [("budget", "user_budget", 0)]


def test_a_budget_of_a_misspelt_account_is_told(tmp_path: Path) -> None:
    """A budget of an account that never wrote is a warning if an account of a similar name did."""
    ran = community(tmp_path, ANSWER, [say(1, "hello")], chat={"budget": {"users": {"chat": {"anna": 300}}}})
    (warned,) = [one for one in ran.result.warnings if "budget" in one["text"]]
    assert warned["text"] == "the budget of anna on chat had no effect: it never wrote"
    assert "did you mean 'ana'?" in warned["hint"]


def test_one_person_has_one_budget_on_all_platforms(tmp_path: Path) -> None:
    """Accounts that the scenario links are one user, with one level and one budget."""
    known = {"people": {"Ana": {"chat": "ana", "slack": "ana"}}, "levels": {"slack": {"ana": "user"}}}
    steps = [say(1, "hello"), say(60, "hello", platform="slack")]
    ran = community(tmp_path, ANSWER, steps, conversations=known)
    assert ran.rows("SELECT user, level, accounts FROM users") == [("user:1", "user", 2)]
    assert ran.rows("SELECT DISTINCT user FROM token_log") == ["user:1"]
    assert ran.rows("SELECT platform, account FROM platform_links") == [("chat", "ana"), ("slack", "ana")]
    assert len(ran.rows("SELECT user FROM user_budgets")) == 1

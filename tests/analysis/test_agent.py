"""The record of one agent, and the list of all agents of a run."""

import pytest

import sim


def test_an_agent_has_its_own_rows(run):
    """States, actions, messages, events and prompts of an agent are those of the run that concern it."""
    agent = run.agent("clerk-1")
    events = run.frame("events", as_="pandas", expand=False)
    to_it = (events["topic"] == "message.sent") & events["data"].str.contains('"to":"clerk-1"')
    mine = events[(events["actor"] == "clerk-1") | to_it]
    assert to_it.any()
    assert list(agent.events(as_="pandas", expand=False)["id"]) == list(mine["id"])
    assert set(agent.actions(as_="pandas")["agent"]) == {"clerk-1"}
    messages = agent.messages(as_="pandas")
    assert ((messages["sender"] == "clerk-1") | (messages["receiver"] == "clerk-1")).all()
    assert len(messages) < len(run.frame("messages", as_="pandas"))
    assert agent.states(as_="polars").columns == run.columns("transitions")
    assert len(agent.prompts(as_="arrow")) == 0
    assert agent.state == {"note": "<script>alert(1)</script>", "sold": 3}
    assert agent.final_state == "running"


def test_an_agent_tells_its_story(run):
    """The text of an agent is its events in order, as `sim show --agent` prints them, without the middle of many."""
    agent = run.agent("clerk-1")
    lines = list(agent.story())
    assert len(lines) == len(agent.events(as_="pandas"))
    shown = repr(agent).splitlines()
    assert shown[0] == f"clerk-1 in {run.info.id}: {len(lines)} events, running at the end"
    assert shown[1].strip() == "0s  state stopped > starting"
    assert shown[1:13] == lines[:12]
    assert shown[13].strip() == f"...  {len(lines) - 24} more events"
    assert shown[14:] == lines[-12:]


class Loud(sim.Agent):
    """Publishes text that acts on a terminal."""

    async def decide_action(self) -> sim.Action:
        return sim.Action("publish", {"topic": "x", "data": "\x1b[2J\u202e"})


def test_control_characters_do_not_reach_a_terminal(tmp_path):
    """Text of agents is escaped in a story."""
    (tmp_path / "loud.yaml").write_text("name: loud\nuntil: 1s\nagents: [{name: a, kind: loud}]\n")
    with sim.open(sim.run(tmp_path / "loud.yaml", kinds={"loud": Loud}, out=tmp_path)) as run:
        text = repr(run.agent("a")) + run.agent("a")._repr_html_()
    assert "u001b[2J" in text
    assert text.replace("\n", "").isprintable()


def test_an_unknown_agent_is_refused_with_the_nearest_name(run):
    """A name that the run does not have gets one sentence; as a key of `agents` it is a KeyError, as in any mapping."""
    with pytest.raises(sim.UsageError, match="the run has no agent 'clrk-1'; did you mean 'clerk-1'"):
        run.agent("clrk-1")
    with pytest.raises(KeyError, match="clrk"):
        run.agents["clrk-1"]
    assert "clrk-1" not in run.agents


def test_agents_are_listed_with_what_they_did(run):
    """The list has each agent with its last state and its counts; its figures add up to those of the record."""
    agents = run.agents
    assert list(agents) == ["clerk-1", "clerk-2"]
    assert agents["clerk-2"].name == "clerk-2"
    table = agents.frame(as_="pandas")
    assert list(table.columns) == ["agent", "state", "events", "actions", "refused", "sent", "model_calls"]
    ((done, refused),) = run.query("SELECT sum(success), sum(NOT success) FROM actions")
    assert (table["actions"].sum(), table["refused"].sum()) == (done, refused)
    assert table["sent"].sum() == len(run.frame("messages", as_="pandas"))
    assert repr(agents).splitlines()[0].split() == [
        "agent",
        "state",
        "events",
        "actions",
        "refused",
        "sent",
        "model",
        "calls",
    ]


def test_a_long_list_is_cut(tmp_path):
    """Of many agents, the first are shown, and how many more there are."""
    (tmp_path / "crowd.yaml").write_text("name: crowd\nuntil: 1s\nagents: [{name: a, count: 70}]\n")
    with sim.open(sim.run(tmp_path / "crowd.yaml", out=tmp_path)) as run:
        assert len(run.agents) == 70
        lines = repr(run.agents).splitlines()
    assert len(lines) == 62
    assert lines[-1] == "... 10 more"

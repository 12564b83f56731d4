"""Policy agents: agents that follow the rules of a scenario entry.

Each iteration tests the rules in order. The first rule whose `when` is true is the decision. Rules can use the names in
a `Scope` and the functions in the `Toolbox` of the world.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.actors.mailbox import Pending, message_names
from sim.agents.family import AgentPlan, Family, Make, WorldPlan, define_family
from sim.agents.reading import Lets, NamedValue, Reader, Reading, all_of
from sim.agents.rule_code import OwnAttribute, RuleCode, Value
from sim.agents.toolbox import DRAWS, Toolbox
from sim.base.expressions import Bindings, Expression, Functions, Names
from sim.base.permissions import Permission
from sim.events import Event, Subscription
from sim.kernel import to_seconds
from sim.kernel.rng import Draws, derive
from sim.world import Action, ActionResult, Message, Sharing, World


@attrs.frozen
class PolicyAction:
    """One action of a rule.

    Args:
        kind: the kind of action.
        arguments: its arguments; `sleep` has one, `condition`.
        reason: the reasoning of the action, for the record.
    """

    kind: str
    arguments: Mapping[str, Value]
    reason: str = ""
    constant: Action | None = attrs.field(init=False)  # the action itself, if every argument is a literal

    @constant.default
    def _constant(self) -> Action | None:
        if all(value.constant for value in self.arguments.values()):
            return Action(self.kind, {name: v.evaluate({}, {}) for name, v in self.arguments.items()}, self.reason)
        return None


@attrs.frozen
class PolicyRule:
    """A condition, and the actions that the agent takes if it holds.

    Args:
        when: the condition; None: always true.
        actions: at least one action; each further action is executed only if the previous one succeeded.
        set: new values of state variables, computed after all actions succeeded.
        record: values to record as observations, computed before `set`.
        let: values that have a name within the rule, in order, each computed once before `when`.

    Attributes:
        reading: how `when` depends on messages; None: the rule does not use `message`.
        draws: whether `when` draws random numbers.
    """

    when: Expression | None
    actions: tuple[PolicyAction, ...]
    set: Mapping[str, Value]
    record: Mapping[str, Value]
    let: Mapping[str, NamedValue] = attrs.field(factory=dict)
    reading: Reading | None = attrs.field(init=False)
    draws: bool = attrs.field(init=False)

    @reading.default
    def _reading(self) -> Reading | None:
        arguments = (value for action in self.actions for value in action.arguments.values())
        values = (*arguments, *self.set.values(), *self.record.values(), *self.let.values())
        if (self.when is not None and "message" in self.when.names) or any("message" in v.names for v in values):
            return Reading.of(self.when, self.let)
        return None

    @draws.default
    def _draws(self) -> bool:
        return self.when is not None and bool(all_of(self.when, self.let)[1] & DRAWS)


_NOTHING: Bindings = {}  # never written


class RuleSet:
    """The rules that all agents of one entry share. A branch of a run can replace them.

    Attributes:
        rules: the rules in order; the first one that applies is used.
        latest: the functions that `code` has returned last. They can be those of earlier rules.
    """

    __slots__ = ("latest", "rules")

    def __init__(self, rules: tuple[PolicyRule, ...]) -> None:
        self.rules = rules
        self.latest: RuleCode | None = None

    def code(self, toolbox: Toolbox) -> RuleCode:
        """Return the functions of the present rules, over the functions of a world."""
        code = self.latest
        if code is None or code.rules is not self.rules or code.toolbox is not toolbox:
            code = self.latest = RuleCode(self.rules, toolbox, _COMPUTED, Scope)
        return code


class Scope(Lets):
    """The names that a rule can use: the state variables of the agent, and names that are computed at first use.

    Args:
        agent: the agent.
        let: values that its rule has named, as computed before.
    """

    __slots__ = ("agent",)

    def __init__(self, agent: "PolicyAgent", let: Names | None = None) -> None:
        super().__init__(agent.state)
        self.agent = agent
        self.let = {}
        if let:
            self.update(let)

    def __missing__(self, name: str) -> Any:
        agent, named = self.agent, self.let.get(name)
        value = self[name] = _COMPUTED[name](agent) if named is None else named.evaluate(self, agent.functions)
        return value


class PolicyAgent(Agent):
    """An agent that follows the rules of a scenario entry.

    Args:
        agent_id: the name of the agent.
        world: the world of the agent.
        toolbox: the functions that its rules can call.
        rule_set: its rules.
        index: zero-based index within the agents of its entry.
        subscribe: topic patterns; the agent gets one matching event per iteration.
        group: the group of the agent.
        permission: the level of trust of the agent.
        reach: which data its rules read and change; see `Agent.reach`.
    """

    __slots__ = (
        "_chosen", "_code", "_draws", "_let", "_message_draws", "_patterns", "_place", "_reader", "_seen",
        "_subscriptions", "_taken", "_toolbox", "event", "has_more", "index", "message", "result", "rule_set",
        "woken_by",
    )  # fmt: skip

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        toolbox: Toolbox,
        rule_set: RuleSet,
        index: int = 0,
        subscribe: tuple[str, ...] = (),
        group: str | None = None,
        permission: Permission = Permission.USER,
        reach: Sharing = "shared",
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.reach = reach
        self.has_more = False
        self.index = index
        self.result: ActionResult | None = None
        self.message: Message | None = None
        self.event: Event | None = None
        self.woken_by = ""
        self._toolbox = toolbox
        self.rule_set = rule_set
        self._let: Bindings = _NOTHING  # the values that the chosen rule has named
        self._code: RuleCode  # of the rules at the latest decision
        self._chosen: PolicyRule | None = None
        self._place = 0  # the place of the chosen rule
        self._taken = 0  # number of actions of the chosen rule that were returned so far
        self._reader: Reader | None = None  # made with the first message
        self._seen = 0  # sequence number of the event that woke the agent last
        self._patterns = subscribe
        self._subscriptions: tuple[Subscription, ...] = ()
        self._draws: Draws | None = None
        self._message_draws: Draws | None = None

    @property
    def chosen(self) -> tuple[int, int] | None:
        """The place of the rule that it follows, and the number of the action of it that is under way or was last."""
        return None if self._chosen is None else (self._place, self._taken - 1)

    @property
    def functions(self) -> Functions:
        """The functions that its rules can call."""
        return self._toolbox.functions

    @property
    def rng(self) -> Draws:
        """The random draws of the rules at the present moment (see `Agent.rng`).

        While a `when` is evaluated for a message: draws that depend on the sender, the topic and the time of the
        message, and on the place of the rule, but not on what else waits, or when the message is read.
        """
        reader = self._reader
        if reader is not None and reader.drawn_for is not None:
            return self._drawn_for(*reader.drawn_for)
        draws = self._draws
        if draws is None:
            draws = self._draws = self.world.draws_now(self.agent_id, "rules")
        return draws.moment(self.world.kernel.now, 0 if self._loop is None else self._loop.iteration_count)

    def _drawn_for(self, pending: Pending, place: int) -> Draws:
        """Return the draws of the condition of a rule for a message."""
        draws = self._message_draws
        if draws is None:
            draws = self._message_draws = self.world.draws_now(self.agent_id, "messages")
        message = pending.message
        key = derive("message", self.world.draws_as(message.sender), message.topic, message.time, pending.nth)
        return draws.moment(key ^ place, place)

    async def decide_action(self) -> Action | None:
        """Return the action of the first rule that applies, or None."""
        return self.decide_now()

    def decide_now(self) -> Action | None:
        """Decide without waiting, see `Agent.decide_now`."""
        self.message = None
        loop = self._loop or self.loop
        self.event = self._next_event() if self._subscriptions or self.woken_event is not None else None
        self.woken_by, loop.woken_by = loop.woken_by, ""  # only for the first iteration after the wake-up
        self._chosen = None
        toolbox, rule_set, mailbox, reader = self._toolbox, self.rule_set, self.mailbox, self._reader
        toolbox.acts_for = self  # in place, as what follows: calls take longer than to look
        code, rules = rule_set.latest, rule_set.rules
        if code is None or code.rules is not rules or code.toolbox is not toolbox:
            code = rule_set.code(toolbox)
        self._code = code
        if mailbox.queue.items or ((mailbox.offered is not None or reader is not None) and self._may_read()):
            reader = self._reads()
            place, number = reader.choose(Scope(self), toolbox.functions, loop.config.unmatched)
            self.message = self.mailbox.read(number) if number else None
            self._let = reader.let
        else:
            self._let = {} if code.names_values else _NOTHING
            try:
                place = code.choose(self, self.state, self._let)
            except Exception as error:
                code.fail(error)
        if place is None:
            return None
        rule = self._chosen = rules[place]
        self._place = place
        actions = rule.actions
        self.has_more = len(actions) > 1
        self._taken = 1
        action = actions[0]
        if action.constant is not None:
            return action.constant
        arguments = code.arguments[place][0]  # as `_prepared`, without a call
        assert arguments is not None, "otherwise the action is constant"
        try:
            return Action(action.kind, arguments(self, self.state, self._let), action.reason)
        except Exception as error:
            code.fail(error)

    def _prepared(self, rule: PolicyRule, number: int) -> Action:
        """Return an action of the chosen rule with its arguments computed."""
        code, action = self._code, rule.actions[number]
        arguments = code.arguments[self._place][number]
        assert arguments is not None, "otherwise the action is constant"
        try:
            return Action(action.kind, arguments(self, self.state, self._let), action.reason)
        except Exception as error:
            code.fail(error)

    def _may_read(self) -> bool:
        """Return whether there is a message that waits, or may wait because the rules were replaced."""
        mailbox, reader = self.mailbox, self._reader
        if mailbox.queue.items or (mailbox.offered is not None and mailbox.offered.waiting):
            return True
        return reader is not None and reader.rules is not self.rule_set.rules

    def _reads(self) -> Reader:
        """Return what chooses messages for the present rules."""
        reader, rules = self._reader, self.rule_set.rules
        if reader is None or reader.rules is not rules:
            reader = self._reader = Reader(self.mailbox, rules)
        return reader

    def after_action(self, result: ActionResult) -> None:
        """After the last action of a rule succeeds, record observations and update the state."""
        self.result = result
        if self.has_more:
            return
        rule = self._chosen
        if result.success and rule is not None and (rule.set or rule.record):
            code, place = self._code, self._place
            self._toolbox.acts_for = self
            try:
                for name, value in code.records[place].items() if rule.record else ():
                    self.world.observe(self.agent_id, name, float(value(self, self.state, self._let)))
                changes = code.changes[place]
                if changes is not None:
                    self.state.update(changes(self, self.state, self._let))
            except Exception as error:
                code.fail(error)
        if self.mailbox.watchers:
            self.look_again()

    def look_again(self) -> None:
        """Wake the agent if it sleeps until a message, and would now read one that waits.

        A message that it would not read must not wake it: it would wake again at once, for as long as that message
        waits. Called when the agent may have fallen asleep, and when its state or its rules were changed from outside.
        """
        mailbox = self.mailbox
        if mailbox.watchers and self._may_read():
            scope = Scope(self)
            scope.update(event=None, woken_by="message")
            if self._reads().would_read(scope, self._toolbox.used_by(self)):
                mailbox.notify()

    def next_action(self) -> Action:
        """Return the next action of the chosen rule, with its arguments computed now."""
        assert self._chosen is not None, "has_more is true only if a rule was chosen"
        actions = self._chosen.actions
        action = actions[self._taken]
        self._taken += 1
        self.has_more = self._taken < len(actions)
        if action.constant is not None:
            return action.constant
        self._toolbox.used_by(self)
        return self._prepared(self._chosen, self._taken - 1)

    def starts_at_once(self) -> bool:
        """See `Agent.starts_at_once`."""
        return not self._patterns and getattr(self.on_start, "__func__", None) is _ON_START

    async def on_start(self) -> None:
        """Subscribe to the topic patterns of the agent."""
        self._subscriptions = tuple(self.world.event_bus.subscribe(pattern) for pattern in self._patterns)

    def on_stop(self) -> None:
        """Cancel the subscriptions."""
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions = ()
        self._reader = self.message = None

    def luggage(self) -> dict[str, Any]:
        """Return the result of the last action, which rules can read."""
        return {"result": self.result}

    def unpack(self, luggage: Mapping[str, Any]) -> None:
        """See `Agent.unpack`. Events that were seen elsewhere have other numbers here. Draws begin anew: in one process
        they would continue those of the last message, of which other processes know nothing.
        """
        result = luggage["result"]
        self.result = None if result is None else ActionResult(**result)
        self.event = self.woken_event = None
        self._seen, self.has_more = 0, False
        self._draws = self._message_draws = None

    def _next_event(self) -> Event | None:
        """Return the event that woke the agent, or else the next subscribed event; skip one that it has seen."""
        woken, self.woken_event = self.woken_event, None
        if woken is not None:
            self._seen = woken.sequence
            return woken
        for subscription in self._subscriptions:
            while (event := subscription.take()) is not None:
                if event.sequence != self._seen:
                    return event
        return None


_ON_START: Final = PolicyAgent.on_start  # the original, to detect that it was overridden or patched


def _event(agent: PolicyAgent) -> Any:
    event = agent.event
    if event is None:
        return None
    return {"topic": event.topic, "data": event.data, "source": event.source, "time": to_seconds(event.time)}


def _message(agent: PolicyAgent) -> Any:
    message = agent.message
    if message is None:
        return None
    return message_names(message)


def _messages(agent: PolicyAgent) -> int:
    reads = any(rule.reading is not None for rule in agent.rule_set.rules)
    return agent.mailbox.waiting if reads else len(agent.mailbox)


def _result(agent: PolicyAgent) -> Any:
    result = agent.result
    return None if result is None else {"success": result.success, "data": result.data, "error": result.error}


_COMPUTED: dict[str, Callable[[PolicyAgent], Any]] = {
    "now": OwnAttribute("world.now"),
    "me": OwnAttribute("agent_id"),
    "index": OwnAttribute("index"),
    "group": OwnAttribute("group"),
    "place": lambda agent: agent.world.places.where(agent.agent_id) if agent.world.places else None,
    "balance": OwnAttribute("world.balance", by_name=True),
    "iteration": OwnAttribute("loop.iteration_count"),
    "event": _event,
    "message": _message,
    "messages": _messages,
    "result": _result,
    "woken_by": OwnAttribute("woken_by"),
    "pi": lambda agent: math.pi,
}


def _prepare(plan: WorldPlan) -> Make:
    def make(agent: AgentPlan) -> PolicyAgent:
        made: PolicyAgent = plan.agent(
            agent.name, agent.world, toolbox=plan.toolbox, rule_set=agent.rule_set, index=agent.index,
            subscribe=agent.subscribe, group=agent.group, permission=agent.permission, reach=agent.reach,
        )  # fmt: skip
        return made

    return make


define_family(Family("policy", PolicyAgent, prepare=_prepare, draws=()))

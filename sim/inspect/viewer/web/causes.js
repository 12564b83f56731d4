// What led to an event, and what it may have influenced: from the trace of a replay that a server makes.

const FIRST_CAUSES = 20, MOST_CAUSES = 500, MOST_INFLUENCED = 20; // steps at first and at most, and agents, in the document
let traced = false; // whether the cost of the trace has been accepted

/** The causes of an event, as an element for its drawer; first what they cost. */
function causesOf(number) {
  const box = h("div", { class: "causes" });
  const command = `sim show ${ABOUT.run.id} causes ${number}`;
  if (!ABOUT.served) box.append(...withoutServer("has no causes of events", `sim view ${ABOUT.run.id} --serve`, command));
  else if (ABOUT.follows) box.append(h("p", {}, "The run is under way. What led to an event can be found when it has ended."));
  else if (traced) find();
  else offer();

  async function offer() {
    box.replaceChildren(h("p", { class: "note" }, "Asking what it costs."));
    try {
      const cost = await replayed("trace_cost");
      const start = button("trace it", "replay the run with a trace (C)", () => { traced = true; find(); }, { id: "trace-run" });
      box.replaceChildren(h("p", {}, "Which step led to an event is not on record. A replay with a trace finds it, once for all events."), ...costNodes(cost).filter(Boolean), start);
      start.focus();
    } catch (error) { box.replaceChildren(failure(error), again(offer)); }
  }

  async function find(most = FIRST_CAUSES) {
    box.replaceChildren(h("p", { class: "note" }, "Tracing the run."));
    try {
      const [causes, influence] = [await replayed("causes", { event: number, most }), await replayed("influence", { event: number })];
      const lines = await linesOf(causes.steps);
      const more = most < MOST_CAUSES ? button("show more", `show up to ${MOST_CAUSES} steps that led to it`, () => find(MOST_CAUSES)) : h("code", {}, `${command} --limit 0`);
      box.replaceChildren(...backwards(causes, lines, more), ...forwards(influence));
      box.dataset.event = String(number);
    } catch (error) { box.replaceChildren(failure(error), again(find)); }
  }

  const again = (what) => button("ask again", "ask again", () => what());
  return box;
}

/** The text of each event that steps name. */
async function linesOf(steps) {
  const numbers = new Set(steps.flatMap(({ woken, took }) => [woken, ...took.map(([, event]) => event)]).filter((one) => one !== null));
  return new Map(await Promise.all([...numbers].map(async (one) => [one, await loadEvent(one)])));
}

const OTHER_CAUSES = { start: "the start of the run", outside: "something outside: an input, or the answer to a call", unknown: "a step that the trace does not know" };

/** The steps that led to an event, the nearest first; `more` is what shows those that are left out. */
function backwards({ steps, cut, ancestors, of }, events, more) {
  const places = new Map(steps.map(({ step }, at) => [step, at + 1]));
  const named = (step) => (places.has(step) ? h("a", { href: `#step-${places.get(step)}`, onclick: (event) => { event.preventDefault(); document.getElementById(`step-${places.get(step)}`).scrollIntoView(); } }, `#${places.get(step)}`) : "a step that is left out");
  const event = (one) => [eventLink(one, `event ${one}`), ": ", events.get(one).actor, " ", h("b", {}, events.get(one).topic), " ", eventText(events.get(one))];
  const node = (step, at) => h("li", { id: `step-${at + 1}` },
    h("div", {}, h("b", {}, `#${at + 1} `), agentNamed(step.agent), ` at ${time(step.time, true)}`,
      step.events && [", ", eventLink(step.events[0], `${things(step.events[1] - step.events[0] + 1, "event")} ${step.events[0]}`), step.events[1] > step.events[0] && [" to ", eventLink(step.events[1], String(step.events[1]))]]),
    step.folded > 0 && h("div", {}, `after ${counted(step.folded, "step")} of its own since ${time(step.since, true)}, which took and read nothing`),
    h("div", {}, "caused by ", OTHER_CAUSES[step.by] || named(step.cause), step.woken !== null && [", ", event(step.woken)]),
    step.took.map(([from, taken]) => h("div", {}, "took ", taken === null ? "a message" : event(taken), " (", named(from), ")")),
    step.reads > 0 && h("div", {}, "read the state as of ", step.read.map((one, place) => [place > 0 && ", ", named(one)]), step.reads > step.read.length && `, and of ${number(step.reads - step.read.length)} more agents`),
    Object.entries(step.used).map(([pool, from]) => h("div", {}, `used the pool ${pool} after `, named(from))),
    step.drew && h("div", {}, "drew random numbers"));
  return [h("h3", {}, "What led to it"), h("ol", { class: "steps" }, steps.map(node)),
    h("p", { class: "note" }, `${number(ancestors[0])} of the ${counted(of, "step")} before it, of ${number(ancestors[1])} agents and other sources, may have influenced it.`),
    cut > 0 && h("p", { class: "note" }, `${number(cut)} more steps are left out, and what led to them. `, more)].filter(Boolean);
}

/** What an event may have influenced: a bound. */
function forwards({ events, agents, sources }) {
  const reached = Object.entries(agents);
  return [h("h3", {}, "What it may have influenced"),
    h("p", {}, `At most ${number(events[0])} of the ${counted(events[1], "later event")}, and ${number(reached.length)} of ${number(sources)} agents and other sources, through wake-ups, messages, states that were read, and pools. A step need not use what it took; accounts, limits, places and artifacts are not followed.`),
    reached.length > 0 && plainTable(["agent", "first at"], reached.slice(0, MOST_INFLUENCED).map(([name, at]) => [agentNamed(name), time(at, true)])),
    reached.length > MOST_INFLUENCED && h("p", { class: "note" }, `${number(reached.length - MOST_INFLUENCED)} more agents.`)].filter(Boolean);
}

/** A link to an agent by its name, if the page knows it. */
function agentNamed(name) {
  const at = ABOUT.names.indexOf(name);
  return at >= 0 && isAgent(at) ? nameLink(at) : name;
}

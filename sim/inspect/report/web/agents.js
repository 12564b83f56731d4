// Agents: the swimlanes, the table, and the history of one agent.

const SIGNS = { i: "starting", r: "running", s: "sleeping", p: "paused", x: "stopping" };
const ROW = 28; // height of a table row in pixels
const VIEW = 476; // height of the visible part of the table in pixels

/** The colours of the states in the current theme, for the canvas. */
function laneColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(Object.entries(SIGNS).map(([sign, state]) => [sign, style.getPropertyValue("--" + state).trim()]));
}

/** Draw the swimlane of one agent. Equal neighbouring parts are one rectangle. */
function paintLane(context, swimlane, top, height, width, colours) {
  const part = width / swimlane.length;
  for (let from = 0, to; from < swimlane.length; from = to) {
    for (to = from + 1; to < swimlane.length && swimlane[to] === swimlane[from]; to++);
    if (swimlane[from] === ".") continue;
    context.fillStyle = colours[swimlane[from]] || "#888";
    context.fillRect(from * part, top, (to - from) * part, height);
  }
}

const stateAt = (agent, share) => SIGNS[agent.swimlane[Math.min(agent.swimlane.length - 1, Math.floor(share * agent.swimlane.length))]] || "not running yet or stopped";

/** The height of a lane in pixels. */
const laneHeight = () => (DATA.agents.length > 560 ? 560 / DATA.agents.length : Math.max(1, Math.min(16, Math.floor(560 / DATA.agents.length))));

/** Every how manieth lane has room for the name of its agent. */
const namedEvery = () => Math.ceil(11 / laneHeight());

/** Which lanes are named, for a note; empty if all are. */
const namedLanes = () => (namedEvery() > 1 ? `; named is the first of each ${namedEvery()} lines` : "");

/** Write the names of agents at the left of their lanes, as far as there is room. */
function paintNames(context, left, each, colour) {
  context.font = `${Math.min(11, Math.max(9, each - 1))}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.fillStyle = colour;
  for (let index = 0; index < DATA.agents.length; index += namedEvery()) {
    let name = visible(DATA.agents[index].name);
    if (context.measureText(name).width > left - 8) {
      while (name && context.measureText(name + "…").width > left - 8) name = name.slice(0, -1);
      name += "…";
    }
    context.fillText(name, 0, namedEvery() > 1 ? index * each + 6 : (index + 0.5) * each);
  }
}

/** The width of the names, of which long ones are cut. */
function namesWidth(context, width) {
  context.font = "11px system-ui, sans-serif";
  const longest = DATA.agents.reduce((most, { name }) => Math.max(most, name.length < 60 ? context.measureText(name).width : width), 0);
  return Math.round(Math.min(130, width * 0.28, longest + 10));
}

/** Write times, and ticks, below the lanes. */
function paintTimes(context, left, width, height, colour) {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.fillStyle = colour;
  for (const [at, name] of timeTicks(width - left)) {
    const x = left + (at / (END || 1)) * (width - left);
    context.textAlign = at === 0 ? "start" : x > width - 30 ? "end" : "center";
    for (const [text, up] of belowAxis(at, name)) context.fillText(text, x, height - up);
  }
  context.textAlign = "start";
}

/** The swimlanes of all agents, one above the other, each with its name, over simulated time. */
function swimlanes() {
  const agents = DATA.agents, each = laneHeight();
  const lanes = Math.max(16, Math.round(each * agents.length));
  let left = 0;
  const canvas = drawing(lanes + BELOW, (context, width, height) => {
    const colours = laneColours(), soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
    left = namesWidth(context, width);
    paintNames(context, left, each, soft);
    paintTimes(context, left, width, height, soft);
    context.translate(left, 0);
    agents.forEach((agent, index) => paintLane(context, agent.swimlane, index * each, each > 3 ? each - 1 : Math.max(1, each), width - left, colours));
  }, { role: "img", "aria-label": `states over time of ${number(agents.length)} agents` });
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return [agents[Math.floor((event.clientY - box.top) / each)], (event.clientX - box.left - left) / (box.width - left)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [agent, share] = under(event);
    if (!agent) hideTip();
    else showTip(event, share < 0 ? agent.name : `${agent.name}\n${[time(share * END), tickAt(share * END)].filter(Boolean).join(", ")}: mostly ${stateAt(agent, share)}`);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => under(event)[0] && open(under(event)[0].name));
  return canvas;
}

const COLUMNS = [
  ["agent", "name"], ["group", "group"], ["at the end", "state"], ["states over time", null], ["actions", "done"], ["refused", "refused"],
  ["errors", "errors"], ["wake-ups", "wakeups"], ["sent", "sent"], ["received", "received"],
  DATA.models ? ["cost", "cost"] : ["balance", "balance"],
];

/** The table of agents. Only visible rows are in the document. */
function agentTable() {
  let rows = DATA.agents.slice();
  let sorted = null, downwards = false;
  const inner = h("div", {});
  const view = h("div", { class: "view", role: "rowgroup", tabindex: 0 }, inner);
  const told = h("p", { class: "note" });

  function cells(agent, colours) {
    return COLUMNS.map(([, key], index) => {
      if (key === null) return drawing(14, (context, width) => paintLane(context, agent.swimlane, 0, 14, width, colours));
      const value = agent[key];
      const text = typeof value === "number" ? (key === "cost" || key === "balance" ? money(value) : value === 0 ? "·" : number(value)) : value;
      const red = value > 0 && (key === "refused" || key === "errors");
      return h("span", { class: (index > 3 ? "n " : "") + (red ? "red" : ""), title: typeof value === "string" && value, role: "cell" }, text);
    });
  }

  function show() {
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    const colours = laneColours();
    inner.replaceChildren(...rows.slice(first, first + Math.ceil(VIEW / ROW) + 8).map((agent, index) => h("div", {
      class: "row" + (agent.name === chosen ? " chosen" : ""), role: "row", tabindex: 0, style: { top: (first + index) * ROW + "px" },
      onclick: () => open(agent.name), onkeydown: (event) => event.key === "Enter" && open(agent.name),
    }, cells(agent, colours))));
  }

  function arrange() {
    const wanted = search.value.trim().toLowerCase();
    rows = DATA.agents.filter(({ name, group, state }) => !wanted || [name, group, state].some((text) => text.toLowerCase().includes(wanted)));
    if (sorted) {
      const numbers = new Intl.Collator("en", { numeric: true });
      rows.sort((one, other) => {
        const [a, b] = [one[sorted], other[sorted]];
        return (typeof a === "string" ? numbers.compare(a, b) : (a || 0) - (b || 0)) * (downwards ? -1 : 1);
      });
    }
    inner.style.height = rows.length * ROW + "px";
    view.style.height = Math.min(VIEW, Math.max(1, rows.length) * ROW) + "px";
    const all = DATA.agents_in_all;
    const left = all > DATA.agents.length ? `; of ${number(all)} agents, only those with errors or most events are shown` : "";
    told.textContent = `${number(rows.length)} of ${number(DATA.agents.length)} rows${left}`;
    view.scrollTop = 0;
    show();
  }

  const search = h("input", { type: "search", placeholder: "name, group or state", "aria-label": "filter agents", oninput: arrange });
  const heads = h("div", { class: "heads", role: "row" }, COLUMNS.map(([name, key], index) => h("button", {
    type: "button", class: index > 3 && "n", role: "columnheader",
    onclick: () => { if (key) { downwards = sorted === key ? !downwards : index > 3; sorted = key; arrange(); } },
  }, name)));
  view.addEventListener("scroll", () => requestAnimationFrame(show));
  redraw = show;
  arrange();
  return [h("div", { class: "head" }, told, search), h("div", { class: "grid", role: "table" }, h("div", { class: "wide" }, heads, view))];
}

/** The table of agents, closed if it is long, and the history of the chosen one. */
const agentsSection = () => [folded(agentTable(), DATA.agents.length, "agents"), detail];

let chosen = null;
let redraw = () => {};
const detail = h("div", {});

/** Show the history of an agent, by setting it in the address. */
function open(name) {
  location.hash = "agent=" + encodeURIComponent(name);
}

/** A line of a history. */
function line([seconds, text]) {
  return h("li", {}, h("time", {}, time(seconds, true)), h("span", { class: "what mono" + (/(^| )refused: |^agent\.(error|crashed)/.test(text) ? " refused" : "") }, text));
}

/** Show the agent in the address. */
function follow() {
  const match = /^#agent=(.+)$/.exec(location.hash);
  const agent = match && DATA.agents.find(({ name }) => encodeURIComponent(name) === match[1]);
  if (!agent) return;
  chosen = agent.name;
  const lines = agent.lines.map(line);
  if (agent.gap !== null) {
    const missing = number(agent.total - agent.lines.length);
    lines.splice(agent.gap, 0, h("li", { class: "gap" }, h("time", {}, "…"), h("span", {}, `${missing} lines are omitted; sim show RUN events --agent NAME shows all`)));
  }
  const share = (event) => (event.clientX - event.currentTarget.getBoundingClientRect().left) / event.currentTarget.clientWidth;
  detail.replaceChildren(h("div", { id: "agent" },
    h("div", { class: "head title" }, h("h3", {}, agent.name), h("p", { class: "note" }, `${agent.group}, ${agent.state} at the end, ${number(agent.total)} lines`)),
    drawing(18, (context, width) => paintLane(context, agent.swimlane, 0, 18, width, laneColours()), {
      onpointermove: (event) => showTip(event, `${time(share(event) * END)}: mostly ${stateAt(agent, share(event))}`), onpointerleave: hideTip,
    }),
    agent.has && h("pre", { class: "mono" }, agent.has),
    h("ol", { class: "story" }, lines)));
  redraw();
  detail.scrollIntoView({ block: "nearest" });
}

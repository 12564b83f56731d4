// Lanes: the states of agents over simulated time, a rectangle for each.

const SIGNS = { i: "starting", r: "running", s: "sleeping", p: "paused", x: "stopping" };

/** The rows of agents, each with its lane: a sign for the state in each part of the run. */
const lanes = () => sectionData("agents").rows;

/** Draw the lane of one agent. Equal neighbouring parts are one rectangle. */
function paintLane(context, lane, top, height, width) {
  const part = width / lane.length;
  for (let from = 0, to; from < lane.length; from = to) {
    for (to = from + 1; to < lane.length && lane[to] === lane[from]; to++);
    if (lane[from] === ".") continue;
    context.fillStyle = palette[SIGNS[lane[from]]];
    context.fillRect(from * part, top, (to - from) * part, height);
  }
}

const stateAt = (lane, share) => SIGNS[lane[Math.min(lane.length - 1, Math.floor(share * lane.length))]] || "not running yet or stopped";

/** Choose an agent in the overview; the address remembers it. */
const openRow = (name) => choose({ agent: ABOUT.names.indexOf(name) });

/** Show the lane and the state variables of an agent below the table. */
function showRow(name) {
  const agent = sectionData("agents")?.rows.find((one) => one.name === name), place = document.getElementById("row");
  if (!agent || !place) return;
  const share = (event) => (event.clientX - event.currentTarget.getBoundingClientRect().left) / event.currentTarget.clientWidth;
  place.replaceChildren(
    h("div", { class: "title" }, h("h3", {}, agent.name), h("p", { class: "note" }, `${agent.group}, ${agent.state} ${atTheEnd()}`),
      ABOUT.whole ? button("what it did", "its story, event by event", () => openAgent(chosen.agent)) : h("code", {}, `sim show ${OVERVIEW.run.id} events --agent ${name}`)),
    drawing(18, (context, width) => paintLane(context, agent.lane, 0, 18, width), {
      onpointermove: (event) => showTip(event, `${time(share(event) * OVERVIEW.end)}: mostly ${stateAt(agent.lane, share(event))}`), onpointerleave: hideTip,
    }),
    agent.has && h("pre", { class: "mono" }, agent.has));
  place.scrollIntoView({ block: "nearest" });
}

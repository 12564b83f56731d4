// How many agents were in each state, and a lane for each agent.

section("states", ({ parts, finals }) => {
  const series = Object.entries(parts).map(([name, values]) => ({ name, colour: name, values }));
  return [`${atTheEnd()}: ${Object.entries(finals).map(([state, count]) => `${number(count)} ${state}`).join(", ")}`,
    chart(series, { stacked: true, height: 190, legend: true }),
    h("h3", { class: "below" }, "State of each agent ", h("span", { class: "note" }, "one line per agent, from the beginning of the run to its end; click to see what it did", namedLanes())),
    swimlanes()];
});

/** The height of a lane in pixels. */
const laneHeight = () => (lanes().length > 560 ? 560 / lanes().length : Math.max(1, Math.min(16, Math.floor(560 / lanes().length))));

/** Every how manieth lane has room for the name of its agent. */
const namedEvery = () => Math.ceil(11 / laneHeight());

/** Which lanes are named, for a note; empty if all are. */
const namedLanes = () => (namedEvery() > 1 ? `; named is the first of each ${namedEvery()} lines` : "");

/** Write the names of agents at the left of their lanes, as far as there is room. */
function paintNames(context, left, each) {
  context.font = `${Math.min(11, Math.max(9, each - 1))}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.fillStyle = palette.soft;
  for (let at = 0; at < lanes().length; at += namedEvery()) {
    let name = visible(lanes()[at].name);
    if (context.measureText(name).width > left - 8) {
      while (name && context.measureText(name + "…").width > left - 8) name = name.slice(0, -1);
      name += "…";
    }
    context.fillText(name, 0, namedEvery() > 1 ? at * each + 6 : (at + 0.5) * each);
  }
}

/** The width of the names, of which long ones are cut. */
function namesWidth(context, width) {
  context.font = FONT;
  const longest = lanes().reduce((most, { name }) => Math.max(most, name.length < 60 ? context.measureText(name).width : width), 0);
  return Math.round(Math.min(130, width * 0.28, longest + 10));
}

/** Write times, and ticks, below the lanes. */
function paintTimes(context, left, width, top) {
  context.font = FONT;
  context.textBaseline = "top";
  context.fillStyle = palette.soft;
  for (const [at, text] of timesFor(width - left, OVERVIEW.end)) {
    const x = left + (at / OVERVIEW.end) * (width - left), tick = OVERVIEW.run.tick;
    context.textAlign = at === 0 ? "start" : x > width - 30 ? "end" : "center";
    [text, tick && tickAt(at, tick)].filter(Boolean).forEach((one, line) => context.fillText(one, x, top + 4 + 13 * line));
  }
  context.textAlign = "start";
}

/** The lanes of all agents, one above the other, each with its name, over simulated time. */
function swimlanes() {
  const rows = lanes(), each = laneHeight(), end = OVERVIEW.end;
  const tall = Math.max(16, Math.round(each * rows.length));
  let left = 0;
  const canvas = drawing(tall + (OVERVIEW.run.tick ? 33 : 20), (context, width) => {
    left = namesWidth(context, width);
    paintNames(context, left, each);
    paintTimes(context, left, width, tall);
    context.translate(left, 0);
    rows.forEach(({ lane }, at) => paintLane(context, lane, at * each, each > 3 ? each - 1 : Math.max(1, each), width - left));
  }, { role: "img", "aria-label": `states over time of ${counted(rows.length, "agent")}` });
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    return [rows[Math.floor((event.clientY - box.top) / each)], (event.clientX - box.left - left) / (box.width - left)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [row, share] = under(event), tick = OVERVIEW.run.tick;
    if (!row) hideTip();
    else showTip(event, share < 0 ? visible(row.name) : `${visible(row.name)}\n${[time(share * end), tick && tickAt(share * end, tick)].filter(Boolean).join(", ")}: mostly ${stateAt(row.lane, share)}`);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => under(event)[0] && openRow(under(event)[0].name));
  return canvas;
}

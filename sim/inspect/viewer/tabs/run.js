// The summary and the scenario of the run, and the keys.

const HELP = [["space", "play or pause"], ["← →", "back and forward by a hundredth of the run (with Shift by a thousandth)"], [", .", "previous and next event, of the chosen agent if there is one"],
  ["Home End", "start and end of the run"], ["[ ]", "slower, faster"], ["+ - 0", "zoom the map, and show all of it"], ["/", "search"], ["m", "the state at the moment; once more: begin its replay"],
  ["c", "what led to the event that is shown; once more: begin its replay"], ["Escape", "close, or choose no agent"], ["?", "this help"]];

function makeRun() {
  const text = h("pre", {}, "");
  const box = h("div", { class: "panel scrolls" },
    ABOUT.run.description && h("p", {}, ABOUT.run.description),
    h("table", {}, h("tbody", {}, ABOUT.run.fields.map(([name, value]) => h("tr", {}, h("th", {}, name), h("td", {}, value))))),
    h("p", { class: "note" }, `${counted(ABOUT.events, "event")} in ${counted(ABOUT.chunks.length, "chunk")}, ${counted(ABOUT.calls_in_all, "call")}`),
    ABOUT.pairs_in_all > ABOUT.pairs.length && h("p", { class: "note" }, `Of ${number(ABOUT.pairs_in_all)} pairs of names that wrote to each other, the ${number(ABOUT.pairs.length)} with most messages are in the lists.`),
    h("h3", {}, "Keys"), h("table", {}, h("tbody", {}, HELP.map(([key, what]) => h("tr", {}, h("th", {}, h("kbd", {}, key)), h("td", {}, what))))),
    h("h3", {}, "Scenario"), text);
  let loaded = false;
  function draw() {
    if (loaded) return;
    loaded = true;
    blockText(ABOUT.scenario).then((given) => { text.textContent = visible(given); }, complain);
  }
  return { box, draw };
}

tab("run", "Run", 70, makeRun);

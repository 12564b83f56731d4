// The page: the map, the charts, the scrubber and the panels, and the keys.

/** The answers of models that are arriving: not on record, and gone when they are whole. */
function makeUnfinished() {
  const list = h("ul", {});
  const box = h("div", { class: "unfinished", id: "unfinished", hidden: true, "aria-live": "off" },
    h("p", { class: "note" }, "Answers that are arriving (provisional: not on record yet)"), list);
  function show(given) {
    box.hidden = given.length === 0;
    list.replaceChildren(...given.toReversed().map(([agent, kind, verb, text]) => h("li", {}, h("b", {}, visible(agent)), ` ${verb} `, h("span", { class: kind }, visible(text)))));
  }
  return { box, show };
}

function main() {
  readPalette();
  if (ABOUT.follows) chosen.time = END;
  if (live && ABOUT.live.groups > 1) chosen.colour = "group";
  if (ABOUT.variables.length) chosen.colour = "now:" + ABOUT.variables[0].name; // what the scenario asks for
  chosen.tab = ABOUT.opens;
  recall();
  const map = makeMap(), legend = makeLegend(), charts = makeCharts(), scrubber = makeScrubber();
  for (const [name, title] of ABOUT.tabs) tab(name, title, Infinity, () => makeSectionTab(name));
  const kept = TABS.filter(({ name }) => ABOUT.whole || ["overview", "run"].includes(name)).sort((one, other) => one.place - other.place);
  const panels = Object.fromEntries(kept.map(({ name, make }) => [name, make()]));
  if (!Object.hasOwn(panels, chosen.tab)) chosen.tab = ABOUT.opens;
  const colours = h("select", { "aria-label": "colour agents by", title: "colour agents by", onchange: () => choose({ colour: colours.value }) });
  const lines = h("input", { type: "checkbox", checked: true, onchange: () => { chosen.lines = lines.checked; refresh(); } });
  const tabs = kept.map(({ name, title }) => h("button", { type: "button", role: "tab", id: "tab-" + name, onclick: () => choose({ tab: name }) }, title));
  const unfinished = makeUnfinished();
  const status = h("span", { class: "pill " + ABOUT.run.status }, ABOUT.run.status);

  function fillColours() {
    const ways = [["state", "state of the loop"], ["group", "group"], ["action", "last action"], ["event", "last event"], ...(ABOUT.activities.length ? [["activity", "activity"]] : []), ...ABOUT.variables.map(({ name }) => ["now:" + name, visible(name)]), ...Object.keys(ABOUT.finals).map((name) => ["end:" + name, `${visible(name)} at the end`])];
    const known = (wanted) => ways.some(([way]) => way === wanted);
    if (!known(chosen.colour)) chosen.colour = known("now:" + chosen.colour) ? "now:" + chosen.colour : "state"; // a variable may be named alone
    colours.replaceChildren(...ways.map(([way, title]) => h("option", { value: way, selected: way === chosen.colour }, title)));
  }
  fillColours();

  const problem = ABOUT.run.error;
  document.getElementById("page").append(
    h("header", {}, h("h1", {}, ABOUT.run.name), h("span", { class: "note" }, `seed ${ABOUT.run.seed}`), status, problem && h("span", { class: "error", title: problem }, problem), h("span", { id: "problem", class: "error" })),
    h("main", {},
      h("section", { class: "left" },
        h("div", { class: "tools" }, h("label", {}, "colour by ", colours), h("label", {}, lines, " messages and payments"),
          h("span", { class: "zoom" }, button("+", "zoom in (+)", map.zoomIn), button("−", "zoom out (-)", map.zoomOut), button("□", "show all (0)", map.reset)), legend.list),
        map.box, charts.box),
      h("section", { class: "right" }, unfinished.box, h("div", { class: "tabs", role: "tablist" }, tabs), Object.values(panels).map(({ box }) => box), drawer)),
    h("footer", {}, live && live.bar, scrubber.bar), tip);

  /** Whether the tab takes all of the page, without the map and the bar of time. */
  const wide = () => chosen.tab === "overview" || !ABOUT.whole;

  function showTab() {
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.id === "tab-" + chosen.tab));
    for (const [name, { box }] of Object.entries(panels)) box.hidden = name !== chosen.tab;
    document.body.classList.toggle("wide", wide());
    colours.value = chosen.colour;
  }
  choosers.push(showTab);
  showTab();
  watchers.push(map.draw, legend.draw, charts.draw, scrubber.draw, (milliseconds) => panels[chosen.tab].draw(milliseconds));
  requestAnimationFrame(() => { charts.build(); refresh(); });
  if (chosen.event !== null && ABOUT.events) showEvent(chosen.event).catch(complain);

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); refresh(); map.recolour(); scrubber.renew(); charts.build(); });
  addEventListener("hashchange", () => { recall(); choose({}); if (chosen.event !== null) showEvent(chosen.event).catch(complain); });
  addEventListener("keydown", (event) => {
    const on = event.target instanceof Element ? event.target : document.body;
    if (on.matches("input, select, textarea")) { if (event.key === "Escape") on.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (wide() && !["/", "?", "m"].includes(event.key)) return; // the other keys are about the map and the bar
    const by = END / (event.shiftKey ? 1000 : 100);
    const act = {
      " ": () => play(), ArrowRight: () => goTo(chosen.time + by), ArrowLeft: () => goTo(chosen.time - by), ".": () => stepEvent(1), ",": () => stepEvent(-1),
      Home: () => goTo(0), End: () => goTo(END), "[": () => scrubber.faster(-1), "]": () => scrubber.faster(1),
      "/": () => { choose({ tab: "search" }); panels.search.focus(); }, "?": () => choose({ tab: "run" }),
      c: openCauses,
      m: () => { if (chosen.tab === "moment") panels.moment.begin(); else if (panels.moment) choose({ tab: "moment" }); },
      Escape: () => { if (!drawer.hidden) closeEvent(); else choose({ agent: -1, other: -1 }); },
    }[event.key];
    if (!act || (event.key === " " && on.matches("button, summary"))) return;
    event.preventDefault();
    act();
  });
  if (ABOUT.follows || live) follow(() => {
    fillColours();
    status.textContent = ABOUT.run.status;
    status.className = "pill " + ABOUT.run.status;
    map.renew();
    scrubber.renew();
    charts.renew();
  }, unfinished.show);
  refresh();
}

/** Ask the server for what is new, while the run is under way; at the end of the bar, stay there. */
function follow(renew, say) {
  const lists = ["chunks", "names", "groups", "topics", "calls", "parts"];
  async function ask() {
    const have = ["chunks", "names", "topics", "calls", "parts"].map((name) => `${name}=${ABOUT[name].length}`).join("&");
    const answer = await fetch(`news?version=${ABOUT.version}&${have}${live ? live.asks() : ""}`);
    const { unfinished = [], live: state, ...given } = await answer.json();
    if (live && !live.show(state)) return; // the page is of another run now
    say(unfinished);
    if (given.version !== undefined && given.version !== ABOUT.version) {
      const atEnd = chosen.event === null && chosen.time >= END - 1e-9;
      for (const [name, value] of Object.entries(given)) {
        if (lists.includes(name)) ABOUT[name].push(...value);
        else ABOUT[name] = value;
      }
      END = ABOUT.end;
      if (atEnd && !chosen.playing) goTo(END);
      renew();
    }
    if (live) ask().catch(gone); // the server answers when there is something new
    else if (ABOUT.follows) setTimeout(() => ask().catch(gone), 1000);
  }
  const gone = () => { if (live) { live.lost(); setTimeout(() => ask().catch(gone), 1000); return; } say([]); document.getElementById("problem").textContent = "The server has ended: what came so far is shown."; ABOUT.follows = false; };
  ask().catch(gone);
}

main();

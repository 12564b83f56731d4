// The overview: the settings of the run, its totals, and its sections.

const HEADLINES = 6; // metrics with their value at the end, above all sections
let OVERVIEW = null; // what the sections draw

/** When the last event was, as words: a run under way has no end yet, and that of a killed run is not on record. */
const atTheEnd = () => (["running", "killed"].includes(OVERVIEW.run.status) ? "so far" : "at the end");

/** The data of a section. */
const sectionData = (name) => OVERVIEW.sections.find((one) => one.name === name)?.data;

async function loadOverview() {
  if (!ABOUT.served) return JSON.parse(await blockText(ABOUT.overview));
  const answer = await answerTo("overview");
  if (!answer.ok) throw new Error("the server could not read the run");
  return answer.json();
}

/** A part of a section, closed if it has more than 50 rows; the heading says how many. */
const folded = (part, count, what) => (count > 50 ? h("details", { class: "long" }, h("summary", {}, `${number(count)} ${what}`), part) : part);

/** A table; a column is [heading, cell of a row, whether it is a number]. */
function table(columns, rows) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([name, , n]) => h("th", { class: n && "n" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, cell, n]) => h("td", { class: n && "n" }, cell(row))))))));
}

/** A bar of parts: [share of its width, name of a colour]. */
const bar = (...parts) => h("div", { class: "bar" }, parts.map(([share, colour]) => h("i", { style: { width: share * 100 + "%", background: `var(--${colour})` } })));

/** A line of a talk or a story: when, who, and a text or its lines. */
const spoken = (at, who, text, kind = "") => h("div", { class: "spoken " + kind }, h("span", { class: "note" }, time(at, true)), h("b", {}, who),
  h("div", {}, [text].flat().map((one) => h("div", {}, one))));

/** The command that writes a table of this run. */
const exported = (view) => h("code", {}, `sim export ${OVERVIEW.run.id} ${view} --to ${view}.csv`);

/** A link to an agent, if it is one. */
const agentLink = (name) => h("button", { type: "button", class: "link", onclick: () => openRow(name) }, name);

function facts() {
  const { run } = OVERVIEW;
  const given = Object.entries(run.options).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`);
  const traits = [`seed ${run.seed}`, `${run.mode} mode`, run.tick && `a tick every ${lasting(run.tick)}`, run.backend,
    run.stopped_by && `stopped by ${run.stopped_by}`, ...given, run.origin && `branched from ${run.origin.run}`].filter(Boolean);
  const made = Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  const when = [run.started, run.ended].filter(Boolean).map((one) => one.slice(0, 16).replace("T", " ") + " UTC");
  return [h("p", { class: "lead" }, traits.join(" · ")),
    h("p", { class: "lead made" }, `Run ${run.id}, ${[...new Set(when)].join(" to ")}${made && `, with ${made}`}`),
    run.description && h("p", { class: "lead" }, run.description), run.error && h("p", { class: "lead error" }, run.error),
    run.warnings.map((one) => h("p", { class: "lead warning" }, `warning: ${one}`))];
}

function tiles() {
  const { agents, events, malformed, iterations, actions, refused, errors, wakeups, messages, lost, unread, waiting, calls, spent } = OVERVIEW.numbers, { end, run } = OVERVIEW;
  const wall = (Date.parse(run.ended) - Date.parse(run.started)) / 1000, { names, values } = ABOUT.series.metrics;
  const made = [
    [lasting(end), "simulated"], wall > 0 && [lasting(wall), `real time (${short(end / wall)} ×)`], [number(agents), things(agents, "agent")],
    iterations !== null && [number(iterations), things(iterations, "iteration")], [number(actions), `${things(actions, "action")} done`], [number(refused), "refused", refused > 0],
    errors !== null && [number(errors), `failed ${things(errors, "iteration")}`, errors > 0], [number(wakeups), things(wakeups, "wake-up")], messages > 0 && [number(messages), things(messages, "message")],
    lost > 0 && [number(lost), "lost from full mailboxes", true], unread > 0 && [number(unread), "never read", true], waiting > 0 && [number(waiting), "still waiting to be read"],
    calls > 0 && [number(calls), things(calls, "model call")], spent > 0 && [money(spent), "spent on models"], [number(events), things(events, "event")],
    malformed > 0 && [number(malformed), `malformed ${things(malformed, "event")}`, true],
  ].filter(Boolean);
  const results = names.slice(0, HEADLINES).map((name, at) => [values[at].at(-1) === null ? "no value" : number(values[at].at(-1)), `${name} ${atTheEnd()}`]);
  const tile = ([value, name, bad]) => h("div", { class: "tile" + (bad ? " bad" : "") }, h("b", {}, value), h("span", {}, name));
  return [h("div", { class: "tiles" }, made.map(tile)), results.length > 0 && h("div", { class: "tiles results" }, results.map(tile))];
}

/** The scenario and the hash of the run. */
function origin() {
  const text = h("pre", { class: "mono whole" });
  const load = () => text.textContent || blockText(ABOUT.scenario).then((given) => { text.textContent = visible(given); }, complain);
  return h("div", { class: "origin" }, h("details", { ontoggle: load }, h("summary", {}, "The scenario as run"), text),
    OVERVIEW.run.hash && h("p", {}, "hash ", h("code", {}, OVERVIEW.run.hash)));
}

/** A section as it is drawn, or null if there is nothing to draw. */
function drawn({ name, title, data }) {
  if (!SECTIONS.has(name)) throw new Error(`no script draws the section ${name}`);
  const parts = SECTIONS.get(name)(data);
  if (!parts) return null;
  const [note, ...body] = parts;
  return h("section", { id: name }, h("div", { class: "head" }, h("h2", {}, title), note && h("p", { class: "note" }, note)), body);
}

function makeOverview() {
  const inner = h("div", { class: "inner" }, h("p", { class: "note" }, "The overview is being loaded."));
  const more = h("p", { class: "more-now", hidden: true }, "There is more of the run by now. ", button("show it", "read the run again", () => { state = ""; refresh(); }));
  const box = h("div", { class: "panel overview" }, more, inner);
  let state = "", part = null, row = -1;

  async function show() {
    OVERVIEW = await loadOverview();
    const made = OVERVIEW.sections.filter(({ name }) => !ABOUT.tabs.some(([own]) => own === name)).map(drawn).filter(Boolean);
    const links = made.map(({ id }, at) => h("button", { type: "button", class: "link", onclick: () => choose({ part: id }) }, made[at].querySelector("h2").textContent));
    more.hidden = true;
    inner.replaceChildren(...[facts(), h("nav", {}, h("div", {}, links)), tiles(), made, origin()].flat(2).filter((one) => one instanceof Node));
    part = null;
    row = -1;
    box.dataset.ready = String(Math.round(performance.now())); // milliseconds until it was drawn, for measurements
    refresh();
  }

  /** Draw, and show the chosen agent and section. */
  function draw() {
    const wanted = palette.paper;
    if (state !== wanted) {
      state = wanted;
      show().catch(complain);
    } else if (OVERVIEW) {
      more.hidden = ABOUT.events <= OVERVIEW.numbers.events;
      if (row !== chosen.agent) showRow(ABOUT.names[row = chosen.agent]);
      if (part !== chosen.part) (part = chosen.part) && document.getElementById(part)?.scrollIntoView();
    }
  }
  return { box, draw };
}

/** A tab for one section. */
function makeSectionTab(name) {
  const box = h("div", { class: "panel overview" });
  let state = "";
  async function show() {
    OVERVIEW = OVERVIEW || await loadOverview();
    const found = OVERVIEW.sections.find((one) => one.name === name);
    box.replaceChildren(found && drawn(found) || h("p", { class: "note" }, "This run has nothing of the kind."));
  }
  const draw = () => { if (state !== palette.paper) { state = palette.paper; show().catch(complain); } };
  return { box, draw };
}

tab("overview", "Overview", 10, makeOverview);

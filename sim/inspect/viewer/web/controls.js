// What is chosen, and how it changes.

const chosen = { time: 0, event: null, agent: -1, other: -1, tab: "agents", colour: "state", lines: true, playing: false, speed: 1, calls: true, part: null };
const collator = new Intl.Collator("en", { numeric: true });

/** Something went wrong: say so on the page. */
function complain(error) {
  const banner = document.getElementById("problem");
  if (banner) banner.textContent = "This page has a problem: " + visible(String(error && error.message || error));
  throw error;
}

const label = (name) => (name < 0 ? "" : visible(ABOUT.names[name]));
const roleOf = (name) => ABOUT.role_names[ABOUT.roles[name]];
const isAgent = (name) => ABOUT.roles[name] === 1;

let sortedAgents = [], sortedFor = "";

/** All agents, by name. */
function agents() {
  const known = ABOUT.names.length + "/" + ABOUT.events;
  if (known !== sortedFor) sortedAgents = findAgents();
  sortedFor = known;
  return sortedAgents;
}

function findAgents() {
  return ABOUT.names.map((_, name) => name).filter(isAgent).sort((one, other) => collator.compare(ABOUT.names[one], ABOUT.names[other]));
}

let scheduled = false;
const watchers = []; // called after each change of the moment: watch(nowInMilliseconds)

/** Draw soon. */
function refresh() {
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(step);
  }
}

let last = 0, remembering = 0, remembered = "";
function step(milliseconds) {
  scheduled = false;
  const passed = Math.min(100, milliseconds - last);
  last = milliseconds;
  if (chosen.playing) {
    chosen.event = null;
    chosen.time = Math.min(END, chosen.time + (passed / 1000) * chosen.speed);
    if (chosen.time >= END && !ABOUT.follows) chosen.playing = false;
  }
  if (reach(chosen.time, chosen.event, refresh)) {
    chosen.time = moment.time;
    for (const watch of watchers) watch(milliseconds);
  }
  if (chosen.playing) refresh();
  else {
    clearTimeout(remembering); // browsers allow a few changes of the address a second
    remembering = setTimeout(remember, 250);
  }
}

/** Go to a time. */
function goTo(seconds) {
  chosen.time = Math.max(0, Math.min(END, seconds));
  chosen.event = null;
  refresh();
}

/** Go to just after an event. */
function goToEvent(number) {
  if (!ABOUT.events) return;
  chosen.playing = false;
  chosen.event = Math.max(1, Math.min(ABOUT.events, number));
  refresh();
}

/** Go to the next or previous event; with an agent chosen, to one that concerns it. */
let stepping = 0;
async function stepEvent(direction) {
  const mine = ++stepping, name = chosen.agent;
  const match = name < 0 ? () => true : (frame, offset) => concerns(frame, offset, name);
  const current = () => mine === stepping;
  const found = direction > 0 ? await findAfter(moment.event, 1, match, current) : await findBefore(moment.event - 1, 1, match, current);
  if (found && found.length) goToEvent(found[0]);
  else if (found) goTo(direction > 0 ? END : 0);
}

function play(on = !chosen.playing) {
  if (on && chosen.time >= END) chosen.time = 0;
  chosen.playing = on;
  last = performance.now();
  refresh();
}

/** What plays the run from this page, if something does: {bar: its element, asks(): what `news` is asked beside the view, show(given): takes in the answer, lost(): there is no connection}. */
let live = null;

const TABS = [];

/** Define a tab: `make()` returns its element `box`, and `draw(milliseconds)`, which is called when the moment has changed. Tabs are in the order of `place`. */
const tab = (name, title, place, make) => TABS.push({ name, title, place, make });

const SECTIONS = new Map();

/** Define how a section of the overview is drawn: `draw(data)` returns [note, ...elements], or null if there is nothing to draw. */
const section = (name, draw) => SECTIONS.set(name, draw);

let choices = 0;
const choosers = []; // called when something else was chosen

/** Choose an agent (or -1), a tab, a colour, ... */
function choose(given) {
  Object.assign(chosen, given);
  choices++;
  for (const tell of choosers) tell(given);
  refresh();
}

/** Show an agent. */
const openAgent = (name) => choose({ agent: name, tab: "agents" });

// The address has the moment and what is chosen, so that it can be kept and sent.
function remember() {
  const latest = ABOUT.follows && chosen.time >= END;
  const parts = [["t", latest ? null : String(Number(chosen.time.toFixed(9)))], ["event", chosen.event], ["tab", chosen.tab], ["part", chosen.tab === "overview" ? chosen.part : null], ["colour", chosen.colour],
    ["agent", chosen.agent < 0 ? null : ABOUT.names[chosen.agent]], ["other", chosen.other < 0 ? null : ABOUT.names[chosen.other]]];
  const text = "#" + parts.filter(([, value]) => value !== null).map(([name, value]) => name + "=" + encodeURIComponent(value)).join("&");
  if (text !== remembered) history.replaceState(null, "", (remembered = text));
}

/** Choose what the address says. */
function recall() {
  const given = new Map(location.hash.slice(1).split("&").map((part) => part.split("=", 2).map(decoded)));
  const number = (text) => (text !== undefined && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);
  const named = (text) => (text === undefined ? -1 : ABOUT.names.indexOf(text));
  if (number(given.get("t")) !== null) chosen.time = Math.max(0, Math.min(END, number(given.get("t"))));
  const event = number(given.get("event"));
  chosen.event = event === null || !ABOUT.events ? null : Math.max(1, Math.min(ABOUT.events, Math.floor(event)));
  chosen.agent = named(given.get("agent"));
  chosen.other = named(given.get("other"));
  for (const name of ["tab", "colour", "part"]) if (given.has(name)) chosen[name] = given.get(name);
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return ""; }
}

// Colours of the theme, for canvases.
let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "grid", "card", "paper", "accent", "bad", "good", "running", "sleeping", "paused", "starting", "stopping", ...Array.from({ length: 13 }, (_, at) => "c" + at)];
  palette = Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
  palette.stopped = palette.line;
}

/** Call `draw` at most once in some milliseconds, and at once after a choice; the last call is never left out. */
function paced(milliseconds, draw) {
  let before = -Infinity, waiting = 0, choice = 0;
  return () => {
    const now = performance.now(), left = choice === choices ? before + milliseconds - now : 0;
    choice = choices;
    clearTimeout(waiting);
    if (left > 0) { waiting = setTimeout(refresh, left + 1); return; }
    before = now;
    draw();
  };
}

/** A link to an event. */
const eventLink = (number, text) => h("button", { type: "button", class: "link", title: `event ${number}`, onclick: () => openEvent(number) }, text);

/** A link to an agent or another name. */
const nameLink = (name) => name < 0 ? null : h("button", { type: "button", class: "link name", onclick: () => openAgent(name) }, ABOUT.names[name]);

/** A button with a sign. */
const button = (sign, title, onclick, more = {}) => h("button", { type: "button", title, "aria-label": title, onclick, ...more }, sign);

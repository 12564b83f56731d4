// The state of all agents, and of what they share, at the moment: found by a replay that a server makes.

const MOST_ROWS = 200; // agents in the document at the same time

function makeMoment() {
  const search = h("input", { type: "search", placeholder: "name, state, or what it waits for", "aria-label": "filter agents of the moment", oninput: () => show() });
  const note = h("span", { class: "note", role: "status" });
  const body = h("div", { class: "around", tabindex: 0 });
  const head = h("div", { class: "head" }, search, note);
  const box = h("div", { class: "panel" }, head, body);
  head.hidden = true;
  let begun = false, asked = false, found = null, one = null, wanted = "", had = "", busy = false, waiting = 0;

  const place = () => (chosen.event === null ? { t: String(chosen.time) } : { event: chosen.event });
  const command = () => `sim show ${ABOUT.run.id} state${chosen.event === null ? atTime(chosen.time) : ` --at event:${chosen.event}`}`;

  /** Say what it costs, before anything is repeated. */
  async function offer() {
    if (!ABOUT.served) return body.replaceChildren(h("div", { class: "offer" }, withoutServer("has no state of a moment", `sim view ${ABOUT.run.id} --serve`, command())));
    if (ABOUT.follows) return body.replaceChildren(h("div", { class: "offer" }, h("p", {}, "The run is under way. Its moments can be found when it has ended.")));
    if (asked) return;
    asked = true;
    body.replaceChildren(h("p", { class: "note" }, "Asking what it costs."));
    try {
      const cost = await replayed("cost");
      const start = button("find it", "replay the run, and show the state at this moment (M)", begin, { id: "find-moment" });
      body.replaceChildren(h("div", { class: "offer" }, h("p", {}, "What each agent waits for, its mailbox, its timers and its calls are not on record. A replay finds them, at the moment of the bar of time."), costNodes(cost),
        h("p", {}, "Then any moment takes about a second.")), start);
      if (box.contains(document.activeElement) || document.activeElement === document.body) start.focus();
    } catch (error) {
      body.replaceChildren(failure(error), button("ask again", "ask again", () => { asked = false; refresh(); }));
    }
  }

  function begin() {
    if (begun || ABOUT.follows || !ABOUT.served) return;
    begun = true;
    head.hidden = false;
    body.replaceChildren(h("p", { class: "note" }, "Repeating the run up to this moment."));
    ask().then(pass).catch(complain);
  }

  /** Make the checkpoints, one after the other, so that all moments are near one. */
  async function pass() {
    try {
      for (let known = { made: 0, total: 1 }; known.made < known.total;) {
        known = await replayed("ahead");
        note.dataset.ready = String(known.made >= known.total);
        say(known.made < known.total ? `${number(known.made)} of ${number(known.total)} checkpoints` : "");
      }
    } catch (error) {
      say(`Not all moments can be found: ${error.message}`);
    }
  }

  let progress = "";
  function say(text) {
    progress = text;
    const agents = found && !one ? counted(found.rows.length, "agent") : "";
    note.textContent = [agents, progress].filter(Boolean).join(", ");
  }

  /** Ask for the moment that is wanted, until it is there; one question at a time. */
  async function ask() {
    if (busy) return;
    busy = true;
    body.setAttribute("aria-busy", "true");
    while (had !== key()) {
      const now = key(), where = place(), agent = chosen.agent;
      const began = performance.now();
      try {
        const name = ABOUT.names[agent], all = await replayed("moment", where);
        const single = agent < 0 ? null : all.rows.some(([known]) => known === name) ? await replayed("moment", { ...where, agent: name }) : { missing: true };
        [found, one] = [all, single];
        body.dataset.took = String(Math.round(performance.now() - began)); // milliseconds, for measurements
        show();
      } catch (error) { // the next place may be found
        found = one = null;
        say(progress);
        body.replaceChildren(failure(error), button("ask again", "ask for this moment again", () => { had = ""; ask(); }));
      }
      had = now;
    }
    busy = false;
    body.removeAttribute("aria-busy");
  }

  const key = () => JSON.stringify([place(), chosen.agent]);

  function show() {
    if (!found) return;
    search.hidden = Boolean(one);
    say(progress);
    const when = h("p", { class: "note" }, found.ended ? `The end, ${time(found.time, true)}` : chosen.event === null ? `After all that was due until ${time(found.time, true)}` : `After the step of event ${chosen.event}, at ${time(found.time, true)}`, `; ${counted(found.events, "event")} so far`);
    body.replaceChildren(when, ...(one ? oneNodes() : allNodes()));
    body.dataset.events = String(found.events);
  }

  function allNodes() {
    const text = search.value.trim().toLowerCase();
    const rows = found.rows.filter((row) => !text || row.slice(0, 4).some((cell) => String(cell).toLowerCase().includes(text)));
    const cell = (value, at) => h("td", {}, at === 0 ? agentNode(value) : at === 2 ? time(value, true) : value);
    const last = found.headings.length - 1; // the variables, which have a line of their own
    return [h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, found.headings.slice(0, last).map((one) => h("th", {}, one)))),
      h("tbody", {}, rows.slice(0, MOST_ROWS).map((row) => [h("tr", { class: row[last] && "above" }, row.slice(0, last).map(cell)), row[last] && h("tr", { class: "variables" }, h("td", { colspan: last, title: row[last] }, row[last]))])))),
      rows.length > MOST_ROWS && h("p", { class: "note" }, `${number(rows.length - MOST_ROWS)} more: filter them.`),
      found.shared.length > 0 && h("h3", {}, "What they share"), found.shared.length > 0 && plainTable(["part", "state"], found.shared),
      found.ahead.rows.length > 0 && h("h3", {}, "Due, of no agent"), found.ahead.rows.length > 0 && plainTable(found.ahead.headings, found.ahead.rows)].filter(Boolean);
  }

  function oneNodes() {
    const back = button("all agents", "back to all agents (Escape)", () => choose({ agent: -1, other: -1 }));
    if (one.missing) return [h("p", {}, `${label(chosen.agent)} is no agent of this moment.`), back];
    return [h("div", { class: "head" }, h("h2", {}, ABOUT.names[chosen.agent]), back),
      h("table", {}, h("tbody", {}, one.facts.map(([name, text]) => h("tr", {}, h("th", {}, name), h("td", {}, text))))),
      ...one.lists.flatMap(({ title, headings, rows, total }) => [h("h3", {}, title), plainTable(headings, rows), total > rows.length && h("p", { class: "note" }, `${number(total - rows.length)} more are not shown.`)])].filter(Boolean);
  }

  const agentNode = (name) => h("button", { type: "button", class: "link", title: "all of its state", onclick: () => choose({ agent: ABOUT.names.indexOf(name), other: -1 }) }, name);

  const draw = () => {
    if (!begun) { offer(); return; }
    if (wanted === key()) return;
    wanted = key();
    clearTimeout(waiting);
    waiting = setTimeout(ask, 250); // when the bar stands still
  };
  return { box, draw, begin: () => { if (asked) begin(); } };
}

/** The option of a command that stands after all that is due at a time; none at the end, where it stands without one. */
function atTime(seconds) {
  const after = Math.round(seconds * 1e9) + 1;
  return ABOUT.instant || after >= Math.round(END * 1e9) ? "" : ` --at ${after}ns`;
}

tab("moment", "Moment", 25, makeMoment);

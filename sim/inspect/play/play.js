// The bar by which a run is played: what it asks of the server, and what the server says.

live = (() => {
  const window_ = crypto.randomUUID();
  let state = ABOUT.live;
  let updates = []; // when the latest came, for a second
  const watching = []; // called with each new state

  /** Have the server do something, and say what is wrong. */
  async function ask(what) {
    try {
      const answer = await fetch("do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) });
      const found = answer.ok ? await answer.json() : { error: await answer.text() };
      say(found.error ? found.error + (found.hint ? ` (${found.hint})` : "") : found.said || "", Boolean(found.error));
      return found;
    } catch {
      lost();
      return { error: "lost" };
    }
  }

  const note = h("p", { class: "said-note", role: "status", "aria-live": "polite", style: { margin: "0" } });
  let said = "", cut = false;
  /** Say something until the next thing is asked for; without, say what the server has said last. */
  function say(text, bad = false) {
    said = text;
    note.textContent = visible(text || state.note);
    note.classList.toggle("bad", bad);
  }

  function lost() {
    cut = true;
    say("There is no connection to the program. What came so far is shown; the page tries again every second.", true);
  }

  const ended = () => state.phase === "ended";
  const act = (sign, title, what, more = {}) => h("button", { type: "button", title, onclick: () => what(), ...more }, sign);
  const goOrPause = () => { goTo(END); ask({ do: state.phase === "going" ? "hold" : "go" }); };
  const step = (kind) => {
    goTo(END);
    const agent = chosen.agent < 0 ? "" : ABOUT.names[chosen.agent];
    if (kind === "agent" && !agent) say("Choose an agent first: on the map, or in the table of agents.", true);
    else ask({ do: "step", kind, agent });
  };
  const buttons = {
    setup: act("Setup", "set up the run again, with the same seed (u)", () => ask({ do: "setup" }), { id: "play-setup" }),
    go: act("Go", "go or pause (g)", goOrPause, { id: "play-go", class: "main" }),
    event: act("Event", "run to the next event, and to the end of its instant (e)", () => step("event"), { id: "play-event" }),
    tick: act("Tick", "run to the end of the next tick (t)", () => step("tick"), { id: "play-tick" }),
    agent: act("Agent", "run to what the chosen agent does next (a)", () => step("agent"), { id: "play-agent" }),
    stop: act("Stop", "end the run here; its record stays, and can be continued (x)", () => ask({ do: "stop" }), { id: "play-stop" }),
    again: act("Next seed", "set up another run, with the next seed (n)", () => ask({ do: "again" }), { id: "play-again" }),
  };
  const speeds = h("select", { id: "play-speed", "aria-label": "speed", title: "simulated time a second (slower s, faster f)", onchange: () => pace() });
  let pacing = null; // the speed that was chosen, until the server has said it, so that an update under way does not take it back
  async function pace() {
    const own = (pacing = { speed: speeds.value, until: Infinity });
    const answer = await ask({ do: "pace", speed: own.speed === "" ? null : Number(own.speed) });
    own.until = answer.error ? 0 : performance.now() + 1000; // by then, another window can have chosen another one
  }
  /** Choose the next speed of the list. */
  function faster(by) {
    const at = speeds.selectedIndex + by;
    if (speeds.disabled || at < 0 || at >= speeds.length) return;
    speeds.selectedIndex = at;
    speeds.dispatchEvent(new Event("change"));
  }
  const clock = h("output", { class: "clock", id: "play-clock" });
  const bar = h("div", { class: "play", role: "toolbar", "aria-label": "play the run" },
    buttons.setup, buttons.go, h("span", { class: "gap" }), h("span", { class: "note" }, "step to the next"), buttons.event, buttons.tick, buttons.agent,
    h("span", { class: "gap" }), speeds, h("span", { class: "gap" }), buttons.stop, buttons.again, clock, note);

  function fillSpeeds() {
    const all = [...new Set([...state.speeds, ...(state.speed === null ? [] : [state.speed])])].sort((one, other) => one - other);
    const offered = [[1, "real time"], ...all.filter((speed) => speed !== 1).map((speed) => [speed, speedText(speed)])].filter(([speed]) => all.includes(speed));
    const wanted = JSON.stringify(offered);
    if (speeds.dataset.offered !== wanted) {
      speeds.dataset.offered = wanted;
      speeds.replaceChildren(...offered.map(([speed, text]) => h("option", { value: speed }, text)), h("option", { value: "" }, "as fast as it can"));
    }
    const speed = state.speed === null ? "" : String(state.speed);
    if (pacing !== null && (pacing.speed === speed || performance.now() > pacing.until)) pacing = null;
    speeds.value = pacing === null ? speed : pacing.speed;
  }

  function draw() {
    const going = state.phase === "going";
    buttons.go.textContent = going ? "Pause" : "Go";
    for (const name of ["go", "event", "tick", "agent", "stop"]) buttons[name].disabled = ended();
    for (const name of ["event", "tick", "agent"]) buttons[name].disabled ||= going;
    speeds.disabled = ended();
    fillSpeeds();
    const phase = state.held ? "paused from a terminal: sim resume" : { ready: "set up", going: "running", paused: "paused", ended: "ended" }[state.phase];
    const rate = going ? `, ${updates.length} update${updates.length === 1 ? "" : "s"} a second` : "";
    clock.textContent = `${phase} at ${time(state.now, true) || "0s"}${state.until === null ? "" : ` of ${lasting(state.until)}`}${rate}`;
    for (const watch of watching) watch(state);
  }

  /** Take in what the server says; returns whether the page is still of this run. */
  function show(given) {
    if (given.run !== state.run) { location.reload(); return false; }
    const spoken = given.note !== state.note, now = performance.now();
    updates = [...updates, now].filter((at) => at > now - 1000);
    state = given;
    if (cut || spoken) { cut = false; say(""); }
    draw();
    return true;
  }

  addEventListener("pagehide", () => fetch("do", { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ do: "leave", window: window_ }) }).catch(() => {}));
  addEventListener("keydown", (event) => {
    const on = event.target instanceof Element ? event.target : document.body;
    const types = on.matches("input:not([type=range], [type=checkbox]), select, textarea"); // letters are for it
    if (types || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "s" || event.key === "f") { event.preventDefault(); faster(event.key === "f" ? 1 : -1); }
    const act = { g: buttons.go, u: buttons.setup, e: buttons.event, t: buttons.tick, a: buttons.agent, x: buttons.stop, n: buttons.again }[event.key];
    if (act && !act.disabled) { event.preventDefault(); act.click(); }
  });
  choosers.push(() => draw());
  draw();
  say("");
  return { bar, show, lost, ask, say, watching, state: () => state, asks: () => `&window=${window_}&run=${encodeURIComponent(state.run)}&live=${state.version}` };
})();

/** What a person changes: the controls of the scenario, what is said to agents and decided at gates, and the list of all that. */
tab("play", "Play", 5, () => {
  const knobs = h("div", {}), hand = h("ol", { class: "hand" }), empty = h("p", { class: "note" });
  const words = h("input", { type: "text", id: "play-words", maxlength: 4000, "aria-label": "what to say", onkeydown: (event) => { if (event.key === "Enter") tell(); } });
  const whom = h("b", {}), gates = h("div", {}), questions = h("div", {}), file = h("input", { type: "text", id: "play-file", "aria-label": "name of the new file" });
  const asPerson = h("input", { type: "checkbox", id: "play-person", onchange: () => answerFor(asPerson.checked) }), as = h("b", {});
  const within = h("input", { type: "number", id: "play-within", onchange: () => asPerson.checked && answerFor(true), min: 1, max: 31536000, value: 300, "aria-label": "simulated seconds for an answer" });
  const otherwise = h("input", { type: "text", id: "play-otherwise", onchange: () => asPerson.checked && answerFor(true), maxlength: 4000, placeholder: "the model answers then", "aria-label": "the answer after that time" });
  const answering = h("div", { class: "answering" }, h("label", {}, asPerson, " Answer as ", as, " instead of its model"),
    h("div", { class: "say" }, h("label", {}, "within ", within, " simulated seconds; otherwise "), otherwise));
  const box = h("div", { class: "panel scrolls", role: "tabpanel" },
    h("h3", {}, "Controls"), knobs,
    h("h3", {}, "Say something to ", whom), h("div", { class: "say" }, words, button("Say", "send it as a message from a person", () => tell(), { id: "play-say" })), gates,
    answering, questions,
    h("h3", {}, "Done by hand"), empty, hand,
    h("div", { class: "say" }, file, button("Write as a file", "write a copy of the scenario that has all this as interventions", () => live.ask({ do: "write", file: file.value }), { id: "play-write" })));
  const agent = () => (chosen.agent >= 0 && isAgent(chosen.agent) ? ABOUT.names[chosen.agent] : "");
  async function tell() {
    if (!agent()) { live.say("Choose an agent first: on the map, or in the table of agents.", true); return; }
    if (words.value && !(await live.ask({ do: "tell", agent: agent(), text: words.value })).error) words.value = "";
  }

  let asking = null; // what was asked for an agent, until the run has taken it in
  async function answerFor(on) {
    const whose = agent(), seconds = on ? Number(within.value) : 0;
    if (on && !(seconds > 0)) {
      live.say("Give the simulated seconds for an answer: a number above 0.", true);
      fillPlace();
      return;
    }
    asking = { whose, on };
    if ((await live.ask({ do: "answerfor", agent: whose, seconds, otherwise: on ? otherwise.value || null : null })).error) asking = null;
    fillPlace();
  }

  /** A call of an agent that waits for a person: what is asked, and how to answer. */
  function question(one) {
    const words = h("textarea", { rows: 3, maxlength: 20000, "aria-label": `answer as ${one.agent}` });
    const how = h("select", { "aria-label": "how to answer" }, h("option", { value: "" }, "say"), one.tools.map((tool) => h("option", { value: tool.name, title: visible(tool.description) }, "call " + visible(tool.name))));
    const offered = one.tools.map((tool) => h("li", {}, h("b", {}, visible(tool.name)), ": " + visible(tool.description)));
    const choice = { required: "It must call a tool.", none: "It must not call a tool." }[one.choice] ?? (one.choice && one.choice !== "auto" ? `It must call ${visible(one.choice)}.` : "");
    const wanted = h("div", { class: "note wanted" }, offered.length ? h("ul", {}, offered) : null, choice && h("p", {}, choice),
      one.format ? h("p", {}, "It is asked for JSON of this schema: ", h("code", {}, visible(JSON.stringify(one.format)))) : null);
    how.addEventListener("change", () => {
      const tool = one.tools.find(({ name }) => name === how.value), fields = Object.keys(tool?.parameters?.properties ?? {});
      words.placeholder = tool ? JSON.stringify(Object.fromEntries(fields.map((name) => [name, "..."]))) : "";
    });
    const send = () => {
      let call = null;
      if (how.value) {
        try { call = { tool: how.value, args: JSON.parse(words.value || "{}") }; }
        catch { live.say("The arguments of a tool are an object of JSON, such as " + words.placeholder, true); return; }
      } else if (!words.value.trim()) { live.say("Write an answer first, or let the model answer.", true); return; }
      live.ask({ do: "answer", question: one.question, text: call ? "" : words.value, call });
    };
    return h("div", { class: "said question" }, h("b", {}, visible(one.agent)), ` asks (until ${time(one.until, true)}):`, h("pre", {}, visible(one.text)), wanted, words,
      h("div", { class: "say" }, how, button("Answer", "give this answer", send, { class: "answer" }), button("Let the model answer", "the model answers this call", () => live.ask({ do: "answer", question: one.question, text: "" }), { class: "leave" })));
  }
  const asked = new Map(); // by name of the question: its element, which keeps what is being written
  function fillQuestions(people) {
    const waiting = people?.waiting ?? [], ids = new Set(waiting.map(({ question }) => question));
    for (const [id, element] of asked) if (!ids.has(id)) { element.remove(); asked.delete(id); }
    for (const one of waiting) if (!asked.has(one.question)) { asked.set(one.question, question(one)); questions.append(asked.get(one.question)); }
  }
  let filled = ["", ""]; // the agent whose time and text are shown, and what the run had for it
  function fillPlace() {
    const people = live.state().people, place = people?.agents[agent()], had = JSON.stringify(place ?? null), [whose, before] = filled;
    answering.hidden = !people;
    as.textContent = agent() ? visible(agent()) : "the chosen agent";
    asPerson.disabled = !agent();
    if (live.state().hand.at(-1)?.refused) asking = null;
    if (asking && (asking.whose !== agent() || asking.on === (place !== undefined))) asking = null;
    asPerson.checked = asking ? asking.on : place !== undefined;
    const writing = document.activeElement === within || document.activeElement === otherwise;
    if (whose === agent() && (had === before || !place || writing)) return;
    filled = [agent(), had];
    within.value = place?.within ?? 300;
    otherwise.value = place?.otherwise ?? "";
  }

  /** The element by which one control is changed; `set(value)` asks for a new value. */
  function input(one, set) {
    const given = { id: "knob-" + one.name, "aria-label": one.label };
    if (one.options) {
      const list = h("select", { ...given, onchange: () => set(one.options[Number(list.value)]) }, one.options.map((value, at) => h("option", { value: at }, typeof value === "string" ? value : JSON.stringify(value))));
      return { element: list, put: (value) => { list.value = String(one.options.findIndex((other) => JSON.stringify(other) === JSON.stringify(value))); } };
    }
    if (one.range) {
      const bar = h("input", { ...given, type: "range", min: one.range[0], max: one.range[1], step: one.step, onchange: () => set(Number(bar.value)), oninput: () => bar.closest(".knob").querySelector("output").replaceChildren(number(Number(bar.value))) });
      return { element: bar, put: (value) => { if (document.activeElement !== bar || !bar.matches(":active")) bar.value = value; } };
    }
    const box = h("input", { ...given, type: "checkbox", onchange: () => set(box.checked) });
    return { element: box, put: (value) => { box.checked = value === true; } };
  }

  const made = new Map(); // by name of the control: put(state of the control)
  function fill(state) {
    if (made.size !== state.controls.length || !knobs.firstChild) {
      made.clear();
      knobs.replaceChildren(...(state.controls.length ? [] : [h("p", { class: "note" }, "The scenario has no controls.")]), ...state.controls.map((one) => {
        const { element, put } = input(one, (value) => live.ask({ do: "set", name: one.name, value })), shown = h("output", {}), when = h("small", {});
        made.set(one.name, (now) => {
          put(now.value);
          shown.textContent = one.range ? number(now.value) : one.options ? "" : now.value === true ? "on" : "off";
          when.textContent = now.live ? "changes the run at once" : now.value === now.used ? "counts from the next setup" : `counts from the next setup; this run has ${JSON.stringify(now.used)}`;
        });
        return h("div", { class: "knob" }, h("label", { for: "knob-" + one.name, title: one.key }, one.label), shown, element, when);
      }));
    }
    for (const one of state.controls) made.get(one.name)(one);
    gates.replaceChildren(...state.gates.map((gate) => h("div", { class: "said" }, h("b", {}, gate.agent), ` waits for a decision about ${gate.tool}: `, h("code", {}, gate.args), h("div", { class: "say" },
      button("Approve", "approve it", () => live.ask({ do: "approve", gate: gate.gate, deny: false }), { class: "approve" }), button("Deny", "deny it", () => live.ask({ do: "approve", gate: gate.gate, deny: true }), { class: "deny" })))));
    empty.textContent = state.hand.length ? "" : "Nothing so far.";
    hand.replaceChildren(...state.hand.map((one) => h("li", { class: one.refused ? "refused" : null }, `${one.time === null ? "asked for" : time(one.time, true)}: ${one.what}`, one.refused && ` (refused: ${one.refused})`)));
    if (!file.value) file.value = state.file;
  }
  let drawn = "";
  live.watching.push((state) => {
    fillQuestions(state.people);
    fillPlace();
    const wanted = JSON.stringify([state.controls, state.gates, state.hand]);
    if (wanted !== drawn) { drawn = wanted; fill(state); }
  });
  fill(live.state());
  fillQuestions(live.state().people);
  fillPlace();
  return { box, draw: () => { fillPlace(); whom.textContent = agent() ? visible(agent()) : "an agent"; words.disabled = !agent(); words.placeholder = agent() ? "" : "choose an agent on the map, or in the table of agents"; } };
});

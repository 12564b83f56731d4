// Search in names, events, messages, prompts and answers.

const MOST_HITS = 300;

function makeSearch() {
  const input = h("input", { type: "search", placeholder: "text in names, events, messages, prompts, answers", "aria-label": "search", onkeydown: (event) => event.key === "Enter" && search(), oninput: soon });
  const tally = h("p", { class: "note" }), hits = h("div", { class: "around", tabindex: 0 });
  const box = h("div", { class: "panel" }, h("div", { class: "head" }, input, button("search", "search all of the run", search)), tally, hits);
  let turn = 0, waiting = 0;

  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(search, 350);
  }

  /** A text around a hit, with the hit marked. */
  function snippet(text, at, long) {
    const from = Math.max(0, at - 60);
    return h("span", { class: "what" }, from > 0 && "…", text.slice(from, at), h("mark", {}, text.slice(at, at + long)), text.slice(at + long, at + long + 160));
  }

  async function search() {
    clearTimeout(waiting);
    const wanted = input.value.trim().toLowerCase(), mine = ++turn;
    hits.replaceChildren();
    tally.textContent = "";
    if (!wanted) return;
    let count = 0;
    const add = (make) => { if (count++ < MOST_HITS) hits.append(make()); };
    for (let name = 0; name < ABOUT.names.length; name++) {
      if (ABOUT.names[name].toLowerCase().includes(wanted)) add(() => h("div", { class: "row" }, h("span", { class: "who" }, roleOf(name)), nameLink(name)));
    }
    const written = JSON.stringify(wanted).slice(1, -1); // as it is in the record
    await searchEvents(written, add, (share) => { tally.textContent = `${number(count)} hits, ${percent(share)} searched`; return mine === turn; });
    if (mine === turn) await searchCalls(written, add, () => mine === turn);
    if (mine === turn) tally.textContent = `${number(count)} hits` + (count > MOST_HITS ? `; the first ${MOST_HITS} are shown` : "");
  }

  async function searchEvents(wanted, add, going) {
    for (let chunk = 0; chunk < ABOUT.chunks.length; chunk++) {
      const text = await blockText(ABOUT.chunks[chunk][1]), small = text.toLowerCase();
      if (!going(chunk / ABOUT.chunks.length)) return;
      if (!small.includes(wanted)) continue;
      const lines = text.split("\n");
      lines.forEach((line, at) => {
        const place = line.toLowerCase().indexOf(wanted);
        if (place < 0) return;
        const number = ABOUT.chunks[chunk][2] + at;
        add(() => {
          const event = eventOf(number, line);
          return h("div", { class: "row", tabindex: 0, role: "button", onclick: () => openEvent(number), onkeydown: (key) => key.key === "Enter" && openEvent(number) },
            h("time", {}, time(Number(event.time_ns) / 1e9, true)), h("span", { class: "who" }, event.actor), snippet(line, place, wanted.length));
        });
      });
    }
  }

  async function searchCalls(wanted, add, going) {
    for (const call of ABOUT.calls.length ? await allCalls() : []) {
      const { request, result } = await loadCall(call);
      if (!going()) return;
      for (const text of [request, result]) {
        const place = text.toLowerCase().indexOf(wanted);
        if (place >= 0) add(() => h("div", {}, h("div", { class: "row" }, h("time", {}, time(call.start, true)), h("span", { class: "who" }, ABOUT.names[call.agent]), snippet(text, place, wanted.length)), callNode(call)));
      }
    }
  }
  return { box, draw: () => {}, focus: () => input.focus() };
}

tab("search", "Search", 60, makeSearch);

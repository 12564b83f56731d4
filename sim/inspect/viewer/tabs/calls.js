// The calls of models and other effects, with all that was asked and answered.

const MOST_CALLS = 50; // in the document at the same time

function makeCalls() {
  const tally = h("p", { class: "note" });
  const list = h("div", { class: "around", tabindex: 0 });
  const box = h("div", { class: "panel" }, tally, list);
  let rows = null, key = "", turn = 0;

  async function show() {
    const mine = ++turn;
    if (!rows || rows.length !== ABOUT.calls_in_all) rows = await allCalls();
    if (mine !== turn) return;
    const own = chosen.agent < 0 ? rows : rows.filter(({ agent }) => agent === chosen.agent);
    const now = firstPlace(own.length, (at) => own[at].before > moment.event || own[at].start > moment.time);
    const wanted = [chosen.agent, now, own.length].join();
    if (wanted === key) return;
    key = wanted;
    const who = chosen.agent < 0 ? "" : ` of ${label(chosen.agent)}`;
    tally.textContent = rows.length ? `${number(now)} of ${counted(own.length, "call")}${who} so far; the latest is first.`
      : "No call of a model outside is on record. Models that are scripted or simulated answer inside the run: what agents asked them is under Chat, and what they took under Events (model.call). `sim view RUN --repeat` replays the run and adds their prompts and answers.";
    list.replaceChildren(...own.slice(Math.max(0, now - MOST_CALLS), now).reverse().map((call) => callNode(call)));
    if (now > MOST_CALLS) list.append(h("p", { class: "note" }, "Earlier calls: go to an earlier time, or search."));
  }

  const draw = paced(400, () => {
    show().catch(complain);
  });
  return { box, draw };
}

tab("calls", "Calls", 50, makeCalls);

// A row for each agent, to sort and to filter, with its states over time.

const ROW = 28; // height of a table row in pixels
const VIEW = 476; // height of the visible part of the table in pixels

section("agents", ({ rows: all, total, models }) => {
  const columns = [["agent", "name"], ["group", "group"], [atTheEnd(), "state"], ["states over time", null], ["actions", "done"], ["refused", "refused"],
    ["errors", "errors"], ["wake-ups", "wakeups"], ["sent", "sent"], ["received", "received"], models ? ["cost", "cost"] : ["balance", "balance"]];
  let rows = all.slice(), sorted = null, downwards = false;
  const inner = h("div", {}), view = h("div", { class: "view", role: "rowgroup", tabindex: 0 }, inner), tally = h("p", { class: "note" });

  const cells = (agent) => columns.map(([, key], at) => {
    if (key === null) return drawing(14, (context, width) => paintLane(context, agent.lane, 0, 14, width));
    const value = agent[key], red = value > 0 && (key === "refused" || key === "errors");
    const text = typeof value === "number" ? (key === "cost" || key === "balance" ? money(value) : value === 0 ? "·" : number(value)) : value;
    return h("span", { class: (at > 3 ? "n " : "") + (red ? "red" : ""), title: typeof value === "string" && value, role: "cell" }, text);
  });

  function show() {
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    inner.replaceChildren(...rows.slice(first, first + Math.ceil(VIEW / ROW) + 8).map((agent, at) => h("div", {
      class: "line", role: "row", tabindex: 0, style: { top: (first + at) * ROW + "px" },
      onclick: () => openRow(agent.name), onkeydown: (event) => event.key === "Enter" && openRow(agent.name),
    }, cells(agent))));
  }

  function arrange() {
    const wanted = search.value.trim().toLowerCase();
    rows = all.filter(({ name, group, state }) => !wanted || [name, group, state].some((text) => text.toLowerCase().includes(wanted)));
    if (sorted) {
      rows.sort((one, other) => {
        const [a, b] = [one[sorted], other[sorted]];
        return (typeof a === "string" ? collator.compare(a, b) : (a || 0) - (b || 0)) * (downwards ? -1 : 1);
      });
    }
    inner.style.height = rows.length * ROW + "px";
    view.style.height = Math.min(VIEW, Math.max(1, rows.length) * ROW) + "px";
    const left = total > all.length ? `; of ${number(total)} agents, only those with errors or most events are shown` : "";
    tally.textContent = `${number(rows.length)} of ${counted(all.length, "row")}${left}`;
    view.scrollTop = 0;
    show();
  }

  const search = h("input", { type: "search", placeholder: "name, group or state", "aria-label": "filter agents", oninput: arrange });
  const heads = h("div", { class: "heads", role: "row" }, columns.map(([name, key], at) => h("button", {
    type: "button", class: at > 3 && "n", role: "columnheader",
    onclick: () => { if (key) { downwards = sorted === key ? !downwards : at > 3; sorted = key; arrange(); } },
  }, name)));
  view.addEventListener("scroll", () => requestAnimationFrame(show));
  arrange();
  const grid = [h("div", { class: "head" }, tally, search), h("div", { class: "grid", role: "table" }, h("div", { class: "wide" }, heads, view))];
  return ["click on an agent to see what it has, and what it did", folded(grid, all.length, "agents"), h("div", { id: "row" })];
});

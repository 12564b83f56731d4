// The use of limits over time, and of budgets and quotas.

section("limits", ({ rates, budgets, quotas }) => {
  const cards = rates.map((rate, at) => h("div", {},
    h("h3", {}, rate.resource, " ", h("span", { class: "note" },
      `${rate.limit} for ${rate.scope}; ${number(rate.total)} used, maximum ${percent(rate.peak)}; ${rate.policy === "block" ? "agents wait for free capacity" : "agents without free capacity skip the action"}`)),
    chart([{ name: rate.scope === "all together" ? "in use" : "in use (maximum)", colour: category(at), values: rate.peaks.map((share) => share * 100) }],
      { height: 130, top: 100, marks: [{ at: 100, name: "limit" }], format: (value) => value.toFixed(0) + " %", legend: false })));
  const rows = [
    ...budgets.map((one) => ({ ...one, sort: "budget", every: one.reset ? `renewed every ${one.reset}; spent over the whole run` : "" })),
    ...quotas.map((one) => ({ ...one, sort: "quota", every: one.most === null ? "what is held is known at the end" : "held at the end" })),
  ];
  return ["computed from the recorded actions and calls, with the price list of the scenario; in percent of the limit",
    h("div", { class: "cards" }, cards),
    rows.length > 0 && table([
      ["", ({ sort }) => sort], ["name", ({ name }) => name], ["for each agent", ({ limit }) => number(limit), true],
      ["most", ({ most }) => number(most), true], ["by", ({ agent }) => agent], ["all agents", ({ total }) => number(total), true],
      ["", ({ most, limit }) => most !== null && bar([Math.min(1, most / (limit || 1)), most >= limit * 0.9 ? "bad" : "accent"])], ["", ({ every }) => h("span", { class: "note" }, every)],
    ], rows)];
});

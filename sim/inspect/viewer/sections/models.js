// Calls of language models, with their costs and durations.

section("models", ({ models, calls, spent, tries, uses, ceiling, expected }) => {
  const last = spent.at(-1), counts = (given) => Object.entries(given).map(([name, count]) => `${name} ${number(count)}`).join(", ");
  const marks = [["ceiling", ceiling], ["estimate", expected]].filter(([, at]) => at !== null && at > 0 && at < last * 4).map(([name, at]) => ({ name, at }));
  return [`calls by use: ${counts(uses)}; attempts by outcome: ${counts(tries)}${ceiling === null ? "" : `; ceiling ${money(ceiling)}`}`,
    table([
      ["model", ({ name }) => name], ["calls", (one) => number(one.calls || 0), true], ["failed", ({ failed }) => h("span", { class: failed && "error" }, number(failed || 0)), true],
      ["attempts", ({ attempts }) => number(attempts), true], ["tokens in", ({ input_tokens }) => number(input_tokens), true],
      ["cached", ({ cached_tokens }) => number(cached_tokens), true], ["tokens out", ({ output_tokens }) => number(output_tokens), true], ["cost", ({ cost }) => money(cost), true],
      ["median", ({ seconds }) => lasting(seconds.median), true], ["95 %", ({ seconds }) => lasting(seconds.p95), true], ["longest", ({ seconds }) => lasting(seconds.maximum), true],
    ], models),
    h("div", { class: "cards" },
      h("div", {}, h("h3", {}, "finished calls"), chart([{ name: "calls", colour: "c0", values: calls }], { height: 140 })),
      last > 0 && h("div", {}, h("h3", {}, "spent so far"), chart([{ name: "spent", colour: "c2", values: spent }], { height: 140, marks, format: money })),
      models.filter(({ seconds }) => seconds.maximum > 0).map(({ name, seconds }, at) => h("div", {},
        h("h3", {}, name, " ", h("span", { class: "note" }, "simulated seconds per call")), histogram(seconds, category(at + 3), lasting))))];
});

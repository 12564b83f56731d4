// Errors, refusals and alerts, and how many there were when.

section("errors", ({ rows, counts, total, kinds }) => {
  if (!rows.length) return [null, h("p", { class: "note" }, "none")];
  const left = kinds > rows.length ? `; the ${rows.length} most severe of ${number(kinds)} kinds are listed` : "";
  return [`${counted(total, "event")}${left}`,
    chart([{ name: "errors, refusals and alerts", colour: "bad", values: counts }], { stacked: true, height: 110, legend: false }),
    table([
      ["", ({ kind }) => h("span", { class: "tag " + kind }, kind)], ["description", ({ text }) => text], ["count", ({ count }) => number(count), true],
      ["first agent", ({ agent }) => agentLink(agent)], ["first", ({ first }) => time(first), true], ["last", ({ last }) => time(last), true],
    ], rows)];
});

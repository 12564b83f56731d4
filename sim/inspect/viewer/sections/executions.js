// The tasks of executors, each below the task of which it is a part.

section("executions", ({ total, shown, roots }) => {
  const left = total > shown ? `; the first ${number(shown)} of ${number(total)} are shown` : "";
  return [`tasks of executors with their parts and their help; click on one to read it${left}`, roots.map(execution)];
});

function execution(one) {
  const line = ({ time: at, kind, text }) => (kind === "step" ? h("h4", {}, "step " + text) : spoken(at, kind, text, "message " + kind));
  const colour = { success: "good", failed: "bad", escalated: "bad" }[one.status] || "accent";
  const what = one.ending ? `${one.status} (${one.ending.replaceAll("_", " ")})` : one.agent ? "under way" : "waits";
  return h("div", { class: "task" },
    h("details", { class: "conversation" },
      h("summary", {}, h("b", {}, `${one.number} ${one.name} `), h("span", { style: { color: `var(--${colour})` } }, what), h("span", { class: "note" },
        ` ${one.agent || one.type}, ${number(one.steps)} steps, ${number(one.tokens)} tokens, ${money(one.cost)}`), bar([one.progress, colour])),
      h("p", {}, one.goal),
      one.criteria.map(([text, met]) => h("div", { class: !met && "error" }, (met ? "☑ " : "☐ ") + text)),
      one.lines.map(line),
      one.left_out > 0 && h("p", { class: "note" }, `${number(one.left_out)} further lines are in the record`)),
    one.parts.map(execution));
}

// What people and agents wrote to each other.

section("conversations", ({ total, rows }) => {
  const left = total > rows.length ? `; the first ${rows.length} of ${number(total)} are shown` : "";
  return [`click on one to read it${left}`, folded(rows.map((one) => h("details", { class: "conversation" },
    h("summary", {}, `${one.with} in ${one.place} `, h("span", { class: "note" }, `${one.id}, ${counted(one.total, "message")}`,
      one.total > one.lines.length && `, the latest ${one.lines.length} shown; all: sim show RUN conversation ${one.id} --limit 0`)),
    one.summary && h("p", { class: "note" }, `Before: ${one.summary}`),
    one.lines.map(({ time: at, kind, name, text }) => spoken(at, name, text, kind)))), rows.length, "conversations")];
});

// What agents had to do.

section("tasks", ({ total, counts, rows }) => {
  const left = total > rows.length ? `; ${rows.length} of ${number(total)} are listed, open ones first` : "";
  return [`${Object.entries(counts).map(([status, count]) => `${number(count)} ${status}`).join(", ")}${left}`,
    h("div", { class: "tall" }, folded(table([
      ["task", ({ id }) => "#" + id], ["title", ({ title }) => title], ["status", ({ status }) => h("span", { class: status === "failed" && "error" }, status)],
      ["agent", ({ agent }) => agent], ["created", ({ created }) => time(created), true], ["ended", ({ ended }) => (ended === null ? "" : time(ended)), true],
      ["", ({ late }) => late && h("span", { class: "error" }, "overdue")],
    ], rows), rows.length, "tasks"))];
});

// The calls that a person had to approve.

section("gates", ({ total, counts, rows }) => {
  const left = total > rows.length ? `; the latest ${rows.length} of ${number(total)} are listed` : "";
  return [`calls that a person had to approve: ${Object.entries(counts).map(([status, count]) => `${number(count)} ${status}`).join(", ")}${left}`,
    table([
      ["gate", ({ gate }) => gate], ["agent", ({ agent }) => agent], ["tool", ({ tool }) => tool], ["asked", ({ asked }) => time(asked), true],
      ["waited", ({ waited }) => (waited === null ? "" : lasting(waited)), true], ["status", ({ status }) => h("span", { class: ["denied", "expired", "cancelled"].includes(status) && "error" }, status)],
      ["by", ({ by }) => by], ["reason", ({ reason, note }) => (note ? `${reason}: ${note}` : reason)],
    ], rows)];
});

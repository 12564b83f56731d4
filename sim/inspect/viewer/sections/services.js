// What agents share, in numbers.

section("services", (rows) => ["what agents share: tools, tasks, memories and the like, at the end of the run", table([
  ["service", ({ service }) => service], ["", ({ name }) => name],
  ["", ({ value }) => (typeof value === "number" ? number(value) : value === null ? "" : String(value)), true],
], rows)]);

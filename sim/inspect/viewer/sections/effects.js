// Work outside the simulation, by kind and outcome.

section("effects", ({ kinds, left_out, wrong }) => ["work outside the simulation: each request is recorded before it starts, and each outcome before the agent sees it",
  table([
    ["kind", ({ kind }) => kind], ["outcome", ({ outcome }) => outcome], ["count", ({ count }) => number(count), true],
    ["attempts", ({ attempts }) => number(attempts), true], ["mean", ({ mean }) => (mean === null ? "" : lasting(mean)), true],
    ["longest", ({ longest }) => (longest === null ? "" : lasting(longest)), true], ["latency", ({ latency }) => latency], ["safety", ({ safety }) => safety],
  ], kinds),
  left_out > 0 && h("p", { class: "note" }, `${number(left_out)} further rows, of the least frequent effects, are left out here; sim show RUN calls lists all effects`),
  wrong.length > 0 && [h("h3", { class: "below" }, "The latest failed effects"), table([
    ["started", (one) => time(one.time), true], ["agent", ({ agent }) => agent], ["kind", ({ kind }) => kind], ["outcome", ({ outcome }) => outcome], ["result", ({ result }) => h("code", {}, result)],
  ], wrong)]]);

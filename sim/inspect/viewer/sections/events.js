// Counts of events by topic over time, and of actions.

section("events", ({ topics, actions }) => {
  const series = topics.map(({ name, counts, total }, at) => ({ name, total, values: counts, colour: category(at) }));
  const most = Math.max(...actions.map(({ done, refused }) => done + refused), 1);
  return [`counts in ${series[0].values.length} equal parts of the run`,
    chart(series, { stacked: true, height: 210, legend: true }),
    actions.length > 0 && table([
      ["action", ({ kind }) => kind], ["done", ({ done }) => number(done), true],
      ["refused", ({ refused }) => h("span", { class: refused && "error" }, number(refused)), true],
      ["", ({ done, refused }) => bar([done / most, "good"], [refused / most, "bad"])],
    ], actions)];
});

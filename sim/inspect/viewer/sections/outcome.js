// The metrics of the run, as curves of the view, and histograms of what agents observed.

section("outcome", ({ about, observations }) => {
  const { names, times, values, stride } = ABOUT.series.metrics;
  if (!names.length && !observations.length) return null;

  /** What a metric is: its expression, and the outcomes that the scenario makes of it. */
  const meaning = (name) => about[name] && h("p", { class: "note about" }, `${name}: ${about[name].is}`, about[name].uses.map((one) => [h("br"), one]));
  const charts = names.map((name, at) => h("div", {},
    h("h3", {}, name, " ", h("span", { class: "note" }, values[at].at(-1) === null ? "no value" : number(values[at].at(-1)))),
    chart([{ name, colour: category(at), values: values[at] }], { times, height: 130 }), meaning(name)));
  const bars = observations.map((one, at) => h("div", {},
    h("h3", {}, one.name, " ", h("span", { class: "note" }, `${number(one.n)} observed, mean ${number(one.mean)}, median ${number(one.median)}, 95 % below ${number(one.p95)}`)),
    histogram(one, category(names.length + at))));
  const views = [names.length && "samples", observations.length && "observations"].filter(Boolean);
  return [[stride > 1 && `1 of ${number(stride)} samples is drawn, `, "as CSV: ", views.map((view, at) => [at > 0 && ", ", exported(view)])],
    h("div", { class: "cards" }, charts, bars)];
});

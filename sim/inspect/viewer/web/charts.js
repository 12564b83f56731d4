// Charts over the whole run, with a line at the moment.

const CHART_HEIGHT = 118;
const MOST_CHARTS = 24; // of metrics

function makeCharts() {
  const box = h("div", { class: "charts" });
  let plots = [], zoomed = null; // the part of the run that all charts show: [from, to], or null for the whole run
  function rescale() {
    const [min, max] = zoomed ?? [0, END];
    for (const { plot } of plots) plot.setScale("x", { min, max });
    refresh();
  }

  function card({ title, names, colours, times, values, note }) {
    const holder = h("div", { class: "plot" }), reading = h("span", { class: "reading" });
    const needle = h("div", { class: "needle" });
    const fewer = h("span", { class: "note", title: "There are more points than are drawn." }, note);
    const shown = { plot: null, holder, needle, reading, fewer, title, names, times, values, read: "" };
    box.append(h("figure", {}, h("figcaption", {}, h("b", {}, title), fewer, reading), holder));
    const width = Math.max(180, holder.clientWidth);
    const plot = new uPlot({
      width, height: CHART_HEIGHT, legend: { show: false }, padding: [8, 28, 0, 0],
      cursor: { y: false, sync: { key: "run", scales: ["x", null] }, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
      scales: { x: { time: false } },
      axes: timeAxes(0),
      series: [{}, ...names.map((name, at) => ({ label: name, stroke: colours[at], width: 1.5, points: { show: false }, spanGaps: true }))],
      hooks: {
        ready: [(made) => made.over.append(needle)],
        draw: [(made) => { made.wide = made.bbox.width / uPlot.pxRatio; }],
        setCursor: [pointed((place) => [time(shown.times[place], true), ...names.map((name, at) => [name, shown.values[at][place]])
          .filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => `${visible(name)}: ${number(value)}`)])],
        setSelect: [(made) => {
          const { left, width } = made.select;
          if (width < 2) return;
          zoomed = [made.posToVal(left, "x"), made.posToVal(left + width, "x")];
          made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          rescale();
        }],
      },
    }, [times, ...values], holder);
    plot.over.addEventListener("click", (event) => {
      if (plot.select.width < 2) goTo(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"));
    });
    plot.over.addEventListener("dblclick", () => { zoomed = null; rescale(); });
    plot.over.addEventListener("pointerleave", hideTip);
    shown.plot = plot;
    plots.push(shown);
  }

  /** What there is to draw. */
  function described() {
    const cards = [];
    const { states, metrics, activity } = ABOUT.series;
    const kept = states.names.map((name, at) => [name, states.values[at]]).filter(([name, values]) => name !== "stopped" && values.some((value) => value > 0));
    const every = ({ stride }) => (stride > 1 ? `1 of ${number(stride)} points` : "");
    if (states.times.length) {
      const [times, lines] = stepped(states.times, kept.map(([, values]) => values));
      cards.push({ title: "agents by state", names: kept.map(([name]) => name), colours: kept.map(([name]) => palette[name]), times, values: lines, note: every(states) });
    }
    metrics.names.slice(0, MOST_CHARTS).forEach((name, at) => cards.push({ title: name, names: [name], colours: [palette["c" + (at % 12)]], times: metrics.times, values: [metrics.values[at]], note: every(metrics) }));
    if (activity.times.length > 1) cards.push({ title: "events so far", names: ["events"], colours: [palette.accent], times: activity.times, values: [activity.values[0]], note: every(activity) });
    return cards;
  }

  function build() {
    for (const { plot } of plots) plot.destroy();
    plots = [];
    box.replaceChildren();
    described().forEach(card);
    rescale();
  }

  /** There is more of the run: draw it into the same charts, if they show the same. */
  function renew() {
    const cards = described();
    const same = cards.length === plots.length && cards.every(({ title, names }, at) => title === plots[at].title && names.join() === plots[at].names.join());
    if (!same) { build(); return; }
    cards.forEach(({ times, values, note }, at) => {
      Object.assign(plots[at], { times, values });
      plots[at].fewer.textContent = note;
      plots[at].plot.setData([times, ...values], false);
    });
    rescale();
  }

  /** Counts stay as they are until they change, so their curve has steps. */
  function stepped(times, values) {
    const at = [], lines = values.map(() => []);
    times.forEach((when, index) => {
      if (index) { at.push(when); lines.forEach((line, one) => line.push(values[one][index - 1])); }
      at.push(when);
      lines.forEach((line, one) => line.push(values[one][index]));
    });
    if (at.length && at.at(-1) < END) { at.push(END); lines.forEach((line) => line.push(line.at(-1))); }
    return [at, lines];
  }

  function draw() {
    for (const one of plots) {
      const { plot, needle, reading, names, times, values } = one;
      const left = plot.valToPos(moment.time, "x");
      needle.style.transform = `translateX(${left}px)`;
      needle.style.visibility = left >= 0 && left <= plot.wide ? "visible" : "hidden";
      const at = firstPlace(times.length, (place) => times[place] > moment.time) - 1;
      const text = at < 0 ? "" : names.map((name, index) => [name, values[index][at]]).filter(([, value]) => names.length === 1 || value > 0)
        .map(([name, value]) => (names.length > 1 ? `${visible(name)} ` : "") + number(value)).join(", ");
      if (text !== one.read) reading.textContent = one.read = text;
    }
  }

  whenSized(box, () => {
    for (const { plot, holder } of plots) plot.setSize({ width: Math.max(180, holder.clientWidth), height: CHART_HEIGHT });
    refresh();
  });
  return { box, build, renew, draw };
}

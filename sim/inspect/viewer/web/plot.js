// Charts over simulated time, and histograms: all are drawn by uPlot.

const TIME_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000, 31536000];
const FONT = "11px system-ui, sans-serif";

/** A time on an axis. */
function axisTime(seconds, increment) {
  if (increment % 86400 === 0) return Math.round(seconds / 86400) + "d";
  if (increment >= 60 && END < 172800 && END >= 120) {
    const minutes = Math.round(seconds / 60);
    return [minutes >= 60 && Math.floor(minutes / 60) + "h", (minutes % 60 > 0 || minutes === 0) && (minutes % 60) + "m"].filter(Boolean).join("");
  }
  return time(seconds);
}

/** The axes of a chart over time; `tick` is the period of ticks in seconds, whose numbers are below the times. */
function timeAxes(tick) {
  const axis = { stroke: palette.soft, grid: { stroke: palette.grid, width: 1 }, ticks: { show: false }, font: FONT };
  const text = (at, increment) => axisTime(at, increment) + (tick ? "\n" + tickAt(at, tick) : "");
  return [
    { ...axis, incrs: TIME_STEPS, space: tick ? 90 : 74, size: tick ? 40 : 26, values: (_, splits, __, ___, increment) => splits.map((at) => text(at, increment)) },
    { ...axis, size: 46, space: 34, values: (_, splits) => splits.map(short) },
  ];
}

/** Times for an axis of `width` pixels that a canvas has, as [seconds, text]. */
function timesFor(width, end) {
  const step = TIME_STEPS.find((one) => (end / one) * 90 <= width) || end;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, at) => [at * step, axisTime(at * step, step)]);
}

/** The tick that is under way at a time, as text. */
const tickAt = (seconds, tick) => `tick ${number(Math.floor(seconds / tick + 1e-9))}`;

/** Show the values under the pointer beside it: `lines(place)` returns the lines. */
const pointed = (lines) => (made) => {
  const { idx, left, top } = made.cursor;
  if (idx === null || idx === undefined || left < 0 || !made.over.matches(":hover")) return;
  const area = made.over.getBoundingClientRect();
  showTip({ clientX: area.left + left, clientY: area.top + Math.max(10, top) }, lines(idx).join("\n"));
};

/** An element with a plot that is as wide as it: `make(width, holder)` returns the plot. */
function sized(label, make) {
  const holder = h("div", { class: "plot", role: "img", "aria-label": label });
  let plot = null;
  whenSized(holder, (width) => {
    if (plot) plot.setSize({ width, height: plot.height });
    else {
      plot = holder.plot = make(width, holder);
      plot.over.addEventListener("pointerleave", hideTip);
    }
  });
  return holder;
}

/**
 * A chart over the whole run.
 *
 * series: [{name, colour, values, total}]; colours are names of the palette. `times` in seconds; without it, values are for equal parts of the run.
 * options: times, stacked, height, top (least upper end), marks ([{at, name}]: dashed lines), format, legend, dots (whether each value has a dot), tick.
 */
function chart(series, { times, stacked, height = 170, top = 0, marks = [], format = number, legend = series.length > 1, dots, tick = OVERVIEW.run.tick }) {
  const count = series.length ? series[0].values.length : 0, end = OVERVIEW.end;
  const when = times || Array.from({ length: count }, (_, at) => ((at + 0.5) * end) / count);
  const shown = new Set(series.keys());
  const order = [...series.keys()].reverse(); // of stacked areas, the highest is drawn first, and the others over it

  /** What is drawn: of stacked areas their upper edges. */
  function drawn() {
    if (!stacked) return series.map(({ values }, at) => (shown.has(at) ? values : values.map(() => null)));
    const sum = new Array(count).fill(0), edges = [];
    series.forEach(({ values }, at) => { edges.push(shown.has(at) ? values.map((value, place) => (sum[place] += value || 0)) : sum.slice()); });
    return order.map((at) => edges[at]);
  }

  function markLines(made) {
    const { ctx, bbox } = made;
    ctx.save();
    for (const { at, name } of marks) {
      const y = made.valToPos(at, "y", true);
      ctx.strokeStyle = ctx.fillStyle = palette.bad;
      ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.font = `${11 * uPlot.pxRatio}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.fillText(name, bbox.left + 4 * uPlot.pxRatio, y - 4 * uPlot.pxRatio);
    }
    ctx.restore();
  }

  const line = (at) => ({
    stroke: palette[series[at].colour], fill: stacked && palette[series[at].colour], width: stacked ? 0 : 1.6,
    points: { show: Boolean(dots), size: 6, fill: palette[series[at].colour] }, spanGaps: !dots && !stacked,
  });
  const tips = (place) => [[time(when[place], true), tick && tickAt(when[place], tick)].filter(Boolean).join(", "),
    ...series.filter(({ values }, at) => shown.has(at) && values[place]).map(({ name, values }) => `${visible(name)}: ${format(values[place])}`)];
  const place = sized(series.map(({ name }) => name).join(", "), (width, holder) => new uPlot({
    width, height: height + (tick ? 14 : 0), legend: { show: false }, padding: [8, 28, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: !stacked, size: 5 } },
    scales: {
      x: { time: false, range: [0, end] },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0) * 1.05, Math.max(top, high ?? 0, ...marks.map(({ at }) => at), 0) * 1.05 || 1] },
    },
    axes: timeAxes(tick), series: [{}, ...(stacked ? order : [...series.keys()]).map(line)], hooks: { setCursor: [pointed(tips)], draw: [markLines] },
  }, [when, ...drawn()], holder));
  return h("div", { class: "chart" }, place, legend && h("div", { class: "legend" }, series.map(({ name, colour, total }, at) => h("button", {
    type: "button", "aria-pressed": "true",
    onclick: ({ currentTarget }) => {
      if (!shown.delete(at)) shown.add(at);
      currentTarget.setAttribute("aria-pressed", String(shown.has(at)));
      place.plot.setData([when, ...drawn()]);
    },
  }, h("i", { class: "swatch", style: { background: `var(--${colour})` } }), name, total !== undefined && " " + number(total)))));
}

/** A histogram: `bars` are the counts in equal parts between `minimum` and `maximum`. */
function histogram({ name, bars, minimum, maximum }, colour, format = number) {
  const value = (at) => minimum + ((maximum - minimum) * at) / bars.length;
  const axes = timeAxes(0), tips = (at) => [`${format(value(at))} to ${format(value(at + 1))}: ${number(bars[at])}`];
  return h("div", { class: "chart" }, sized(`histogram of ${name || "seconds"}`, (width, holder) => new uPlot({
    width, height: 130, legend: { show: false }, padding: [8, 30, 0, 0], cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false, range: [0, bars.length] }, y: { range: (_, __, high) => [0, high * 1.05 || 1] } },
    axes: [{ ...axes[0], incrs: undefined, size: 26, splits: [0, bars.length / 2, bars.length], values: (_, splits) => splits.map((at) => format(value(at))) }, axes[1]],
    series: [{}, { fill: palette[colour], width: 0, paths: uPlot.paths.bars({ size: [1, Infinity], gap: 1 }), points: { show: false } }],
    hooks: { setCursor: [pointed(tips)] },
  }, [bars.map((_, at) => at + 0.5), bars], holder)));
}

/** A canvas of `height` pixels that is redrawn at any width: `draw(context, width, height)`. */
function drawing(height, draw, given) {
  const canvas = h("canvas", { ...given, style: { height: height + "px" } });
  whenSized(canvas, (width) => {
    const scale = Math.min(2, devicePixelRatio || 1);
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    draw(context, width, height);
  });
  return canvas;
}

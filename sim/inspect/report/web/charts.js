// Charts over simulated time, and histograms.

/** Round values for an axis from 0 (or `low`) to at least `high`. */
function ticks(low, high, count) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.floor(low / step) * step; at < high + step * 0.999; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

/** Times for an axis, at multiples of usual units. */
function timeTicks(width) {
  const units = [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 2592000, 8640000, 31536000];
  const most = Math.max(2, Math.floor(width / 110));
  const step = units.find((unit) => END / unit <= most) || END / most;
  const name = (at) => {
    if (step % 86400 === 0) return at / 86400 + "d";
    if (END >= 172800 || step % 60) return time(at);
    const [hours, minutes] = [Math.floor(at / 3600), (at % 3600) / 60];
    return [hours > 0 && hours + "h", (minutes > 0 || at === 0) && minutes + "m"].filter(Boolean).join("");
  };
  return Array.from({ length: Math.floor(END / step) + 1 }, (_, index) => [index * step, name(index * step)]);
}

/** The height of the labels below an axis: of times, and in tick mode of ticks. */
const BELOW = DATA.tick ? 33 : 20;

/** The tick that is under way at a time, as text; empty if there are no ticks. */
const tickAt = (seconds) => (DATA.tick ? `tick ${number(Math.floor(seconds / DATA.tick + 1e-9))}` : "");

/** The lines below an axis at a time, each with how far above the bottom it is. */
const belowAxis = (seconds, name) => (DATA.tick ? [[name, 17], [tickAt(seconds), 4]] : [[name, 4]]);

/**
 * A chart over time.
 *
 * series: [{name, colour, values}]; `times` in seconds; without it, values are for equal parts of the run.
 * options: stacked, height, top (least upper end), lines ([{at, name}]), format, legend, dots (whether each value has a dot).
 */
function chart(series, options) {
  const { times, stacked, lines = [], format = number, legend = series.length > 1, dots } = options;
  const height = (options.height || 170) + BELOW - 20;
  const shown = new Set(series.map((_, index) => index));
  const count = series.length ? series[0].values.length : 0;
  const when = times || Array.from({ length: count }, (_, index) => ((index + 0.5) * END) / count);
  const box = h("div", { class: "chart" });
  const left = 46, right = 10, above = 8, below = BELOW;
  let width = 0;

  function stack() {
    const base = new Array(count).fill(0);
    return series.map((one, index) => {
      const low = stacked ? base.slice() : null;
      const high = one.values.map((value, at) => {
        if (!shown.has(index)) return stacked ? base[at] : null;
        return stacked ? (base[at] += value || 0) : value;
      });
      return { low, high };
    });
  }

  function draw(newWidth) {
    width = newWidth;
    const layers = stack();
    const known = layers.flatMap(({ high }) => high.filter((value) => value !== null && value !== undefined));
    const marks = ticks(Math.min(0, ...spread(known, Math.min)), Math.max(options.top || 0, ...spread(known, Math.max), ...lines.map(({ at }) => at)) || 1, height / 42);
    const [bottom, top] = [marks[0], marks[marks.length - 1]];
    const x = (seconds) => left + (seconds / (END || 1)) * (width - left - right);
    const y = (value) => above + (1 - (value - bottom) / (top - bottom)) * (height - above - below);
    const picture = s("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": series.map(({ name }) => name).join(", ") });
    for (const mark of marks) {
      picture.append(s("line", { x1: left, x2: width - right, y1: y(mark), y2: y(mark), stroke: "var(--grid)" }),
        s("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark)));
    }
    for (const [at, name] of timeTicks(width - left)) {
      const anchor = at === 0 ? "start" : x(at) > width - 30 ? "end" : "middle";
      for (const [text, up] of belowAxis(at, name)) picture.append(s("text", { x: x(at), y: height - up, "text-anchor": anchor }, text));
    }
    layers.forEach(({ low, high }, index) => {
      if (!shown.has(index)) return;
      const points = [];
      high.forEach((value, at) => value !== null && value !== undefined && points.push(`${x(when[at]).toFixed(1)},${y(value).toFixed(1)}`));
      if (stacked) {
        const back = low.map((value, at) => `${x(when[at]).toFixed(1)},${y(value).toFixed(1)}`).reverse();
        picture.append(s("polygon", { points: [...points, ...back].join(" "), fill: series[index].colour, "fill-opacity": 0.85 }));
      } else {
        picture.append(s("polyline", { points: points.join(" "), fill: "none", stroke: series[index].colour, "stroke-width": 1.8, "stroke-linejoin": "round" }));
        if (dots) for (const point of points) picture.append(s("circle", { cx: point.split(",")[0], cy: point.split(",")[1], r: 3, fill: series[index].colour }));
      }
    });
    for (const line of lines) {
      picture.append(s("line", { x1: left, x2: width - right, y1: y(line.at), y2: y(line.at), stroke: "var(--bad)", "stroke-dasharray": "5 4" }),
        s("text", { x: left + 4, y: y(line.at) - 5 }, line.name));
    }
    const cursor = s("line", { y1: above, y2: height - below, stroke: "var(--soft)", visibility: "hidden" });
    picture.append(cursor);
    picture.addEventListener("pointermove", (event) => {
      const seconds = ((event.clientX - picture.getBoundingClientRect().left - left) / (width - left - right)) * END;
      const at = nearest(when, Math.min(END, Math.max(0, seconds)));
      cursor.setAttribute("x1", x(when[at]));
      cursor.setAttribute("x2", x(when[at]));
      cursor.setAttribute("visibility", "visible");
      const said = series.map((one, index) => shown.has(index) && one.values[at] ? `${one.name}: ${format(one.values[at])}` : null);
      showTip(event, [[time(when[at]), tickAt(when[at])].filter(Boolean).join(", "), ...said.filter(Boolean)].join("\n"));
    });
    picture.addEventListener("pointerleave", () => { hideTip(); cursor.setAttribute("visibility", "hidden"); });
    place.replaceChildren(picture);
  }

  const place = h("div", {});
  box.append(place);
  if (legend) {
    box.append(h("div", { class: "legend" }, series.map((one, index) => h("button", {
      type: "button",
      onclick: (event) => {
        if (!shown.delete(index)) shown.add(index);
        event.currentTarget.classList.toggle("off", !shown.has(index));
        draw(width);
      },
    }, h("span", { class: "swatch", style: { background: one.colour } }), one.name, one.total !== undefined && " " + number(one.total)))));
  }
  whenSized(place, draw);
  return box;
}

/** The minimum or maximum of values, as a list that is empty if there are none. */
function spread(values, of) {
  return values.length ? [values.reduce((one, other) => of(one, other))] : [];
}

/** The index of the nearest value in an ascending list. */
function nearest(list, value) {
  let low = 0, high = list.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - list[low - 1] < list[low] - value ? low - 1 : low;
}

/** A histogram of observed numbers. */
function histogram(one, colour, format = number) {
  const box = h("div", { class: "chart" });
  whenSized(box, (width) => {
    const height = 120, left = 46, below = 20;
    const most = Math.max(...one.bars);
    const step = (width - left - 10) / one.bars.length;
    const y = (count) => 6 + (1 - count / most) * (height - 6 - below);
    const value = (index) => one.minimum + ((one.maximum - one.minimum) * index) / one.bars.length;
    box.replaceChildren(s("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "histogram of " + (one.name || "seconds") },
      ticks(0, most, 3).filter((mark) => mark <= most).map((mark) => [
        s("line", { x1: left, x2: width - 10, y1: y(mark), y2: y(mark), stroke: "var(--grid)" }),
        s("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark))]),
      one.bars.map((count, index) => s("rect", {
        x: left + index * step + 0.5, width: Math.max(1, step - 1), y: y(count), height: Math.max(0, height - below - y(count)), fill: colour,
        onpointermove: (event) => showTip(event, `${format(value(index))} to ${format(value(index + 1))}: ${number(count)}`), onpointerleave: hideTip,
      })),
      s("text", { x: left, y: height - 4 }, format(one.minimum)),
      s("text", { x: width - 10, y: height - 4, "text-anchor": "end" }, format(one.maximum))));
  });
  return box;
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

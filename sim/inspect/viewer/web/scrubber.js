// The scrubber: a bar of the whole run that shows how much happened when, and moves the moment.

const SPEEDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 259200, 604800, 2592000];

/** The speed as text. */
const speedText = (speed) => `${lasting(speed)} a second`;

function makeScrubber() {
  const canvas = h("canvas", { class: "scrubber", role: "slider", tabindex: 0, "aria-label": "time", "aria-valuemin": 0, "aria-valuemax": END });
  const clock = h("output", { class: "time" });
  const playing = button("▶", "play or pause (space)", () => play());
  const speeds = h("select", { title: "simulated time a second", "aria-label": "speed", onchange: () => { chosen.speed = Number(speeds.value); refresh(); } });
  const context = canvas.getContext("2d");
  let width = 0, height = 0, ratio = 1, still = null, spoken = 0;

  let filledFor = 0; // the end of the run for which speeds are offered
  function fillSpeeds() {
    if (END < filledFor * 3) return;
    filledFor = END;
    const usual = END / 60;
    const near = SPEEDS.filter((speed) => speed >= END / 2000 && speed <= END / 2);
    const all = near.length > 2 ? near : [usual / 10, usual / 3, usual, usual * 3, usual * 10].map((speed) => Number(speed.toPrecision(1)));
    const wanted = all.reduce((best, one) => (Math.abs(Math.log(one / usual)) < Math.abs(Math.log(best / usual)) ? one : best));
    speeds.replaceChildren(...all.map((speed) => h("option", { value: speed, selected: speed === wanted }, speedText(speed))));
    chosen.speed = wanted;
  }

  const edge = 8;
  const place = (seconds) => edge + (seconds / END) * (width - 2 * edge);

  /** How much happened when, drawn once. */
  function drawStill() {
    still = document.createElement("canvas");
    still.width = canvas.width;
    still.height = canvas.height;
    const pen = still.getContext("2d");
    pen.scale(ratio, ratio);
    const { times, values } = ABOUT.series.activity;
    const bars = Math.max(1, Math.floor((width - 2 * edge) / 3)), counts = new Float64Array(bars), said = new Float64Array(bars);
    times.forEach((when, at) => {
      const bar = Math.min(bars - 1, Math.floor((when / END) * bars));
      counts[bar] += values[0][at] - (at ? values[0][at - 1] : 0);
      said[bar] += values[1][at] - (at ? values[1][at - 1] : 0);
    });
    const most = Math.max(1, ...counts);
    pen.fillStyle = palette.grid;
    pen.fillRect(edge, height - 7, width - 2 * edge, 1);
    for (const [bar, count] of counts.entries()) {
      if (!count) continue;
      const tall = 2 + Math.sqrt(count / most) * (height - 14);
      pen.fillStyle = palette.sleeping;
      pen.fillRect(edge + bar * 3, height - 7 - tall, 2, tall);
      if (!said[bar]) continue;
      pen.fillStyle = palette.accent;
      const part = Math.min(tall, 1 + (tall * said[bar]) / count);
      pen.fillRect(edge + bar * 3, height - 7 - part, 2, part);
    }
    pen.fillStyle = palette.bad;
    for (const [, when] of ABOUT.errors) pen.fillRect(place(when) - 0.5, height - 6, 1.5, 5);
  }

  function draw(milliseconds) {
    if (!width) return;
    if (!still) drawStill();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(still, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = place(moment.time);
    context.fillStyle = palette.ink;
    context.fillRect(x - 1, 0, 2, height - 4);
    context.beginPath();
    context.arc(x, height - 6, 5, 0, 7);
    context.fill();
    const text = ABOUT.instant ? "0s" : `${time(moment.time, true)} of ${time(END)}`;
    if (clock.textContent !== text) clock.textContent = text;
    playing.textContent = chosen.playing ? "❚❚" : "▶";
    if (milliseconds - spoken > 500) {
      spoken = milliseconds;
      canvas.setAttribute("aria-valuenow", moment.time);
      canvas.setAttribute("aria-valuetext", time(moment.time, true));
    }
  }

  const at = (event) => {
    const area = canvas.getBoundingClientRect();
    return ((event.clientX - area.left - edge) / (area.width - 2 * edge)) * END;
  };
  let held = false;
  canvas.addEventListener("pointerdown", (event) => { held = true; canvas.setPointerCapture(event.pointerId); goTo(at(event)); });
  canvas.addEventListener("pointermove", (event) => { if (held) goTo(at(event)); else showTip(event, time(Math.max(0, Math.min(END, at(event))), true)); });
  canvas.addEventListener("pointerup", () => { held = false; });
  canvas.addEventListener("pointercancel", () => { held = false; });
  canvas.addEventListener("pointerleave", hideTip);
  new ResizeObserver(() => {
    [width, height] = [canvas.clientWidth, canvas.clientHeight];
    ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    still = null;
    refresh();
  }).observe(canvas);
  fillSpeeds();

  function faster(steps) {
    speeds.selectedIndex = Math.max(0, Math.min(speeds.options.length - 1, speeds.selectedIndex + steps));
    chosen.speed = Number(speeds.value);
    refresh();
  }

  const bar = h("div", { class: "bar-time" },
    button("|◀◀", "to the start (Home)", () => goTo(0)), button("|◀", "previous event (,)", () => stepEvent(-1)), playing,
    button("▶|", "next event (.)", () => stepEvent(1)), button("▶▶|", "to the end (End)", () => goTo(END)), speeds, canvas, clock);
  return { bar, draw, faster, renew: () => { still = null; if (!chosen.playing) fillSpeeds(); canvas.setAttribute("aria-valuemax", END); refresh(); } };
}

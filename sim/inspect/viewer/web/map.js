// The map: agents where they are, coloured by what they do, and messages as lines.

const MOST_LINES = 1500;
const UNKNOWN = -1;

/** How agents are coloured: the category of a name, and the name of a category. */
function colouring() {
  const way = chosen.colour;
  const [kind, variable] = way.split(/:(.*)/s);
  if (kind === "group") {
    const groups = [...new Set(ABOUT.groups.filter((_, name) => isAgent(name)))].sort(collator.compare);
    const numbers = ABOUT.groups.map((group) => groups.indexOf(group));
    return { of: (name) => numbers[name], title: (at) => groups[at], colour: (at) => palette["c" + (at % 12)] };
  }
  const recorded = kind === "now" && ABOUT.variables.find(({ name }) => name === variable);
  if (recorded) return byVariable(recorded);
  if (kind === "end" && Object.hasOwn(ABOUT.finals, variable)) {
    const values = Object.keys(ABOUT.finals[variable]).sort(collator.compare);
    const numbers = [];
    values.forEach((value, at) => ABOUT.finals[variable][value].forEach((name) => (numbers[name] = at)));
    return { of: (name) => numbers[name] ?? UNKNOWN, title: (at) => values[at], colour: (at) => namedColour(values[at]) || palette["c" + (at % 12)] };
  }
  if (kind === "action" || kind === "event") {
    const field = kind === "action" ? ACTION : EVENT;
    return {
      of: (name) => moment.fields[field][name] ?? UNKNOWN,
      title: (topic) => ABOUT.topics[topic].replace(/^action\./, ""), colour: (topic) => palette["c" + (topic % 12)],
    };
  }
  if (kind === "activity") return { of: (name) => moment.fields[DOING][name] ?? UNKNOWN, title: (at) => ABOUT.activities[at], colour: (at) => palette["c" + (at % 12)] };
  return { of: (name) => moment.fields[STATE][name] ?? UNKNOWN, title: (at) => ABOUT.states[at], colour: (at) => palette[ABOUT.states[at]] };
}

const RAMP = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30"]; // viridis, from low to high
const otherValues = new Map(); // texts of variables that have many, by their numbers

/** How agents are coloured by a recorded variable: its values if they are few, a scale of numbers, or a hue for each text. */
function byVariable(variable) {
  const { low, high, values } = variable;
  const category = (of) => (name) => { const value = variableNow(variable, name); return value === undefined ? UNKNOWN : of(value); };
  if (values) {
    const numbers = new Map(values.map((value, at) => [value, at]));
    return { of: category((value) => numbers.get(value) ?? UNKNOWN), title: (at) => visible(String(values[at])), colour: (at) => namedColour(values[at]) || palette["c" + (at % 12)] };
  }
  if (low !== null) {
    const step = (high - low) / RAMP.length || 1;
    return {
      of: category((value) => Math.max(0, Math.min(RAMP.length - 1, Math.floor((value - low) / step)))),
      title: (at) => `${short(low + at * step)} to ${short(low + (at + 1) * step)}`, colour: (at) => RAMP[at],
    };
  }
  const number = (value) => { if (!otherValues.has(value)) otherValues.set(value, otherValues.size); return otherValues.get(value); };
  return { of: category(number), title: (at) => visible(String([...otherValues.keys()][at])), colour: (at) => `hsl(${(at * 137.5) % 360} 60% 50%)` };
}

const namedColour = (value) => ({ red: palette.c4, blue: palette.c0, green: palette.c2, orange: palette.c1, purple: palette.c3 })[value];

function makeMap() {
  const canvas = h("canvas", { class: "map", role: "img", "aria-label": "the map of the agents", tabindex: 0 });
  const absent = h("p", { class: "empty", hidden: true }, "No agent is on the map at this time.");
  const box = h("div", { class: "mapbox" }, canvas, absent);
  const context = canvas.getContext("2d");
  let ground = null, past = null, known = "", width = 0, height = 0, ratio = 1;
  let zoom = 1, left = 0, top = 0; // screen = (world - offset) * scale
  let scale = 1, fitted = false, still = null; // `still`: what does not change, drawn once
  let xs = new Float64Array(0), ys = new Float64Array(0), shown = new Uint8Array(0);
  let drawn = 0;

  function fit() {
    const [x1, y1, x2, y2] = ground.box;
    scale = Math.min((width - 24) / (x2 - x1), (height - 24) / (y2 - y1));
    left = x1 - (width / scale - (x2 - x1)) / 2;
    top = y1 - (height / scale - (y2 - y1)) / 2;
    zoom = 1;
    fitted = true;
    still = null;
  }

  const screenX = (x) => (x - left) * scale, screenY = (y) => (y - top) * scale;
  const at = [0, 0];

  /** The position of a name on the ground, in `at`; false: it is not on the map. */
  function locate(name) {
    if (ground.kind === "contacts") {
      const place = ground.names.get(name);
      const state = stateNow(name);
      if (!place || (isAgent(name) && (state === "" || (state === "stopped" && !ground.linked.has(name))))) return false;
      [at[0], at[1]] = place;
      return true;
    }
    if (fieldNow(STATE, name) === undefined || ABOUT.states[moment.fields[STATE][name]] === "stopped") return false;
    const place = fieldNow(PLACE, name);
    if (place === undefined) return false;
    if (ground.kind === "plane") {
      const share = Math.min(1, Math.max(0, (moment.time - place[4]) / ABOUT.map.step));
      onPlane(ground, place[2] + (place[0] - place[2]) * share, place[3] + (place[1] - place[3]) * share, at);
      return true;
    }
    if (!ground.places[place]) return false;
    [at[0], at[1]] = ground.places[place];
    return true;
  }

  /** Put names that stand at the same place beside each other. */
  function arrange() {
    const count = ABOUT.names.length;
    if (xs.length < count) { xs = new Float64Array(count); ys = new Float64Array(count); shown = new Uint8Array(count); }
    const crowd = new Map();
    const together = ground.kind === "grid" || ground.kind === "graph";
    for (let name = 0; name < count; name++) {
      shown[name] = locate(name) ? 1 : 0;
      if (!shown[name]) continue;
      xs[name] = screenX(at[0]);
      ys[name] = screenY(at[1]);
      if (!together) continue;
      const place = moment.fields[PLACE][name];
      if (crowd.has(place)) crowd.get(place).push(name);
      else crowd.set(place, [name]);
    }
    for (const names of crowd.values()) if (names.length > 1) scatter(names);
    return crowd;
  }

  function scatter(names) {
    if (ground.kind === "grid") {
      const side = Math.ceil(Math.sqrt(names.length)), cell = (scale * 0.8) / side;
      names.forEach((name, index) => {
        xs[name] += ((index % side) - (side - 1) / 2) * cell;
        ys[name] += (Math.floor(index / side) - (side - 1) / 2) * cell;
      });
    } else names.forEach((name, index) => {
      const radius = radiusOf() * 1.15 * Math.sqrt(index + 0.4), angle = index * 2.4;
      xs[name] += radius * Math.cos(angle);
      ys[name] += radius * Math.sin(angle);
    });
  }

  function radiusOf() {
    const count = Math.max(1, ABOUT.names.length);
    if (ground.kind === "plane") return Math.max(2.2, Math.min(7, 60 / Math.sqrt(count)) * Math.sqrt(zoom));
    return Math.max(2.5, Math.min(9, 90 / Math.sqrt(count)) * Math.sqrt(zoom));
  }

  /** Draw the ground into an image, once for a size and a zoom. */
  function drawStill() {
    still = document.createElement("canvas");
    still.width = canvas.width;
    still.height = canvas.height;
    const pen = still.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = palette.card;
    pen.fillRect(0, 0, width, height);
    pen.strokeStyle = palette.line;
    if (ground.kind === "plane") {
      for (let strip = 0; strip < ground.strips; strip++) {
        const y = strip * (ground.tall + ground.gap);
        pen.fillStyle = palette.grid;
        pen.fillRect(screenX(0), screenY(y), ground.long * scale, ground.tall * scale);
        pen.strokeRect(screenX(0), screenY(y), ground.long * scale, ground.tall * scale);
        if (ground.strips > 1) {
          pen.fillStyle = palette.soft;
          pen.font = "10px system-ui, sans-serif";
          pen.fillText(`x ${short(ground.x + strip * ground.long)} to ${short(ground.x + (strip + 1) * ground.long)}`, Math.max(2, screenX(0)), screenY(y) - 2);
        }
      }
    } else if (ground.kind === "grid") ground.bands.forEach((band) => drawCells(pen, band));
    else drawGraph(pen);
  }

  function drawCells(pen, [x1, y1, wide, tall]) {
    const [x2, y2] = [x1 + wide, y1 + tall];
    pen.fillStyle = palette.grid;
    pen.fillRect(screenX(x1), screenY(y1), (x2 - x1) * scale, (y2 - y1) * scale);
    if (scale < 4) return;
    pen.strokeStyle = palette.card;
    pen.beginPath();
    for (let x = x1 + Math.max(0, Math.ceil(left - x1)); x <= Math.min(x2, left + width / scale); x++) {
      pen.moveTo(screenX(x), screenY(y1));
      pen.lineTo(screenX(x), screenY(y2));
    }
    for (let y = y1 + Math.max(0, Math.ceil(top - y1)); y <= Math.min(y2, top + height / scale); y++) {
      pen.moveTo(screenX(x1), screenY(y));
      pen.lineTo(screenX(x2), screenY(y));
    }
    pen.stroke();
  }

  function drawGraph(pen) {
    const most = Math.max(1, ...ground.edges.slice(0, 5000).map((edge) => edge[2] || 1));
    pen.globalAlpha = ground.kind === "contacts" ? Math.max(0.25, Math.min(1, 150 / ground.edges.length)) : 1;
    for (const [one, other, weight = 1] of ground.edges) {
      const [a, b] = [ground.places[one], ground.places[other]];
      pen.lineWidth = ground.kind === "contacts" ? 0.6 + (2.4 * weight) / most : 1;
      pen.beginPath();
      pen.moveTo(screenX(a[0]), screenY(a[1]));
      pen.lineTo(screenX(b[0]), screenY(b[1]));
      pen.stroke();
    }
    pen.globalAlpha = 1;
    if (ground.kind !== "graph") return;
    pen.fillStyle = palette.grid;
    pen.lineWidth = 1;
    const radius = radiusOf() + 3;
    for (const [x, y] of ground.places) {
      pen.beginPath();
      pen.arc(screenX(x), screenY(y), radius, 0, 7);
      pen.fill();
      pen.stroke();
    }
    if (ground.places.length > (zoom < 3 ? 60 : 600) || agents().length >= ground.places.length) return; // then the labels of agents are enough
    pen.fillStyle = palette.soft;
    pen.font = "10px system-ui, sans-serif";
    pen.textAlign = "center";
    ground.places.forEach(([x, y], place) => pen.fillText(visible(ABOUT.map.places[place]).slice(0, 24), screenX(x), screenY(y) - radius - 3));
  }

  /** Draw the moment. */
  function draw() {
    if (!width) return;
    if (!ground) { ground = groundOf(width / height, past); past = ground; if (zoom === 1) fitted = false; }
    if (ground.settle && !ground.settled) {
      ground.settled = ground.settle(12);
      ground.box = boxOf(ground.places);
      if (zoom === 1) fitted = false;
      still = null;
      if (!ground.settled) refresh();
    }
    if (!fitted) fit();
    if (!still) drawStill();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(still, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const crowd = arrange();
    if (chosen.lines) drawLines();
    drawNames(crowd);
    canvas.dataset.drawn = String(++drawn);
    canvas.dataset.settled = ground.settle && !ground.settled ? "no" : "yes";
  }

  function drawLines() {
    const lasting = Math.max(END / 400, chosen.speed * 0.7);
    const payment = ABOUT.contact_kinds.indexOf("payment");
    context.lineWidth = 1.4;
    saidBetween(moment.time - lasting, moment.time, MOST_LINES, (source, target, when, kind) => {
      if (target < 0 || source < 0 || !shown[source] || !shown[target] || source === target) return;
      const mine = chosen.agent === source || chosen.agent === target;
      context.globalAlpha = Math.max(0.08, 1 - (moment.time - when) / lasting) * (mine || chosen.agent < 0 ? 0.85 : 0.2);
      context.strokeStyle = context.fillStyle = mine ? palette.c1 : kind === payment ? palette.c6 : palette.accent;
      const [x1, y1, x2, y2] = [xs[source], ys[source], xs[target], ys[target]];
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
      const long = Math.hypot(x2 - x1, y2 - y1), back = radiusOf() + 1;
      if (long < 3 * back) return;
      const [dx, dy] = [(x2 - x1) / long, (y2 - y1) / long], [x, y] = [x2 - dx * back, y2 - dy * back];
      context.beginPath(); // the head of an arrow
      context.moveTo(x, y);
      context.lineTo(x - dx * 7 - dy * 3.5, y - dy * 7 + dx * 3.5);
      context.lineTo(x - dx * 7 + dy * 3.5, y - dy * 7 - dx * 3.5);
      context.fill();
    });
    context.globalAlpha = 1;
  }

  function drawNames(crowd) {
    const { of, colour } = colouring(), radius = radiusOf();
    const grid = ground.kind === "grid";
    for (let name = 0; name < ABOUT.names.length; name++) {
      if (!shown[name]) continue;
      const x = xs[name], y = ys[name];
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const agent = isAgent(name), category = agent ? of(name) : UNKNOWN;
      context.fillStyle = category === UNKNOWN ? palette.stopping : colour(category);
      context.globalAlpha = agent && stateNow(name) === "stopped" ? 0.3 : 1; // those that are left are on the map of contacts only
      const crowded = grid ? crowd.get(moment.fields[PLACE][name]).length : 1;
      const size = grid ? (scale * 0.84) / Math.ceil(Math.sqrt(crowded)) : 2 * radius;
      if (grid || (!agent && ground.kind === "contacts")) context.fillRect(x - size / 2, y - size / 2, size, size);
      else { context.beginPath(); context.arc(x, y, radius, 0, 7); context.fill(); }
      if (name === chosen.agent || name === chosen.other) {
        context.globalAlpha = 1;
        context.strokeStyle = palette.ink;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, Math.max(size / 2, radius) + 3, 0, 7);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
    drawLabels(radius);
  }

  function drawLabels(radius) {
    const many = shown.reduce((count, one) => count + one, 0);
    absent.hidden = many > 0;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.lineWidth = 3;
    const taken = []; // boxes of labels, which must not overlap
    const { covers, edge } = nodesDrawn(radius);
    const order = [chosen.agent, chosen.other].filter((name) => name >= 0);
    const others = []; // channels and users, if they are few
    for (let name = 0; name < shown.length && others.length <= 30; name++) if (shown[name] && !isAgent(name)) others.push(name);
    if (others.length <= 30) order.push(...others.filter((name) => name !== chosen.agent && name !== chosen.other));
    if (ground.kind === "contacts" && ground.linked.size <= 60) for (const name of ground.linked) if (isAgent(name) && !order.includes(name)) order.push(name);
    if (many <= 60 || (many <= 1500 && zoom > 4)) for (let name = 0; name < ABOUT.names.length; name++) if (name !== chosen.agent && name !== chosen.other && (isAgent(name) || others.length > 30)) order.push(name);
    for (const name of new Set(order)) { // each once, though it is chosen, linked and one of few
      if (!shown[name]) continue;
      if (xs[name] > width || ys[name] < 0 || ys[name] > height + 10 || xs[name] < -100) continue;
      const text = label(name).slice(0, 28), long = context.measureText(text).width;
      const corners = [[edge + 3, 4], [-edge - 3 - long, 4], [-long / 2, -edge - 4], [-long / 2, edge + 12]].map(([x, y]) => [xs[name] + x, ys[name] + y]);
      const areaOf = ([x, y]) => [x, y - 10, x + long, y + 2];
      const free = (corner) => {
        const area = areaOf(corner);
        return !covers(area) && !taken.some((other) => area[0] < other[2] && area[2] > other[0] && area[1] < other[3] && area[3] > other[1]);
      };
      const corner = corners.find(free) || (name === chosen.agent || name === chosen.other ? corners[0] : null);
      if (!corner) continue; // it would hide something: a click on the agent shows its name
      taken.push(areaOf(corner));
      context.strokeStyle = palette.card;
      context.strokeText(text, ...corner);
      context.fillStyle = palette.ink;
      context.fillText(text, ...corner);
    }
  }

  /** Whether a box covers a node, and how far a node reaches from its middle. */
  function nodesDrawn(radius) {
    const edge = ground.kind === "grid" ? (scale * 0.84) / 2 : radius, side = 32, cells = new Map();
    for (let name = 0; name < shown.length; name++) {
      if (!shown[name] || xs[name] < -side || ys[name] < -side || xs[name] > width + side || ys[name] > height + side) continue;
      const cell = Math.floor(xs[name] / side) + "," + Math.floor(ys[name] / side);
      if (cells.has(cell)) cells.get(cell).push(name);
      else cells.set(cell, [name]);
    }
    function covers([x1, y1, x2, y2]) {
      for (let across = Math.floor((x1 - edge) / side); across <= Math.floor((x2 + edge) / side); across++) {
        for (let down = Math.floor((y1 - edge) / side); down <= Math.floor((y2 + edge) / side); down++) {
          for (const name of cells.get(across + "," + down) || []) {
            if (xs[name] + edge > x1 && xs[name] - edge < x2 && ys[name] + edge > y1 && ys[name] - edge < y2) return true;
          }
        }
      }
      return false;
    }
    return { covers, edge };
  }

  // -- pointer, wheel and keys

  /** The agent at a position of the pointer, or -1. */
  function under(event) {
    const area = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const reach = ground && ground.kind === "grid" ? scale / 2 : Math.max(9, radiusOf() + 3);
    let best = -1, least = reach * reach;
    for (let name = 0; name < shown.length; name++) {
      if (!shown[name]) continue;
      const distance = (xs[name] - x) ** 2 + (ys[name] - y) ** 2;
      if (distance <= least) { least = distance; best = name; }
    }
    return best;
  }

  function zoomBy(factor, x = width / 2, y = height / 2) {
    factor = Math.max(0.5, Math.min(200, zoom * factor)) / zoom;
    left += x / scale - x / (scale * factor);
    top += y / scale - y / (scale * factor);
    scale *= factor;
    zoom *= factor;
    still = null;
    refresh();
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const area = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 400), event.clientX - area.left, event.clientY - area.top);
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY, false]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const [dx, dy] = [event.clientX - held[0], event.clientY - held[1]];
      if (held[2] || Math.hypot(dx, dy) > 4) {
        left -= dx / scale;
        top -= dy / scale;
        held = [event.clientX, event.clientY, true];
        still = null;
        refresh();
      }
      return;
    }
    const name = ground ? under(event) : -1;
    canvas.classList.toggle("over", name >= 0);
    if (name < 0) hideTip();
    else showTip(event, [label(name), stateNow(name), placeNow(name)].filter(Boolean).join("\n"));
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = held && held[2];
    held = null;
    if (moved) return;
    const name = under(event);
    if (name >= 0) openAgent(name);
    else if (chosen.agent >= 0) choose({ agent: -1, other: -1 });
  });
  canvas.addEventListener("pointerleave", hideTip);
  const reset = () => { fitted = false; refresh(); };
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3), 0: reset }[event.key];
    if (act) act();
  });
  new ResizeObserver(() => {
    width = box.clientWidth;
    height = box.clientHeight;
    ratio = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    still = null;
    if (zoom === 1) { fitted = false; if (ABOUT.map.kind === "plane" || ABOUT.map.kind === "grid") ground = null; }
    if (drawn) draw(); // a canvas of a new size is empty, and would be shown so for a frame
    refresh();
  }).observe(box);

  const recolour = () => { still = null; refresh(); };
  return {
    box, draw, recolour,
    zoomIn: () => zoomBy(1.5), zoomOut: () => zoomBy(1 / 1.5), reset,
    renew: () => { // there is more of the run
      const { kind, places = [], edges = [], box: area = [] } = ABOUT.map;
      const now = [kind, places.length, edges.length, area, kind === "contacts" && [ABOUT.pairs.length, ABOUT.payments.length, agents().length]].join();
      if (now !== known) ground = null;
      known = now;
      recolour();
    },
  };
}

/** The legend: how many agents are in each category now. It is a text, renewed a few times a second. */
function makeLegend() {
  const list = h("div", { class: "legend" });
  let before = "", drawnAt = -1000;
  function draw(milliseconds) {
    if (milliseconds - drawnAt < 120 && chosen.playing) return;
    drawnAt = milliseconds;
    const { of, title, colour } = colouring();
    const counts = new Map();
    for (let name = 0; name < ABOUT.names.length; name++) {
      if (!isAgent(name) || fieldNow(STATE, name) === undefined || (chosen.colour !== "state" && stateNow(name) === "stopped")) continue;
      const category = of(name);
      counts.set(category, (counts.get(category) || 0) + 1);
    }
    const rows = [...counts].sort(([one], [other]) => one - other);
    const key = chosen.colour + palette.ink + rows.join(";");
    if (key === before) return;
    before = key;
    list.replaceChildren(...rows.slice(0, 14).map(([category, count]) => h("span", {},
      h("i", { class: "swatch", style: { background: category === UNKNOWN ? palette.stopping : colour(category) } }),
      `${category === UNKNOWN ? "none" : title(category)} ${number(count)}`)));
    if (rows.length > 14) list.append(h("span", {}, `and ${rows.length - 14} more`));
  }
  return { list, draw };
}

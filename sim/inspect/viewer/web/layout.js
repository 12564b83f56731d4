// Where places and names are on the map.

const MOST_LAID_OUT = 3000; // more nodes are put on a spiral, because forces would take too long

/** Positions of nodes on a spiral, which fills a disc evenly. */
function spiral(count) {
  return Array.from({ length: count }, (_, at) => {
    const radius = 12 * Math.sqrt(at + 0.5), angle = at * Math.PI * (3 - Math.sqrt(5));
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
}

const MOST_AT_ONCE = 300; // of more nodes, the layout is drawn while it settles

/**
 * Positions of nodes so that linked ones are near each other. Links: [node, node, weight]. The same data, the same picture.
 *
 * Returns the positions, which change until `settle(milliseconds)` has returned true.
 *
 * before: the positions that nodes have already, near which they stay.
 */
function forced(count, links, before = []) {
  if (count > MOST_LAID_OUT) return { positions: spiral(count), settle: () => true };
  const nodes = Array.from({ length: count }, (_, at) => (before[at] ? { x: before[at][0], y: before[at][1] } : {}));
  const edges = links.map(([source, target]) => ({ source, target }));
  const simulation = d3.forceSimulation(nodes)
    .force("link", d3.forceLink(edges).distance(40))
    .force("charge", d3.forceManyBody().strength(-90).distanceMax(500))
    .force("collide", d3.forceCollide(12))
    .force("x", d3.forceX().strength(0.06)).force("y", d3.forceY().strength(0.08))
    .stop();
  const again = before.some(Boolean);
  if (again) simulation.alpha(0.3);
  let left = again ? 40 : count > 800 ? 120 : 300;
  const positions = nodes.map(({ x, y }) => [x, y]);
  function settle(milliseconds) {
    const until = performance.now() + milliseconds;
    for (; left > 0 && performance.now() <= until; left--) simulation.tick();
    nodes.forEach(({ x, y }, at) => { positions[at][0] = x; positions[at][1] = y; });
    return left === 0;
  }
  if (count <= MOST_AT_ONCE) settle(Infinity);
  return { positions, settle };
}

/**
 * The ground of a map with a shape (width by height), near the one before: {kind, box: [left, top, right, bottom], places: positions by number, names: positions by name, linked: names with contacts, edges, strips, settle: lays out further, if the positions are not given}.
 */
function groundOf(shape, before) {
  const { kind } = ABOUT.map;
  if (kind === "plane") return planeGround(shape);
  if (kind === "grid") {
    return gridGround(shape);
  }
  if (kind === "graph") {
    const { positions, settle } = ABOUT.map.at ? { positions: charted(ABOUT.map.at), settle: () => true } : forced(ABOUT.map.places.length, ABOUT.map.edges);
    return { kind, places: positions, edges: ABOUT.map.edges, box: boxOf(positions), settle };
  }
  const seen = new Set(agents());
  const contacts = [...ABOUT.pairs, ...ABOUT.payments];
  for (const [one, other] of contacts) { seen.add(one); seen.add(other); }
  const names = [...seen], places = new Map(names.map((name, at) => [name, at]));
  const weights = new Map(); // both directions are one link
  for (const [one, other, count] of contacts) {
    const key = Math.min(one, other) + "," + Math.max(one, other);
    weights.set(key, (weights.get(key) || 0) + count);
  }
  const edges = [...weights].map(([key, count]) => [...key.split(",").map((name) => places.get(Number(name))), count]).filter(([one, other]) => one !== other);
  const linked = new Set(contacts.flatMap(([one, other]) => [one, other]));
  const { positions, settle } = forced(names.length, edges, before && before.names ? names.map((name) => before.names.get(name)) : []);
  return { kind: "contacts", linked, places: positions, names: new Map(names.map((name, at) => [name, positions[at]])), edges, box: boxOf(positions), settle };
}

/** Positions that the scenario gives, in a size that suits the dots. */
function charted(at) {
  const xs = at.map(([x]) => x), ys = at.map(([, y]) => y);
  const [left, top] = [spread(xs, Math.min), spread(ys, Math.min)];
  const size = Math.max(spread(xs, Math.max) - left, spread(ys, Math.max) - top) || 1, wanted = 60 * Math.sqrt(at.length);
  return at.map(([x, y]) => [((x - left) / size) * wanted, ((y - top) / size) * wanted]);
}

/** Into how many strips a ground is cut that is much wider than its map. */
const stripsOf = (width, height, shape) => (width / height > 3 * shape ? Math.max(1, Math.round(Math.sqrt(width / height / shape))) : 1);

/** A grid. A very wide one is cut into strips, too. */
function gridGround(shape) {
  const { columns, rows, places } = ABOUT.map;
  const strips = stripsOf(columns, rows, shape), long = Math.ceil(columns / strips), step = strips > 1 ? rows + Math.max(0.5, rows * 0.15) : rows;
  const bands = Array.from({ length: Math.ceil(columns / long) }, (_, strip) => [-0.5, strip * step - 0.5, Math.min(long, columns - strip * long), rows]);
  const [, last] = bands.at(-1);
  const positions = places.map((name) => {
    const [column, row] = name.split(",").map(Number);
    return [column % long, row + Math.floor(column / long) * step];
  });
  return { kind: "grid", bands, box: [-0.5, -0.5, long - 0.5, last + rows], places: positions, edges: [] };
}

/** A plane. A very wide one is cut into strips, one below the other. */
function planeGround(shape) {
  const [x1, y1, x2, y2] = ABOUT.map.box, width = x2 - x1 || 1, height = y2 - y1 || 1;
  const strips = stripsOf(width, height, shape);
  const long = width / strips, gap = strips > 1 ? height * 0.12 : 0;
  return { kind: "plane", strips, long, gap, tall: height, x: x1, y: y1, places: [], edges: [], box: [0, 0, long, strips * height + (strips - 1) * gap] };
}

/** A position of a plane on the map. */
function onPlane(ground, x, y, out) {
  const right = x - ground.x, strip = Math.min(ground.strips - 1, Math.max(0, Math.floor(right / ground.long)));
  out[0] = right - strip * ground.long;
  out[1] = y - ground.y + strip * (ground.tall + ground.gap);
}

function boxOf(points) {
  if (!points.length) return [-1, -1, 1, 1];
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  return [spread(xs, Math.min) - 30, spread(ys, Math.min) - 30, spread(xs, Math.max) + 30, spread(ys, Math.max) + 30];
}

const spread = (values, choice) => values.reduce((one, other) => choice(one, other));

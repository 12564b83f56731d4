// The data of the run: blocks are decoded when they are needed, and the last ones are kept.

const ABOUT = JSON.parse(document.getElementById("about").textContent);
END = ABOUT.end;

const FRAMES_KEPT = 400, TEXTS_KEPT = 24;
const STATE = 0, PLACE = 1, BALANCE = 2, ACTION = 3, EVENT = 4, DOING = 5; // the fields of a keyframe

/** What the server answers; the page of a run that is played tries it again until there is a connection. */
async function answerTo(address) {
  for (;;) {
    try {
      return await fetch(address);
    } catch (error) {
      if (!live) throw error;
      live.lost();
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

/** The bytes of a block, as they are compressed. */
async function packed(number) {
  if (ABOUT.served) {
    const answer = await answerTo("block/" + number);
    if (!answer.ok) throw new Error("the server does not have block " + number);
    return answer.arrayBuffer();
  }
  const text = atob(document.getElementById("block-" + number).textContent);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** The text of a block. */
async function blockText(number) {
  const stream = new Blob([await packed(number)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Keeps the latest results of an asynchronous function of a number. */
function latest(most, load) {
  const kept = new Map();
  return (number) => {
    let found = kept.get(number);
    if (found === undefined) {
      found = load(number);
      found.catch(() => kept.delete(number));
    } else kept.delete(number);
    kept.set(number, found);
    if (kept.size > most) kept.delete(kept.keys().next().value);
    return found;
  };
}

// A chunk: [block of the frame, block of the lines, number of its first event, number of events, start, end].
const frames = new Map(); // decoded frames by chunk, the latest used last
const loading = new Map(); // frames that are being decoded, by chunk

async function decodeFrame(chunk) {
  const [block, , first, count, start, end] = ABOUT.chunks[chunk];
  const given = JSON.parse(await blockText(block));
  const times = Float64Array.from(given.times, (nanoseconds) => start + nanoseconds / 1e9);
  times[count - 1] = end;
  const frame = {
    chunk, first, count, start, end, times, keyframe: given.keyframe, changes: given.changes, said: given.said,
    actors: Int32Array.from(given.actors), topics: Int32Array.from(given.topics), places: null,
  };
  frames.set(chunk, frame);
  if (frames.size > FRAMES_KEPT) frames.delete(frames.keys().next().value);
  return frame;
}

function loadFrame(chunk) {
  const found = frames.get(chunk);
  if (found) {
    frames.delete(chunk);
    frames.set(chunk, found);
    return Promise.resolve(found);
  }
  if (!loading.has(chunk)) loading.set(chunk, decodeFrame(chunk).finally(() => loading.delete(chunk)));
  return loading.get(chunk);
}

/** The frame of a chunk if it is decoded; otherwise it will be, and `soon` is called. */
function frameNow(chunk, soon) {
  const found = frames.get(chunk);
  if (!found) loadFrame(chunk).then(soon, complain);
  return found;
}

const loadLines = latest(TEXTS_KEPT, async (chunk) => (await blockText(ABOUT.chunks[chunk][1])).split("\n"));

/** The first place in a sorted list of `count` for which `after(place)` holds. */
function firstPlace(count, after) {
  let low = 0, high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (after(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The last chunk that has begun at a time. */
const chunkAt = (seconds) => Math.max(0, firstPlace(ABOUT.chunks.length, (at) => ABOUT.chunks[at][4] > seconds) - 1);

/** The chunk of an event. */
const chunkOf = (number) => Math.max(0, firstPlace(ABOUT.chunks.length, (at) => ABOUT.chunks[at][2] > number) - 1);

/** What was said in an event of a frame: {kind, source, target, place}, or null. */
function saidIn(frame, offset) {
  const said = frame.said;
  const place = firstPlace(said.length / 5, (at) => said[at * 5] >= offset);
  if (said[place * 5] !== offset) return null;
  const [, kind, source, target, where] = said.slice(place * 5, place * 5 + 5);
  return { kind: ABOUT.contact_kinds[kind], source, target, place: where };
}

/** The items of a JSON list or object as they are written, without changing one character. */
function itemsOf(text) {
  const items = [];
  let depth = 0, begin = 1;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (sign === '"') { for (at++; text[at] !== '"'; at++) if (text[at] === "\\") at++; }
    else if (sign === "[" || sign === "{") depth++;
    else if (sign === "]" || sign === "}") { if (--depth === 0) { if (at > begin) items.push(text.slice(begin, at)); break; } }
    else if (sign === "," && depth === 1) { items.push(text.slice(begin, at)); begin = at + 1; }
  }
  return items;
}

/** An event: its line as recorded, and its parts. Numbers that identify it stay text, because they can be large. */
function eventOf(number, line) {
  const [time_ns, delta, priority, source, counter, actor, topic, data, cause] = itemsOf(line);
  return {
    number, line, time_ns, delta, priority, source, counter, actor: JSON.parse(actor), topic: JSON.parse(topic),
    text: data, data: JSON.parse(data), cause,
  };
}

/** Load an event. */
async function loadEvent(number) {
  const chunk = chunkOf(number);
  const lines = await loadLines(chunk);
  return eventOf(number, lines[number - ABOUT.chunks[chunk][2]]);
}

/** JSON on several lines, without changing a number or a text. */
function indented(text, depth = 0) {
  const open = text[0], inside = "  ".repeat(depth + 1);
  if (open !== "[" && open !== "{") return text;
  const items = itemsOf(text);
  if (!items.length) return text;
  const lines = items.map((item) => {
    if (open === "[") return inside + indented(item, depth + 1);
    let at = 1;
    for (; item[at] !== '"'; at++) if (item[at] === "\\") at++;
    return inside + item.slice(0, at + 1) + ": " + indented(item.slice(at + 2), depth + 1);
  });
  return open + "\n" + lines.join(",\n") + "\n" + "  ".repeat(depth) + (open === "[" ? "]" : "}");
}

// Calls: effects of models and others.
const loadCallBlock = latest(TEXTS_KEPT, async (at) => (await blockText(ABOUT.calls[at].block)).split("\n"));
const loadParts = latest(TEXTS_KEPT, async (at) => (await blockText(ABOUT.parts[at][0])).split("\n"));
const callRows = []; // for each block of calls: its columns

/** All calls, in the order of the events before them: {id, agent, start, end, kind, before, block, place}. */
async function allCalls() {
  const rows = [];
  for (let at = 0; at < ABOUT.calls.length; at++) {
    callRows[at] = callRows[at] || JSON.parse(await blockText(ABOUT.calls[at].rows));
    const { id, agent, start, end, kind, before } = callRows[at];
    for (let place = 0; place < id.length; place++) {
      rows.push({ id: id[place], agent: agent[place], start: start[place], end: end[place], kind: kind[place], before: before[place], block: at, place });
    }
  }
  return rows.sort((one, other) => one.before - other.before || one.id - other.id);
}

/** A part of requests, by its number. */
async function part(number) {
  const at = firstPlace(ABOUT.parts.length, (place) => ABOUT.parts[place][1] > number) - 1;
  return (await loadParts(at))[number - ABOUT.parts[at][1]];
}

/** What was asked and answered in a call: its facts, and request and result exactly as they are recorded. */
async function loadCall({ block, place }) {
  const [facts, skeleton, result] = (await loadCallBlock(block)).slice(place * 3, place * 3 + 3);
  const known = JSON.parse(facts);
  const parts = await Promise.all(JSON.parse(known.parts).map(part));
  // A quotation mark inside a text is escaped, so this pattern is never a part of a text.
  const request = skeleton.replace(/\{"\$":\[(\d+),(\d+)\]\}/g, (_, first, count) => parts.slice(Number(first), Number(first) + Number(count)).join(","));
  return { facts: known, request, result };
}

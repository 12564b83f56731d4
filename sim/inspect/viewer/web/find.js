// Finds events before and after a moment, chunk by chunk.

/** The numbers of up to `most` events up to `number` for which `match(frame, offset)` holds, the latest last. */
async function findBefore(number, most, match, current) {
  const found = [];
  for (let chunk = chunkOf(number); chunk >= 0 && found.length < most; chunk--) {
    const frame = await loadFrame(chunk);
    if (!current()) return null;
    for (let at = Math.min(frame.count - 1, number - frame.first); at >= 0 && found.length < most; at--) {
      if (match(frame, at)) found.push(frame.first + at);
    }
  }
  return found.reverse();
}

/** As `findBefore`, for events after `number`, the earliest first. */
async function findAfter(number, most, match, current) {
  const found = [];
  for (let chunk = chunkOf(number + 1); chunk < ABOUT.chunks.length && found.length < most; chunk++) {
    const frame = await loadFrame(chunk);
    if (!current()) return null;
    for (let at = Math.max(0, number + 1 - frame.first); at < frame.count && found.length < most; at++) {
      if (match(frame, at)) found.push(frame.first + at);
    }
  }
  return found;
}

/** Whether an event concerns a name: it is of it, or was said by it or to it. */
function concerns(frame, offset, name) {
  if (frame.actors[offset] === name) return true;
  const said = saidIn(frame, offset);
  return said !== null && (said.source === name || said.target === name || said.place === name);
}

/**
 * A list of events around the moment. Later ones are dimmed; more are added with two buttons.
 *
 * match(frame, offset): which events; node(number, event): the element of one; extra(from, to): other elements, as
 * [number of the event after which it stands, element]; newest: whether the latest events come first.
 */
function around({ match, node, extra, before = 40, after = 15, empty = "Nothing so far." }) {
  const list = h("div", { class: "around", tabindex: 0 });
  let turn = 0, more = before, ahead = after, center = -1, shown = "";

  async function show(number, again = false) {
    if (number === center && !again) return;
    if (number !== center && !again) { more = before; ahead = after; }
    center = number;
    const mine = ++turn;
    const current = () => mine === turn;
    const past = await findBefore(number, more + 1, match, current);
    const future = past && (await findAfter(number, ahead + 1, match, current));
    if (!future) return;
    const earlier = past.length > more, later = future.length > ahead;
    const numbers = [...past.slice(earlier ? 1 : 0), ...future.slice(0, ahead)];
    const events = await Promise.all(numbers.map(loadEvent));
    let nodes = events.map((event) => [event.number, node(event)]);
    if (extra) nodes.push(...(await extra(earlier ? numbers[0] : 0, later ? numbers.at(-1) : Infinity)));
    if (!current()) return;
    nodes = nodes.filter(([, element]) => element).sort(([one], [other]) => one - other);
    const key = nodes.map(([at]) => at).join() + "/" + number;
    if (key === shown && !again) return;
    shown = key;
    for (const [at, element] of nodes) element.classList.toggle("later", at > number);
    const passed = nodes.filter(([at]) => at <= number).map(([, element]) => element);
    list.replaceChildren(...[
      earlier && h("button", { type: "button", class: "more", onclick: () => { more += 100; show(center, true); } }, "earlier"),
      ...passed, !passed.length && h("p", { class: "note" }, empty),
      h("div", { class: "now" }, time(moment.time, true)),
      ...nodes.slice(passed.length).map(([, element]) => element),
      later && h("button", { type: "button", class: "more", onclick: () => { ahead += 100; show(center, true); } }, "later"),
    ].filter(Boolean));
    const line = list.querySelector(".now");
    if (more === before && ahead === after) list.scrollTop = line.offsetTop - list.offsetTop - list.clientHeight * 0.75;
  }
  return { list, show, reset: () => { center = -1; shown = ""; } };
}

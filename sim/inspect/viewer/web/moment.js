// The moment that is shown: a time, and the state of all names after the events so far.

const moment = { time: 0, event: 0, chunk: -1, applied: 0, change: 0, fields: [[], [], [], [], [], []] };

/**
 * Go to a time, or to just after an event. Returns whether the chunk is decoded; otherwise nothing changes.
 *
 * `soon` is called when it can be tried again.
 */
function reach(seconds, number, soon) {
  if (!ABOUT.chunks.length) { moment.time = seconds; return true; }
  const chunk = number === null ? chunkAt(seconds) : chunkOf(number);
  const frame = frameNow(chunk, soon);
  if (!frame) return false;
  const target = number === null ? firstPlace(frame.count, (at) => frame.times[at] > seconds) : number - frame.first + 1;
  if (chunk !== moment.chunk || target < moment.applied) {
    moment.fields = frame.keyframe.map((values) => values.slice());
    moment.change = 0;
    moment.chunk = chunk;
  }
  const { changes } = frame;
  while (moment.change < changes.length && changes[moment.change] < target) {
    (moment.fields[changes[moment.change + 2]] ||= [])[changes[moment.change + 1]] = changes[moment.change + 3];
    moment.change += 4;
  }
  moment.applied = target;
  moment.event = frame.first + target - 1;
  moment.time = number === null ? seconds : frame.times[target - 1];
  return true;
}

/** The value of a field of a name now; undefined if there is none. */
function fieldNow(field, name) {
  const value = moment.fields[field][name];
  return value === -1 || value === null ? undefined : value;
}

/** The value of a recorded state variable of an agent now; undefined if it has none. */
const variableNow = ({ field }, name) => moment.fields[field]?.[name] ?? undefined;

/** The same as text. */
function variableText(variable, name) {
  const value = variableNow(variable, name);
  return value === undefined ? "" : typeof value === "number" ? short(value) : visible(value);
}

/** The state of an agent now, as text; empty if it has not started. */
const stateNow = (name) => ABOUT.states[fieldNow(STATE, name)] || "";

/** Where an agent is now, as text. */
function placeNow(name) {
  const place = fieldNow(PLACE, name);
  if (place === undefined) return "";
  return Array.isArray(place) ? `${short(place[0])}, ${short(place[1])}` : ABOUT.map.places[place];
}

/** What was said between two times, from the chunks that are decoded: calls `show(source, target, seconds, kind)`. */
function saidBetween(from, to, most, show) {
  let left = most;
  for (let chunk = moment.chunk; chunk >= 0 && left > 0; chunk--) {
    const frame = frames.get(chunk);
    if (!frame || frame.end < from) break;
    const { said, times } = frame;
    let at = said.length - 5;
    if (chunk === moment.chunk) at = (firstPlace(said.length / 5, (place) => said[place * 5] >= moment.applied) - 1) * 5;
    for (; at >= 0 && left > 0; at -= 5) {
      const when = times[said[at]];
      if (when > to) continue;
      if (when < from) return;
      show(said[at + 2], said[at + 3], when, said[at + 1]);
      left--;
    }
  }
}

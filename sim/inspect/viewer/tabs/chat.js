// What names said to each other: messages, conversations, channels, and what agents asked models.

/** A text, with what else was sent in the same message. Nothing is left out. */
function saidParts(kind, event) {
  const data = event.data && typeof event.data === "object" ? event.data : {};
  if (kind === "message") return [data.topic, ...messageParts(data.data)];
  if (kind === "conversation") return conversationParts(data);
  if (kind === "channel") return ["", h("div", { class: "text" }, textOf(data.text))];
  if (kind === "survey") return [`survey ${textOf(data.survey)}`, h("div", { class: "text soft" }, textOf(data.question)), h("div", { class: "text" }, textOf(data.answer ?? data.error))];
  return modelParts(data);
}

const textOf = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));

function messageParts(data) {
  if (data === null || data === undefined) return [];
  if (typeof data === "string") return [h("div", { class: "text" }, data)];
  const main = typeof data === "object" && ["text", "content", "message"].find((key) => typeof data[key] === "string");
  if (!main) return [h("div", { class: "text mono" }, JSON.stringify(data))];
  const rest = Object.fromEntries(Object.entries(data).filter(([key]) => key !== main));
  return [h("div", { class: "text" }, data[main]), Object.keys(rest).length > 0 && h("div", { class: "text mono soft" }, JSON.stringify(rest))];
}

function conversationParts(data) {
  const about = data.metadata && typeof data.metadata === "object" ? data.metadata : {};
  const head = { tool_call: `uses ${textOf(about.tool)}`, tool_result: `result of ${textOf(about.tool) || "a tool"}`, error: "error" }[data.role] || "";
  const long = data.role === "tool_call" || data.role === "tool_result";
  const content = h("div", { class: "text" + (long ? " mono soft" : "") }, textOf(data.content));
  const seen = { model: "for the model only", person: "for the person only", none: "for the record only" }[data.audience];
  return [[head, seen].filter(Boolean).join(", "), content];
}

function modelParts(data) {
  const asked = data.arguments && typeof data.arguments === "object" ? data.arguments : {};
  const answer = data.success ? data.result : data.error;
  return ["asked a model",
    h("details", {}, h("summary", {}, "what it asked"), asked.system !== undefined && [h("small", {}, "system"), h("pre", {}, textOf(asked.system))], h("small", {}, "prompt"), h("pre", {}, textOf(asked.prompt))),
    h("div", { class: "text" }, answer && typeof answer === "object" && typeof answer.text === "string" ? answer.text : textOf(answer))];
}

/** What was said in an event, as an element. */
function saidNode(kind, said, event) {
  const [head, ...parts] = saidParts(kind, event);
  const mine = chosen.agent >= 0 && said.source === chosen.agent;
  return h("div", { class: "said " + kind + (mine ? " mine" : "") },
    h("div", { class: "by" }, eventLink(event.number, time(Number(event.time_ns) / 1e9, true)), " ", nameLink(said.source),
      said.target >= 0 && said.target !== said.place && [" → ", nameLink(said.target)], said.place >= 0 && [" in ", nameLink(said.place)], head && h("span", { class: "note" }, ` ${textOf(head)}`)),
    parts);
}

/** A call of a model or another effect, as an element; the whole texts are loaded when it is opened. */
function callNode(call, opened = false) {
  const body = h("div", {});
  const answer = h("div", { class: "text" });
  const box = h("details", { class: "said call", ontoggle: () => { if (box.open && !body.childNodes.length) fillCall(call, body).catch(complain); } },
    h("summary", {}, h("span", { class: "note" }, time(call.start, true)), " ", h("b", {}, ABOUT.names[call.agent]), ` ${call.kind === "llm" ? "called a model" : call.kind}`,
      h("span", { class: "note" }, call.end === null ? " under way" : call.end > call.start ? ` answered after ${lasting(call.end - call.start)}` : ""), answer), body);
  loadCall(call).then(({ result }) => { answer.textContent = visible(answerOf(JSON.parse(result)).slice(0, 400)); }, complain);
  if (opened) box.open = true;
  return box;
}

/** The text of the answer of a model, or the error. */
function answerOf(result) {
  if (!result || typeof result !== "object") return textOf(result);
  const completion = result.answer && result.answer.completion;
  if (completion) return completion.text || (completion.tool_calls || []).map((call) => `uses ${textOf(call.name)}(${textOf(call.arguments)})`).join(", ");
  return result.error ? textOf(result.error.message || result.error.kind || result.error) : textOf(result);
}

async function fillCall(call, body) {
  const { facts, request, result } = await loadCall(call);
  const asked = JSON.parse(request), answered = JSON.parse(result);
  const completion = answered && answered.answer && answered.answer.completion;
  const messages = Array.isArray(asked.messages) ? asked.messages : [];
  body.replaceChildren(
    h("div", { class: "by" }, facts.safety === "repeated" ? `${facts.actor}, repeated by a replay, ` : `effect ${facts.ordinal} of ${facts.actor}, ${facts.outcome || facts.ending || "no outcome"}, `, facts.safety === "repeated" ? eventLink(call.before + 1, `event ${call.before + 1}`) : await eventOfCall(call)),
    ...messages.map((message) => h("div", { class: "prompt" }, h("small", {}, textOf(message.role)), (message.content || !message.tool_calls) && h("pre", {}, textOf(message.content)), message.tool_calls && h("pre", {}, indented(JSON.stringify(message.tool_calls))))),
    !messages.length && h("pre", {}, indented(request)),
    h("div", { class: "prompt answer" }, h("small", {}, "answer"), h("pre", { class: "exact" }, completion ? completion.text : answerOf(answered)),
      completion && (completion.tool_calls || []).length > 0 && h("pre", {}, indented(JSON.stringify(completion.tool_calls)))),
    h("details", {}, h("summary", {}, "request and result as they are recorded"), h("pre", { class: "request" }, request), h("pre", { class: "result" }, result),
      button("copy", "copy both", () => navigator.clipboard.writeText(request + "\n" + result))),
  );
}

/** A link to the event of a call: that of its end, or the last one before it. */
async function eventOfCall(call) {
  if (!ABOUT.events) return null;
  const when = call.end === null ? call.start : call.end;
  const frame = await loadFrame(chunkAt(when));
  for (let at = firstPlace(frame.count, (place) => frame.times[place] >= when - 1e-9); at < frame.count && frame.times[at] <= when + 1e-9; at++) {
    if (frame.actors[at] === call.agent && ABOUT.topics[frame.topics[at]] === "model.call") return eventLink(frame.first + at, `event ${frame.first + at}`);
  }
  return eventLink(Math.max(1, call.before), `started after event ${call.before}`);
}

const MOST_CHOICES = 20000;

function makeChat() {
  const whom = h("select", { "aria-label": "who", onchange: () => choose({ agent: Number(whom.value), other: -1 }) });
  const other = h("select", { "aria-label": "with whom", onchange: () => choose({ other: Number(other.value) }) });
  const calls = h("input", { type: "checkbox", checked: true, onchange: () => { chosen.calls = calls.checked; renew(); } });
  const hint = h("p", { class: "note" });
  const content = h("div", { class: "fill" });
  const box = h("div", { class: "panel" }, h("div", { class: "head" }, h("span", {}, whom, " with ", other), h("label", {}, calls, " model calls")), hint, content);
  let list = null, key = "", callList = null, filled = "";

  function fillChoices() {
    const state = ABOUT.names.length + "/" + chosen.agent + "/" + ABOUT.pairs.length;
    if (state === filled) return;
    filled = state;
    const talking = new Set(ABOUT.pairs.flatMap(([one, two]) => [one, two]));
    for (const name of agents()) talking.add(name);
    if (chosen.agent >= 0) talking.add(chosen.agent);
    const names = [...talking].sort((one, two) => collator.compare(ABOUT.names[one], ABOUT.names[two])).slice(0, MOST_CHOICES);
    if (chosen.agent >= 0 && !names.includes(chosen.agent)) names.unshift(chosen.agent);
    whom.replaceChildren(h("option", { value: -1 }, "everybody"), ...names.map((name) => h("option", { value: name, selected: name === chosen.agent }, ABOUT.names[name])));
    const counts = new Map();
    for (const [one, two, count] of ABOUT.pairs) {
      if (one === chosen.agent) counts.set(two, (counts.get(two) || 0) + count);
      else if (two === chosen.agent) counts.set(one, (counts.get(one) || 0) + count);
    }
    const partners = [...counts].sort(([, one], [, two]) => two - one);
    if (chosen.other >= 0 && !counts.has(chosen.other)) partners.unshift([chosen.other, 0]);
    other.replaceChildren(h("option", { value: -1 }, "everybody"), ...partners.map(([name, count]) => h("option", { value: name, selected: name === chosen.other }, `${visible(ABOUT.names[name])} (${number(count)})`)));
    other.disabled = chosen.agent < 0;
  }

  /** Whether the calls of models are on record and shown, with all that was asked: then the actions that made them are not. */
  const showsCalls = () => chosen.calls && chosen.agent >= 0 && chosen.other < 0 && ABOUT.calls.length > 0;

  function matches(frame, offset) {
    const said = saidIn(frame, offset);
    if (said === null || said.kind === "payment" || (said.kind === "model" && (!chosen.calls || showsCalls()))) return false;
    if (chosen.agent < 0) return true;
    const { source, target, place } = said, one = chosen.agent, two = chosen.other;
    if (two < 0) return source === one || target === one || place === one;
    return (source === one && (target === two || place === two)) || (source === two && (target === one || place === one)) || (place === two && target === one);
  }

  async function callsBetween(from, to) {
    if (!showsCalls()) return [];
    callList = callList && callList.length === ABOUT.calls_in_all ? callList : await allCalls();
    const found = callList.filter((call) => call.agent === chosen.agent && call.before >= from && call.before <= to);
    const now = firstPlace(found.length, (at) => found[at].before > moment.event);
    return found.slice(Math.max(0, now - 60), now + 30).map((call) => [call.before + 0.5, callNode(call)]);
  }


  function renew() {
    key = "";
    refresh();
  }

  const draw = paced(350, () => {
    fillChoices();
    const wanted = [chosen.agent, chosen.other, chosen.calls].join();
    if (wanted !== key) {
      key = wanted;
      list = around({
        match: matches, extra: callsBetween, before: 30, after: 12, empty: "Nothing was said so far.",
        node: (event) => {
          const frame = frames.get(chunkOf(event.number));
          const said = frame && saidIn(frame, event.number - frame.first);
          return said && saidNode(said.kind, said, event);
        },
      });
      content.replaceChildren(list.list);
      hint.textContent = chosen.agent < 0 ? "All messages, conversations, posts and questions to models. Choose an agent to see its model calls as well."
        : chosen.other < 0 ? "" : "What both said to each other.";
      whom.value = String(chosen.agent);
      other.value = String(chosen.other);
    }
    list.show(moment.event).catch(complain);
  });
  return { box, draw };
}

tab("chat", "Chat", 30, makeChat);

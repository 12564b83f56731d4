// All agents, and the story of one of them at the moment.

const ROW_HEIGHT = 26;

function makeAgents() {
  const search = h("input", { type: "search", placeholder: "name, group, state or place", "aria-label": "filter agents", oninput: () => { arrange(); show(); } });
  const inner = h("div", { class: "rows" }), view = h("div", { class: "table" }, inner);
  const tally = h("span", { class: "note" });
  const heads = h("div", { class: "cells heads" });
  const list = h("div", { class: "panel" }, h("div", { class: "head" }, search, tally), heads, view);
  const story = h("div", { class: "panel" });
  const box = h("div", { class: "panel" }, list, story);
  let rows = [], sorted = "name", downwards = false;

  const columns = [["name", (name) => ABOUT.names[name]], ["group", (name) => ABOUT.groups[name]], ["state", stateNow], ["last action", actionNow]];
  if (ABOUT.map.kind !== "contacts") columns.push(["place", placeNow]);
  for (const variable of ABOUT.variables.slice(0, 3)) columns.push([visible(variable.name), (name) => variableText(variable, name)]);
  if (ABOUT.has_money) columns.push(["balance", (name) => { const value = fieldNow(BALANCE, name); return value === undefined ? "" : money(value); }]);
  for (const element of [inner, heads]) element.style.setProperty("--columns", `minmax(0, 1.8fr) repeat(${columns.length - 1}, minmax(0, 1fr))`);
  heads.append(...columns.map(([title]) => h("button", { type: "button", class: "link", onclick: () => { downwards = sorted === title && !downwards; sorted = title; arrange(); show(); } }, title)));

  function arrange() {
    const wanted = search.value.trim().toLowerCase();
    const [, value] = columns.find(([title]) => title === sorted);
    rows = agents().filter((name) => stateNow(name) !== "" && (!wanted || [ABOUT.names[name], ABOUT.groups[name], stateNow(name), placeNow(name)].some((text) => text.toLowerCase().includes(wanted))));
    if (sorted !== "name") rows.sort((one, other) => collator.compare(value(one), value(other)));
    if (downwards) rows.reverse();
    inner.style.height = rows.length * ROW_HEIGHT + "px";
    const text = `${number(rows.length)} of ${counted(agents().length, "agent")}`;
    if (tally.textContent !== text) tally.textContent = text;
  }

  /** Put the visible rows into the document. */
  function show() {
    const first = Math.max(0, Math.floor(view.scrollTop / ROW_HEIGHT) - 3);
    inner.replaceChildren(...rows.slice(first, first + Math.ceil(view.clientHeight / ROW_HEIGHT) + 6).map((name, at) => h("div", {
      class: "cells row", tabindex: 0, role: "button", style: { top: (first + at) * ROW_HEIGHT + "px" },
      onclick: () => openAgent(name), onkeydown: (event) => event.key === "Enter" && openAgent(name),
    }, columns.map(([title, value]) => title === "state" ? h("span", {}, stateNow(name) && h("i", { class: "swatch", style: { background: palette[stateNow(name)] } }), stateNow(name)) : h("span", { title: value(name) }, value(name))))));
  }
  view.addEventListener("scroll", () => requestAnimationFrame(show));

  const facts = h("div", { class: "facts" }), head = h("div", {});
  let events = null, shownAgent = -1;
  function openStory() {
    shownAgent = chosen.agent;
    const name = chosen.agent;
    events = around({ match: (frame, offset) => concerns(frame, offset, name), node: (event) => eventRow(event, event.actor !== ABOUT.names[name]), empty: "It has done nothing so far." });
    head.replaceChildren(h("div", { class: "head" }, h("h2", {}, ABOUT.names[name]),
      h("span", {}, button("what it said", "its messages, conversations and model calls", () => choose({ tab: "chat", other: -1 })), button("all agents", "back to all agents (Escape)", () => choose({ agent: -1, other: -1 })))));
    story.replaceChildren(head, facts, partners(name), h("h3", {}, "What it did"), events.list);
  }

  /** With whom it had most contact. */
  function partners(name) {
    const counts = new Map();
    for (const [one, other, count] of ABOUT.pairs) {
      if (one === name && other !== name) counts.set(other, (counts.get(other) || 0) + count);
      if (other === name && one !== name) counts.set(one, (counts.get(one) || 0) + count);
    }
    const most = [...counts].sort(([, one], [, other]) => other - one).slice(0, 12);
    return most.length ? h("p", { class: "note" }, "Most contact: ", most.map(([other, count], at) => [at > 0 && ", ",
      h("button", { type: "button", class: "link", title: "what they said to each other", onclick: () => choose({ tab: "chat", other }) }, ABOUT.names[other]), ` ${number(count)}`])) : "";
  }

  function drawFacts(name) {
    const balance = fieldNow(BALANCE, name);
    const finals = Object.entries(ABOUT.finals).map(([variable, values]) => [variable, Object.keys(values).find((value) => values[value].includes(name))]).filter(([, value]) => value !== undefined);
    const given = [["group", ABOUT.groups[name]], ["state", stateNow(name) || (isAgent(name) ? "not started" : roleOf(name))], ["place", placeNow(name)],
      ["balance", !ABOUT.has_money || balance === undefined ? "" : money(balance)], ["activity", ABOUT.activities[fieldNow(DOING, name)] || ""], ["last action", actionNow(name)], ["last event", fieldNow(EVENT, name) === undefined ? "" : ABOUT.topics[fieldNow(EVENT, name)]],
      ...ABOUT.variables.map((variable) => [visible(variable.name), variableText(variable, name)]), ...finals.slice(0, 4).map(([variable, value]) => [`${variable} at the end`, value])];
    facts.replaceChildren(...given.filter(([, value]) => value !== "").map(([title, value]) => h("span", {}, h("small", {}, title), value)));
  }

  const draw = paced(180, () => {
    const one = chosen.agent >= 0;
    list.hidden = one;
    story.hidden = !one;
    if (!one) {
      arrange();
      show();
      return;
    }
    if (shownAgent !== chosen.agent) openStory();
    drawFacts(chosen.agent);
    events.show(moment.event).catch(complain);
  });
  return { box, draw };
}

/** The last action of an agent. */
function actionNow(name) {
  const topic = fieldNow(ACTION, name);
  return topic === undefined ? "" : ABOUT.topics[topic].replace(/^action\./, "");
}

tab("agents", "Agents", 20, makeAgents);

// The events around the moment, all or some.

function makeEvents() {
  const topic = h("select", { "aria-label": "topic", onchange: renew });
  const text = h("span", { class: "note" });
  const content = h("div", { class: "fill" });
  const box = h("div", { class: "panel" }, h("div", { class: "head" }, topic, text), content);
  let list = null, key = "", filled = 0;

  function renew() {
    key = "";
    refresh();
  }

  const draw = paced(250, () => {
    if (filled !== ABOUT.topics.length) {
      filled = ABOUT.topics.length;
      const names = ABOUT.topics.map((name, at) => [name, at]).sort(([one], [other]) => collator.compare(one, other));
      const before = topic.value;
      topic.replaceChildren(h("option", { value: "" }, "all topics"), ...names.map(([name, at]) => h("option", { value: at }, name)));
      topic.value = before || "";
    }
    const wanted = topic.value + "/" + chosen.agent;
    if (wanted !== key) {
      key = wanted;
      const name = chosen.agent, only = topic.value === "" ? -1 : Number(topic.value);
      text.textContent = name < 0 ? counted(ABOUT.events, "event") : `events of ${label(name)}`;
      list = around({ match: (frame, at) => (only < 0 || frame.topics[at] === only) && (name < 0 || concerns(frame, at, name)), node: eventRow, before: 60, after: 30 });
      content.replaceChildren(list.list);
    }
    list.show(moment.event).catch(complain);
  });
  return { box, draw };
}

tab("events", "Events", 40, makeEvents);

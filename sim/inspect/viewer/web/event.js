// One event: its identity, its time, its data as they are recorded.

const drawer = h("aside", { class: "drawer", hidden: true, "aria-label": "event" });

/** Show what led to the event of the drawer; the second time, begin the trace that finds it. */
function openCauses() {
  const start = document.getElementById("trace-run");
  if (start) { start.click(); return; }
  if (drawer.hidden || drawer.querySelector(".causes")) return;
  const made = causesOf(Number(drawer.dataset.number));
  drawer.append(made);
  made.scrollIntoView();
}

/** Show an event, and go to it. */
async function openEvent(number) {
  goToEvent(number);
  await showEvent(number);
}

async function showEvent(number) {
  const event = await loadEvent(number);
  const open = drawer.querySelector(".causes") !== null;
  const name = ABOUT.names.indexOf(event.actor);
  const row = (title, ...value) => h("tr", {}, h("th", {}, title), h("td", {}, value));
  drawer.replaceChildren(
    h("div", { class: "head" }, h("h3", {}, `event ${number}`),
      h("span", {}, button("◀", "the event before", () => number > 1 && openEvent(number - 1)), button("▶", "the event after", () => number < ABOUT.events && openEvent(number + 1)),
        button("causes", "what led to it, and what it may have influenced (C)", openCauses, { id: "open-causes" }),
        button("copy", "copy the event as it is recorded", () => navigator.clipboard.writeText(event.line)), button("✕", "close (Escape)", closeEvent))),
    h("table", {}, h("tbody", {},
      row("time", `${time(Number(event.time_ns) / 1e9, true)} (${event.time_ns} ns, delta ${event.delta}, priority ${event.priority})`),
      row("identity", h("code", {}, `source ${event.source}, counter ${event.counter}`)),
      row("actor", name >= 0 && isAgent(name) ? nameLink(name) : event.actor),
      row("topic", h("code", {}, event.topic)),
      row("cause", h("code", {}, event.cause)))),
    h("pre", {}, indented(event.text)));
  drawer.hidden = false;
  drawer.dataset.number = String(number);
  drawer.scrollTop = 0;
  if (open && traced) drawer.append(causesOf(number));
}

function closeEvent() {
  drawer.hidden = true;
}

/** The text of an event in one line. */
function eventText(event) {
  const data = event.data && typeof event.data === "object" ? event.data : {};
  const brief = (value) => (value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length) ? "" : typeof value === "string" ? value : JSON.stringify(value)).slice(0, 300);
  if (event.topic === "agent.state") return `${data.from} → ${data.to}${data.reason ? ` (${brief(data.reason)})` : ""}`;
  if (event.topic === "message.sent") return `to ${brief(data.to)}: ${brief(data.topic)} ${brief(data.data)}`;
  if (event.topic.startsWith("action.")) {
    return brief(data.arguments) + (data.success === false ? ` refused: ${brief(data.error)}` : brief(data.result) && ` = ${brief(data.result)}`);
  }
  return brief(event.data);
}

/** An event as a line of a list. */
function eventRow(event, withActor = true) {
  const failed = (event.data && event.data.success === false) || /^agent\.(error|crashed)|^alert\./.test(event.topic);
  return h("div", { class: "row" + (failed ? " red" : ""), tabindex: 0, role: "button", onclick: () => openEvent(event.number), onkeydown: (key) => key.key === "Enter" && openEvent(event.number) },
    h("time", {}, time(Number(event.time_ns) / 1e9, true)),
    withActor && h("span", { class: "who" }, event.actor),
    h("span", { class: "what" }, h("b", {}, event.topic), " ", eventText(event)));
}

// The page: the settings, the results and the events of a run.

function header() {
  const run = DATA.run;
  const given = Object.entries(run.options).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`);
  const facts = [`seed ${run.seed}`, `${run.mode} mode`, DATA.tick && `a tick every ${lasting(DATA.tick)}`, run.backend,
    run.stopped_by && `stopped by ${run.stopped_by}`, ...given, run.origin && `branched from ${run.origin.run}`].filter(Boolean);
  const made = Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ");
  const when = [run.started, run.ended].filter(Boolean).map((one) => one.slice(0, 16).replace("T", " ") + " UTC");
  return h("header", {},
    h("div", { class: "title" }, h("h1", {}, run.name), h("span", { class: "pill " + run.status }, run.status)),
    h("p", { class: "lead" }, facts.join(" · ")),
    h("p", { class: "lead made" }, `Run ${run.id}, ${[...new Set(when)].join(" to ")}${made && `, with ${made}`}`),
    run.description && h("p", { class: "lead" }, run.description),
    run.error && h("p", { class: "lead error" }, run.error));
}

/** The most metrics with their last value at the top of the page. */
const HEADLINES = 6;

function tiles() {
  const { agents, events, iterations, actions, refused, errors, wakeups, messages } = DATA.numbers;
  const wall = (Date.parse(DATA.run.ended) - Date.parse(DATA.run.started)) / 1000;
  const spent = DATA.models && DATA.models.spent[DATA.models.spent.length - 1];
  const made = [
    [lasting(END), "simulated"],
    wall > 0 && [lasting(wall), `real time (${short(END / wall)} ×)`],
    [number(agents), "agents"],
    iterations !== null && [number(iterations), "iterations"],
    [number(actions), "actions done"],
    [number(refused), "refused", refused > 0],
    errors !== null && [number(errors), "failed iterations", errors > 0],
    [number(wakeups), "wake-ups"],
    messages > 0 && [number(messages), "messages"],
    DATA.models && [number(DATA.models.models.reduce((sum, one) => sum + (one.calls || 0) + (one.failed || 0), 0)), "model calls"],
    spent > 0 && [money(spent), "spent on models"],
    [number(events), "events"],
  ].filter(Boolean);
  const results = Object.entries(DATA.samples.ends).slice(0, HEADLINES)
    .map(([name, value]) => [value === null ? "no value" : number(value), `${name} at the end`]);
  const tile = ([value, name, bad]) => h("div", { class: "tile" + (bad ? " bad" : "") }, h("b", {}, value), h("span", {}, name));
  return [h("div", { class: "tiles" }, made.map(tile)), results.length > 0 && h("div", { class: "tiles results" }, results.map(tile))];
}

function outcome() {
  const { time: times, series, ends, step } = DATA.samples;
  const names = Object.keys(series);
  if (!names.length && !DATA.observations.length) return null;
  const charts = names.map((name, index) => h("div", {},
    h("h3", {}, name, " ", h("span", { class: "note" }, number(ends[name]))),
    chart([{ name, colour: category(index), values: series[name] }], { times, height: 130 }), about(name)));
  const bars = DATA.observations.map((one, index) => h("div", {},
    h("h3", {}, one.name, " ", h("span", { class: "note" }, `${number(one.n)} observed, mean ${number(one.mean)}, median ${number(one.median)}, 95 % below ${number(one.p95)}`)),
    histogram(one, category(names.length + index))));
  const views = [names.length && "samples", DATA.observations.length && "observations"].filter(Boolean);
  const note = [step > 1 && `every ${step}th sample is drawn`, "as CSV: ", views.map((view, index) => [index > 0 && ", ", exported(view)])];
  return section("outcome", "Outcome", note, h("div", { class: "cards" }, charts, bars));
}

/** The command that writes a table of this run. */
const exported = (view) => h("code", {}, `sim export ${DATA.run.id} ${view} --to ${view}.csv`);

/** What a metric is: its expression, and the outcomes that the scenario makes of it. */
function about(name) {
  const { is, uses } = DATA.about[name] || { is: "", uses: [] };
  return is && h("p", { class: "note about" }, `${name}: ${is}`, uses.map((one) => [h("br"), one]));
}

function states() {
  const names = Object.keys(DATA.states);
  if (!names.length) return null;
  const series = names.map((name) => ({ name, colour: stateColour(name), values: DATA.states[name] }));
  const finals = Object.entries(DATA.finals).map(([state, count]) => `${number(count)} ${state}`).join(", ");
  return section("states", "Agents by state", `at the end: ${finals}`,
    chart(series, { stacked: true, height: 190, legend: true }),
    h("h3", { style: { "margin-top": "18px" } }, "State of each agent ", h("span", { class: "note" }, "one line per agent, from the beginning of the run to its end; click to see its history", namedLanes())),
    swimlanes());
}

function events() {
  const series = DATA.topics.map(({ name, counts, total }, index) => ({ name, total, values: counts, colour: category(index) }));
  if (!series.length) return null;
  const most = Math.max(...DATA.actions.map(({ done, refused }) => done + refused), 1);
  return section("events", "Events and actions", `counts in ${series[0].values.length} equal parts of the run`,
    chart(series, { stacked: true, height: 210, legend: true }),
    DATA.actions.length > 0 && h("div", { style: { "margin-top": "14px" } }, table([
      ["action", ({ kind }) => kind], ["done", ({ done }) => number(done), true],
      ["refused", ({ refused }) => h("span", refused ? { class: "error" } : {}, number(refused)), true],
      ["", ({ done, refused }) => h("div", { class: "bar" },
        h("i", { style: { width: (done / most) * 100 + "%", background: "var(--good)" } }),
        h("i", { style: { width: (refused / most) * 100 + "%", background: "var(--bad)" } }))],
    ], DATA.actions)));
}

function limits() {
  const usage = DATA.usage;
  if (!usage || !(usage.rates.length + usage.budgets.length + usage.quotas.length)) return null;
  const rates = usage.rates.map((rate, index) => h("div", {},
    h("h3", {}, rate.resource, " ", h("span", { class: "note" },
      `${rate.limit} for ${rate.scope}; ${number(rate.total)} used, maximum ${percent(rate.peak)}; ${rate.policy === "block" ? "agents wait for free capacity" : "agents without free capacity skip the action"}`)),
    chart([{ name: rate.scope === "all together" ? "in use" : "in use (maximum)", colour: category(index), values: rate.peaks.map((share) => share * 100) }],
      { height: 130, top: 100, lines: [{ at: 100, name: "limit" }], format: (value) => value.toFixed(0) + " %", legend: false })));
  const share = (part, whole) => h("div", { class: "bar" }, h("i", { style: { width: Math.min(100, (part / (whole || 1)) * 100) + "%", background: part >= whole * 0.9 ? "var(--bad)" : "var(--accent)" } }));
  const rows = [
    ...usage.budgets.map((one) => ({ ...one, sort: "budget", every: one.reset ? `renewed every ${one.reset}; spent over the whole run` : "" })),
    ...usage.quotas.map((one) => ({ ...one, sort: "quota", every: "held at the end" })),
  ];
  return section("limits", "Use of limits", "computed from the recorded actions and calls, with the price list of the scenario; in percent of the limit",
    h("div", { class: "cards" }, rates),
    rows.length > 0 && table([
      ["", ({ sort }) => sort], ["name", ({ name }) => name], ["for each agent", ({ limit }) => number(limit), true],
      ["most", ({ most }) => number(most), true], ["by", ({ agent }) => agent], ["all agents", ({ total }) => number(total), true],
      ["", ({ most, limit }) => share(most, limit)], ["", ({ every }) => h("span", { class: "note" }, every)],
    ], rows));
}

function models() {
  const found = DATA.models;
  if (!found) return null;
  const lines = [["ceiling", found.ceiling], ["estimate", found.expected]].filter(([, at]) => at !== null && at > 0 && at < found.spent[found.spent.length - 1] * 4)
    .map(([name, at]) => ({ name, at }));
  const tries = Object.entries(found.tries).map(([name, count]) => `${name} ${number(count)}`).join(", ");
  const uses = Object.entries(found.uses).map(([name, count]) => `${name} ${number(count)}`).join(", ");
  const ceiling = found.ceiling === null ? "" : `; ceiling ${money(found.ceiling)}`;
  return section("models", "Language models", `calls by use: ${uses}; attempts by outcome: ${tries}${ceiling}`,
    table([
      ["model", ({ name }) => name], ["calls", ({ calls }) => number(calls || 0), true], ["failed", ({ failed }) => h("span", failed ? { class: "error" } : {}, number(failed || 0)), true],
      ["attempts", ({ attempts }) => number(attempts || 0), true], ["tokens in", ({ input_tokens }) => number(input_tokens || 0), true],
      ["cached", ({ cached_tokens }) => number(cached_tokens || 0), true], ["tokens out", ({ output_tokens }) => number(output_tokens || 0), true], ["cost", ({ cost }) => money(cost), true],
      ["median", ({ seconds }) => lasting(seconds.median), true], ["95 %", ({ seconds }) => lasting(seconds.p95), true], ["longest", ({ seconds }) => lasting(seconds.maximum), true],
    ], found.models),
    h("div", { class: "cards", style: { "margin-top": "16px" } },
      h("div", {}, h("h3", {}, "finished calls"), chart([{ name: "calls", colour: category(0), values: found.calls }], { height: 140 })),
      found.spent[found.spent.length - 1] > 0 && h("div", {}, h("h3", {}, "spent so far"), chart([{ name: "spent", colour: category(2), values: found.spent }], { height: 140, lines, format: money })),
      found.models.filter(({ seconds }) => seconds.maximum > 0).map(({ name, seconds }, index) => h("div", {},
        h("h3", {}, name, " ", h("span", { class: "note" }, "simulated seconds per call")), histogram(seconds, category(index + 3), lasting)))));
}

function effects() {
  if (!DATA.effects) return null;
  return section("effects", "Effects", "work outside the simulation: each request is recorded before it starts, and each outcome before the agent sees it",
    table([
      ["kind", ({ kind }) => kind], ["outcome", ({ outcome }) => outcome], ["count", ({ count }) => number(count), true],
      ["attempts", ({ attempts }) => number(attempts), true], ["mean", ({ mean }) => mean === null ? "" : lasting(mean), true],
      ["longest", ({ longest }) => longest === null ? "" : lasting(longest), true], ["latency", ({ latency }) => latency], ["safety", ({ safety }) => safety],
    ], DATA.effects.kinds),
    DATA.effects.wrong.length > 0 && [h("h3", { style: { "margin-top": "14px" } }, "The latest failed effects"), table([
      ["started", (one) => time(one.time), true], ["agent", ({ agent }) => agent], ["kind", ({ kind }) => kind], ["outcome", ({ outcome }) => outcome], ["result", ({ result }) => h("code", {}, result)],
    ], DATA.effects.wrong)]);
}

function gates() {
  if (!DATA.gates) return null;
  const { total, counts, rows } = DATA.gates;
  const left = total > rows.length ? `; the latest ${rows.length} of ${number(total)} are listed` : "";
  const bad = new Set(["denied", "expired", "cancelled"]);
  return section("gates", "Approvals", `calls that a person had to approve: ${Object.entries(counts).map(([status, count]) => `${number(count)} ${status}`).join(", ")}${left}`,
    table([
      ["gate", ({ gate }) => gate], ["agent", ({ agent }) => agent], ["tool", ({ tool }) => tool], ["asked", ({ asked }) => time(asked), true],
      ["waited", ({ waited }) => waited === null ? "" : lasting(waited), true], ["status", ({ status }) => h("span", bad.has(status) ? { class: "error" } : {}, status)],
      ["by", ({ by }) => by], ["reason", ({ reason, note }) => note ? `${reason}: ${note}` : reason],
    ], rows));
}

function services() {
  if (!DATA.services.length) return null;
  return section("services", "Services", "what agents share: tools, tasks, memories and the like, at the end of the run",
    table([
      ["service", ({ service }) => service], ["", ({ name }) => name],
      ["", ({ value }) => typeof value === "number" ? number(value) : value === null ? "" : String(value), true],
    ], DATA.services));
}

function conversations() {
  if (!DATA.conversations) return null;
  const { total, rows } = DATA.conversations;
  const left = total > rows.length ? `; the first ${rows.length} of ${number(total)} are shown` : "";
  return section("conversations", "Conversations", `click on one to read it${left}`, folded(rows.map(conversation), rows.length, "conversations"));
}

function tasks() {
  if (!DATA.tasks) return null;
  const { total, counts, rows } = DATA.tasks;
  const left = total > rows.length ? `; ${rows.length} of ${number(total)} are listed, open ones first` : "";
  return section("tasks", "Tasks", `${Object.entries(counts).map(([status, count]) => `${number(count)} ${status}`).join(", ")}${left}`,
    h("div", { class: "tall" }, folded(table([
      ["task", ({ id }) => "#" + id], ["title", ({ title }) => title], ["status", ({ status }) => h("span", status === "failed" ? { class: "error" } : {}, status)],
      ["agent", ({ agent }) => agent], ["created", ({ created }) => time(created), true], ["ended", ({ ended }) => ended === null ? "" : time(ended), true],
      ["", ({ late }) => late ? h("span", { class: "error" }, "overdue") : ""],
    ], rows), rows.length, "tasks")));
}

function executions() {
  if (!DATA.executions) return null;
  const { total, shown, roots } = DATA.executions;
  const left = total > shown ? `; the first ${number(shown)} of ${number(total)} are shown` : "";
  return section("executions", "Plan tree", `tasks of executors with their parts and their help; click on one to read it${left}`, roots.map(execution));
}

function execution(one) {
  const line = ({ time: at, kind, text }) => kind === "step" ? h("h4", {}, "step " + text) : h("div", { class: "said told " + kind },
    h("span", { class: "note" }, time(at, true)), h("b", {}, kind), h("div", {}, text));
  const colour = { success: "var(--good)", failed: "var(--bad)", escalated: "var(--bad)" }[one.status] || "var(--accent)";
  const what = one.ending ? `${one.status} (${one.ending.replaceAll("_", " ")})` : one.agent ? "under way" : "waits";
  return h("div", { class: "task" },
    h("details", { class: "conversation" },
      h("summary", {}, h("b", {}, `${one.number} ${one.name} `), h("span", { style: { color: colour } }, what), h("span", { class: "note" },
        ` ${one.agent || one.type}, ${number(one.steps)} steps, ${number(one.tokens)} tokens, ${money(one.cost)}`),
        h("div", { class: "bar" }, h("i", { style: { width: one.progress * 100 + "%", background: colour } }))),
      h("p", {}, one.goal),
      one.criteria.map(([text, met]) => h("div", { class: met ? "" : "error" }, (met ? "☑ " : "☐ ") + text)),
      one.lines.map(line),
      one.left_out > 0 && h("p", { class: "note" }, `${number(one.left_out)} further lines are in the record`)),
    one.parts.map(execution));
}

function channels() {
  if (!DATA.channels) return null;
  return section("channels", "Channels", "click on one to read its latest posts", DATA.channels.map(({ name, total, posts }) =>
    h("details", { class: "conversation" },
      h("summary", {}, `${name} `, h("span", { class: "note" }, `${number(total)} posts${total > posts.length ? `, the latest ${posts.length} shown` : ""}`)),
      posts.map(({ time: at, author, text }) => h("div", { class: "said" },
        h("span", { class: "note" }, time(at, true)), h("b", {}, author), h("div", {}, text.map((part) => h("div", {}, part))))))));
}

function conversation(one) {
  const left = one.total > one.lines.length ? `, the latest ${one.lines.length} shown; all: sim show RUN conversation ${one.id} --limit 0` : "";
  const line = ({ time: at, kind, name, text }) => h("div", { class: "said " + kind },
    h("span", { class: "note" }, time(at, true)), h("b", {}, name), h("div", {}, text.map((part) => h("div", {}, part))));
  return h("details", { class: "conversation" },
    h("summary", {}, `${one.with} in ${one.place} `, h("span", { class: "note" }, `${one.id}, ${number(one.total)} messages${left}`)),
    one.summary && h("p", { class: "note" }, `Before: ${one.summary}`),
    one.lines.map(line));
}

function errors() {
  const { rows, counts, total, kinds } = DATA.errors;
  if (!rows.length) return section("errors", "Errors and alerts", null, h("p", { class: "note" }, "none"));
  const left = kinds > rows.length ? `; the ${rows.length} most severe of ${number(kinds)} kinds are listed` : "";
  return section("errors", "Errors and alerts", `${number(total)} events${left}`,
    chart([{ name: "errors, refusals and alerts", colour: "var(--bad)", values: counts }], { stacked: true, height: 110, legend: false }),
    table([
      ["", ({ kind }) => h("span", { class: "tag " + kind }, kind)], ["description", ({ text }) => text], ["count", ({ count }) => number(count), true],
      ["first agent", ({ agent }) => h("a", { href: "#agent=" + encodeURIComponent(agent) }, agent)], ["first", ({ first }) => time(first), true], ["last", ({ last }) => time(last), true],
    ], rows));
}

function footer() {
  const { hash } = DATA.run;
  const scenario = DATA.run.scenario.join("\n").trim();
  return h("footer", {}, scenario && h("details", {}, h("summary", {}, "The scenario as run"), h("pre", { class: "mono whole" }, scenario)), hash && h("p", {}, "hash ", h("code", {}, hash)));
}

const SECTIONS = [outcome, surveys, states, events, limits, models, effects, executions, tasks, gates, channels, conversations, services,
  () => DATA.graphs.length ? section("graph", "Messages and payments", null, graphs()) : null,
  errors, () => section("agents", "Agents", "click on an agent to see its history", agentsSection())];

const made = SECTIONS.map((make) => make()).filter(Boolean);
const links = made.map((part) => h("a", { href: "#" + part.id }, part.querySelector("h2").textContent));
document.getElementById("page").append(header(), h("nav", {}, h("div", {}, links)), ...tiles().filter(Boolean), ...made, footer(), tip);
addEventListener("hashchange", follow);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
follow();
document.documentElement.dataset.ready = String(Math.round(performance.now())); // milliseconds until the page was drawn, for measurements

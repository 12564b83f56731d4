// What replays find: a page of a server can ask for it, a file cannot.

/** The answer of the server to a question of which a replay is the answer. */
async function replayed(what, asked = {}) {
  const query = Object.entries(asked).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const answer = await fetch(`replay/${what}?${query}`).catch(() => { throw new Error("the server has ended"); });
  if (!answer.ok) throw new Error("the server could not answer");
  const found = await answer.json();
  if (found.error) throw Object.assign(new Error(found.error), { hint: found.hint });
  return found;
}

/** What went wrong with a replay, in the panel that has asked for it. */
const failure = (error) => h("div", { class: "failure", role: "alert" }, h("p", { class: "error" }, error.message), error.hint && h("p", { class: "note" }, `hint: ${error.hint}`));

/** What a replay costs, as sentences. */
const costNodes = ({ events, seconds, answered, changed }) => [
  h("p", {}, `It repeats about ${counted(events, "event")}: up to ${number(seconds)} s. Nothing is executed outside, nothing is written.`),
  answered > 0 && h("p", {}, `${answered === 1 ? "1 answer from outside is the one" : `${number(answered)} answers from outside are those`} on record.`),
  changed.length > 0 && h("p", { class: "warning" }, `Changed since the run was recorded: ${changed.join(", ")}. What is shown is compared with the record up to there.`)];

/** A table of texts and numbers. */
const plainTable = (headings, rows) => h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, headings.map((one) => h("th", {}, one)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));

/** What a page without a server says in place of what a replay finds, with the commands that show it. */
const withoutServer = (what, ...commands) => [h("p", {}, `This page is a file, and ${what}, which takes a replay.`),
  h("p", {}, "These commands show it: ", commands.map((one, at) => [at > 0 && " or ", h("code", {}, one)]), ".")];

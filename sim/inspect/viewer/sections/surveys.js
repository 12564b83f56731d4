// Surveys: what was answered to each question, at each time when it was asked, by all and by group.

section("surveys", ({ questions, left }) => [
  ["shares are of those who chose an option", left > 0 && `; the first ${questions.length} questions are shown`, "; as CSV: ", exported("surveys")],
  questions.map((one, place) => question(one, place === 0 || questions[place - 1].survey !== one.survey))]);

function question(one, first) {
  const all = one.rows.filter(({ group }) => group === "");
  const answers = all.reduce((sum, { answers }) => sum + answers, 0), missing = all.reduce((sum, { missing }) => sum + missing, 0);
  const counts = [`${number(answers)} answers`, all.length > 1 && ` at ${number(all.length)} times`, `, ${number(missing)} missing`,
    one.left > 0 && `; the first ${all.length} times are shown, ${number(one.left)} later answers are not`];
  return h("div", { class: "question" }, first && h("h3", { class: "survey" }, one.survey),
    h("p", {}, one.question, " ", h("span", { class: "note" }, one.form && `(${one.form}) `, counts)),
    one.uses.map((text) => h("p", { class: "note about" }, text)),
    all.length > 1 && overTimes(one), folded(answersTable(one), one.rows.length, "rows"));
}

/** The share of an option in percent; null if there is none. */
function shareOf(row, option) {
  const chosen = row.counts.reduce((sum, count) => sum + count, 0);
  return chosen ? (row.counts[option] / chosen) * 100 : null;
}

/** A chart of the shares of all, or of the mean of each group, over the times when the question was asked. */
function overTimes(one) {
  const times = [...new Set(one.rows.map(({ time }) => time))];
  const groups = [...new Set(one.rows.map(({ group }) => group))];
  const at = (group) => times.map((time) => one.rows.find((row) => row.time === time && row.group === group));
  if (one.options.length) {
    const series = one.options.map((name, index) => ({ name, colour: category(index), values: at("").map((row) => shareOf(row, index)) }));
    return chart(series, { times, height: 130, top: 100, dots: true, format: (value) => value.toFixed(0) + " %", legend: true });
  }
  if (!one.rows.some(({ mean }) => mean !== null)) return null;
  return chart(groups.map((name, index) => ({ name: name || "all", colour: category(index), values: at(name).map((row) => row ? row.mean : null) })),
    { times, height: 130, dots: true, legend: groups.length > 1 });
}

function answersTable(one) {
  const percents = one.options.map((name, index) => [
    h("span", {}, h("i", { class: "swatch", style: { background: `var(--${category(index)})` } }), name),
    (row) => { const share = shareOf(row, index); return share === null ? "" : share.toFixed(0) + " %"; }, true,
  ]);
  const numeric = one.rows.some(({ numbers }) => numbers > 0);
  return table([
    ["asked at", ({ time: when, group }) => group === "" ? time(when) : ""], ["group", ({ group }) => group || "all"],
    ["answers", ({ answers }) => number(answers), true],
    ["missing", ({ missing }) => h("span", { class: missing && "error" }, number(missing)), true],
    ...percents, ...(one.options.length ? [["", (row) => bar(...one.options.map((_, at) => [(shareOf(row, at) || 0) / 100, category(at)]))]] : []),
    ...(numeric ? [["mean", ({ mean }) => mean === null ? "" : number(mean), true]] : []),
  ], one.rows);
}

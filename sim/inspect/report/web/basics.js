// What the sections of the report have in common.

const DATA = JSON.parse(document.getElementById("data").textContent);
END = DATA.end;

/** A section of the page, with a link to it. */
function section(id, heading, note, ...body) {
  return h("section", { id }, h("div", { class: "head" }, h("h2", {}, heading), note && h("p", { class: "note" }, note)), body);
}

/** A part of a section, closed if it has more than 50 rows; the heading says how many. */
function folded(part, count, what) {
  return count > 50 ? h("details", { class: "long" }, h("summary", {}, `${number(count)} ${what}`), part) : part;
}

/** A table; a column is [heading, cell of a row, whether it is a number]. */
function table(columns, rows) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map(([name, , n]) => h("th", { class: n && "n" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, cell, n]) => h("td", { class: n && "n" }, cell(row))))))));
}

// The graph of messages or payments: a circle of agents or groups, and curves between them.

function circle(graph) {
  const size = 600, middle = size / 2, radius = 205;
  const groups = [...new Set(graph.nodes.map(({ group }) => group))];
  const colour = (node) => `var(--${category(groups.indexOf(node.group))})`;
  const traffic = graph.nodes.map(() => 0);
  for (const [from, to, count] of graph.edges) { traffic[from] += count; traffic[to] += count; }
  const most = Math.max(...graph.edges.map(([, , count]) => count), 1);
  const busiest = Math.max(...traffic, 1);
  const angle = (index) => (index / graph.nodes.length) * 2 * Math.PI - Math.PI / 2;
  const at = (index, away) => [middle + Math.cos(angle(index)) * away, middle + Math.sin(angle(index)) * away];
  const picture = s("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "graph of " + graph.name });

  const edges = graph.edges.slice().reverse().map(([from, to, count]) => {
    const weight = Math.sqrt(count / most);
    const [[x1, y1], [x2, y2]] = [at(from, radius), at(to, radius)];
    const [cx, cy] = [middle + (x1 + x2 - size) * 0.14, middle + (y1 + y2 - size) * 0.14];
    const [lx, ly] = at(from, radius - 60);
    const path = from === to
      ? `M${x1} ${y1}C${lx - 40} ${ly - 40} ${lx + 40} ${ly + 40} ${x1} ${y1}`
      : `M${x1} ${y1}Q${cx} ${cy} ${x2} ${y2}`;
    const element = s("path", {
      d: path, fill: "none", stroke: colour(graph.nodes[from]), "stroke-width": 0.8 + 5 * weight, "stroke-opacity": 0.16 + 0.5 * weight, "stroke-linecap": "round",
      onpointermove: (event) => showTip(event, `${graph.nodes[from].name} → ${graph.nodes[to].name}: ${number(count)}`), onpointerleave: hideTip,
    });
    return { from, to, element };
  });
  const light = (chosenNode) => edges.forEach(({ from, to, element }) =>
    element.setAttribute("visibility", chosenNode === null || from === chosenNode || to === chosenNode ? "visible" : "hidden"));

  picture.append(...edges.map(({ element }) => element));
  graph.nodes.forEach((node, index) => {
    const [x, y] = at(index, radius);
    const [tx, ty] = at(index, radius + 14);
    const turned = (angle(index) * 180) / Math.PI;
    const flipped = turned > 90;
    const name = node.name.length > 16 ? node.name.slice(0, 15) + "…" : node.name;
    const out = graph.edges.filter(([from]) => from === index).reduce((sum, [, , count]) => sum + count, 0);
    const into = graph.edges.filter(([, to]) => to === index).reduce((sum, [, , count]) => sum + count, 0);
    picture.append(s("g", {
      onpointermove: (event) => { light(index); showTip(event, `${node.name}\nsent ${number(out)}, received ${number(into)}`); },
      onpointerleave: () => { light(null); hideTip(); },
      onclick: () => openRow(node.name),
      style: { cursor: "pointer" },
    },
    s("circle", { cx: x, cy: y, r: 3.5 + 6.5 * Math.sqrt(traffic[index] / busiest), fill: colour(node), stroke: "var(--card)", "stroke-width": 1.5 }),
    s("text", {
      x: tx, y: ty + 4, "text-anchor": flipped ? "end" : "start", transform: `rotate(${flipped ? turned + 180 : turned} ${tx} ${ty})`, "font-size": graph.nodes.length > 40 ? 10 : 12,
    }, name)));
  });
  return h("div", { class: "chart" }, picture);
}

/** The graphs of a run, one at a time, with the busiest pairs beside it. */
section("graph", (graphs) => {
  const place = h("div", { class: "two" });
  const buttons = graphs.map((graph) => h("button", { type: "button", onclick: () => show(graph) }, graph.name));

  function show(graph) {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", graphs[index] === graph));
    const part = graph.nodes_left_out ? `the busiest ${graph.nodes.length} ` : "";
    const what = part + (graph.grouped ? "groups of agents, because there are many agents" : "agents");
    const note = `${counted(graph.total, graph.name.replace(/s$/, ""))} between ${number(graph.pairs)} ${things(graph.pairs, "pair")} of agents. The graph shows ${what}; a curve has the colour of the sender.` +
      (graph.left_out ? ` ${number(graph.left_out)} lighter curves are not drawn.` : "");
    place.replaceChildren(circle(graph), h("div", {}, h("p", { class: "note" }, note), table([
      ["from", ([from]) => graph.nodes[from].name], ["to", ([, to]) => graph.nodes[to].name], [graph.name, ([, , count]) => number(count), true],
    ], graph.edges.slice(0, 15))));
  }
  show(graphs[0]);
  return [null, graphs.length > 1 && h("div", { class: "choice" }, buttons), place];
});

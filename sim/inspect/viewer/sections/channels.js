// What was posted in channels.

section("channels", (channels) => ["click on one to read its latest posts", channels.map(({ name, total, posts }) =>
  h("details", { class: "conversation" },
    h("summary", {}, `${name} `, h("span", { class: "note" }, `${number(total)} posts${total > posts.length ? `, the latest ${posts.length} shown` : ""}`)),
    posts.map(({ time: at, author, text }) => spoken(at, author, text))))]);

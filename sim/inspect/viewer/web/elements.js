// All elements of a page are made with these functions. Text becomes text nodes, never markup.

/** The end of the run in simulated seconds, by which times are written. */
let END = 1;

/** Make an element. `given` can have attributes, handlers (`on...`) and `style` as an object. */
function h(tag, given, ...children) {
  return fill(document.createElement(tag), given, children);
}

/** As `h`, for SVG. */
function s(tag, given, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), given, children);
}

/** Text in which control and formatting characters, such as those that change the direction, are written as escapes. */
function visible(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => {
    if (sign === "\n" || sign === "\t") return sign;
    const code = sign.codePointAt(0).toString(16);
    return code.length <= 2 ? "\\x" + code.padStart(2, "0") : code.length <= 4 ? "\\u" + code.padStart(4, "0") : "\\U" + code.padStart(8, "0");
  });
}

function fill(element, given, children) {
  for (const [name, value] of Object.entries(given || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : typeof value === "string" ? visible(value) : value);
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return element;
}

/** A number in a readable form. */
function number(value) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1000 && size < 1e15) return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  return String(Number(value.toPrecision(4)));
}

/** A number of things in words: 1 agent, 2 agents. */
const counted = (count, what) => number(count) + " " + things(count, what);
const things = (count, what) => (count === 1 ? what : what + "s");

/** A number for an axis: 12k. */
function short(value) {
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return String(Number((value / unit).toPrecision(3))) + sign;
  }
  return String(Number(value.toPrecision(3)));
}

/** Simulated seconds as text, in the units of the run: 2d 04:30, 1h05m, 12.5s. */
function time(seconds, precise) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.floor(seconds + 1e-9);
  const two = (part) => String(part).padStart(2, "0");
  if (END >= 172800) {
    const clock = two(Math.floor((whole % 86400) / 3600)) + ":" + two(Math.floor((whole % 3600) / 60));
    return Math.floor(whole / 86400) + "d " + clock + (precise ? ":" + two(whole % 60) : "");
  }
  if (END >= 3600) return Math.floor(whole / 3600) + "h" + two(Math.floor((whole % 3600) / 60)) + "m" +
    (precise || END < 21600 ? two(whole % 60) + "s" : "");
  if (END >= 120) return Math.floor(whole / 60) + "m" + two(whole % 60) + "s";
  return String(Number(seconds.toFixed(END < 2 ? 4 : 2))) + "s";
}

/** A duration as text. */
function lasting(seconds) {
  if (seconds >= 86400) return number(Number((seconds / 86400).toPrecision(3))) + " d";
  if (seconds >= 3600) return number(Number((seconds / 3600).toPrecision(3))) + " h";
  if (seconds >= 60) return number(Number((seconds / 60).toPrecision(3))) + " min";
  return number(Number(seconds.toPrecision(3))) + " s";
}

const money = (value) => (value >= 100 || value === 0 ? number(Math.round(value * 100) / 100) : number(value));
const percent = (share) => (share * 100).toFixed(share < 0.0995 ? 1 : 0) + " %";
const category = (index) => `c${index % 13}`; // a name of the palette

const tip = h("div", { id: "tip", role: "status" });

/** Show a tooltip beside the pointer. */
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = "block";
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.min(event.clientY + 12, innerHeight - height - 6) + "px";
}

function hideTip() {
  tip.style.display = "none";
}

/** Call `draw(width)` now and when the width of the element changes. */
function whenSized(element, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width && width !== last) draw((last = width));
  }).observe(element);
}

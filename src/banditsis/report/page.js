"use strict";
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("features").textContent);

// --- The features table: only the rows of the current page become elements. ---

const maxLength = 120;
const isSelected = (i) => i < data.selected;
const hasInterval = (i) => data.low?.[i] != null; // unselected features have none
const count = (x) => x.toLocaleString("en");
const signed = (x, digits) => (x === null ? "" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits));

// P-values below 1e-308 underflow, so the page stores logarithms.
function formatPvalue(log10) {
  if (log10 === null) return "";
  if (log10 > -3) return (10 ** log10).toFixed(4);
  const exponent = Math.floor(log10);
  return `${(10 ** (log10 - exponent)).toFixed(1)}e${exponent}`.replace("-", "−");
}

// The tooltip shows the full name, and the search matches it.
function shorten(name) {
  const characters = name.length <= maxLength ? [] : [...name];
  if (characters.length <= maxLength) return name;
  const half = maxLength / 2;
  return `${characters.slice(0, half).join("")}…${characters.slice(1 - half).join("")}`;
}

const numbers = (label, values, format, kind = "number") =>
  ({ label, key: (i) => values[i], text: (i) => format(values[i]), kind });

const columns = [
  { label: "rank", key: (i) => i, text: (i) => count(i + 1), kind: "number" },
  { label: "feature", key: naturalKey, text: (i) => shorten(data.name[i]), kind: "name" },
  numbers("score", data.score, (x) => signed(x, 4)),
  data.low && {
    label: "95% interval",
    key: (i) => data.low[i] ?? null,
    text: (i) => (hasInterval(i) ? `${signed(data.low[i], 3)}\u00a0to ${signed(data.high[i], 3)}` : ""),
    kind: "number ends",
  },
  data.log10p && numbers("p-value", data.log10p, formatPvalue),
  { label: "score and interval", draw: drawForest, kind: "wide" },
  numbers("rows read", data.rows, count, "number minor"),
  {
    label: "outcome",
    key: (i) => (isSelected(i) ? Infinity : data.round[i]),
    text: (i) => (isSelected(i) ? "selected" : `dropped in round ${data.round[i]}`),
    kind: "text minor",
  },
  numbers("column", data.index, count, "number spare"),
].filter((column) => column);

// A small chart per row, on one scale for all rows.
const ends = data.score.concat(data.low || [], data.high || []);
const largest = ends.reduce((most, x) => Math.max(most, Math.abs(x || 0)), 0) || 1;
const zero = ends.some((x) => x < 0) ? 60 : 6;
const position = (x) => zero + ((114 - zero) * x) / largest;

function drawForest(cell, i) {
  if (data.score[i] === null) return;
  cell.append(byId("forest").content.cloneNode(true));
  const [axis, interval, dot] = cell.firstElementChild.children;
  const [low, high] = hasInterval(i) ? [data.low[i], data.high[i]] : [0, 0];
  for (const [line, from, to] of [[axis, 0, 0], [interval, low, high]]) {
    line.setAttribute("x1", position(from));
    line.setAttribute("x2", position(to));
  }
  dot.setAttribute("cx", position(data.score[i]));
}

const state = { sort: 0, descending: false, page: 0 };
const lowerNames = data.name.map((name) => name.toLowerCase());
let view = [];

// Sort x9 before x10. Comparing padded strings is faster than Intl.Collator.
function naturalKey(i) {
  return lowerNames[i].replace(/\d+/g, (digits) => digits.padStart(16, "0"));
}

// Ties stay in order of rank. Missing values come last in both directions.
function filterAndSort() {
  const query = byId("search").value.trim().toLowerCase();
  const last = byId("only").checked ? data.selected : data.index.length;
  view = [];
  for (let i = 0; i < last; i++) if (lowerNames[i].includes(query)) view.push(i);
  const sign = state.descending ? -1 : 1;
  const keys = new Map(view.map((i) => [i, columns[state.sort].key(i)]));
  view.sort((i, j) => {
    const [a, b] = [keys.get(i), keys.get(j)];
    if (a === null || b === null) return (a === null) - (b === null) || i - j;
    return (a < b ? -sign : a > b ? sign : 0) || i - j;
  });
  state.page = 0;
  show();
}

function makeRow(i) {
  const row = document.createElement("tr");
  if (!isSelected(i)) row.className = "dropped";
  for (const column of columns) {
    const cell = row.insertCell();
    cell.className = column.kind;
    if (column.draw) column.draw(cell, i);
    else cell.textContent = column.text(i);
    if (column.kind === "name" && cell.textContent !== data.name[i]) cell.title = data.name[i];
  }
  return row;
}

function show() {
  const size = Number(byId("size").value);
  const pages = Math.max(1, Math.ceil(view.length / size));
  state.page = Math.min(state.page, pages - 1);
  const first = state.page * size;
  const rows = view.slice(first, first + size).map(makeRow);
  byId("features-table").tBodies[0].replaceChildren(...rows);
  byId("shown").textContent = view.length
    ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(view.length)} features`
    : byId("search").value.trim() ? "no matching feature" : "no feature was selected";
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page === pages - 1;
}

function makeHead() {
  const row = byId("features-table").tHead.insertRow();
  columns.forEach((column, c) => {
    const head = document.createElement("th");
    head.scope = "col";
    head.className = column.kind;
    head.ariaLabel = column.label;
    row.append(head);
    if (column.draw) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.label;
    button.addEventListener("click", () => {
      sortBy(c, state.sort === c ? !state.descending : column.label === "score");
    });
    head.append(button);
  });
}

function sortBy(c, descending) {
  [state.sort, state.descending] = [c, descending];
  [...byId("features-table").tHead.rows[0].cells].forEach((head, k) => {
    head.ariaSort = k === c ? (descending ? "descending" : "ascending") : null;
  });
  filterAndSort();
}

byId("only-label").hidden = data.selected === data.index.length;
byId("search").addEventListener("input", filterAndSort);
byId("only").addEventListener("change", filterAndSort);
byId("size").addEventListener("change", show);
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  byId(id).addEventListener("click", () => {
    state.page += step;
    show();
  });
}
makeHead();
sortBy(0, false);
byId("found").hidden = false;

// --- Light and dark. ---

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const toggle = byId("theme");

function setTheme(theme) {
  root.dataset.theme = theme;
  const other = theme === "dark" ? "Light" : "Dark";
  toggle.textContent = other;
  toggle.ariaLabel = `Use ${other.toLowerCase()} colours`;
}

const followSystem = () => setTheme(system.matches ? "dark" : "light");
toggle.addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
system.addEventListener("change", followSystem);
followSystem();
toggle.hidden = false;

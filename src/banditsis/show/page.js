"use strict";

// --- The table of a response: only the rows of the current page become elements. ---

const MAX_LENGTH = 120;
const MARKS = { signal: "● ", unclear: "◇ ", unknown: "", leak: "▲ " };
const TITLES = {
  name: "feature", pvalue: "p", adjusted_pvalue: "adjusted p", associated: "evidence", rows_read: "rows read",
  round_dropped: "dropped in round", index: "column",
};
const HIDDEN = new Set(["high", "log10_pvalue", "log10_adjusted_pvalue"]); // part of other columns
const MINOR = new Set(["index", "rows_read", "round_dropped", "present", "adjusted_pvalue", "beta", "se", "flag"]); // not on a phone

const count = (x) => x.toLocaleString("en");
const signed = (x, digits) => (x === null ? "" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits));

// As format_pvalue of Python: by logarithms, as p-values below 1e-308 underflow; -1e308 is that of 0.
function formatPvalue(log10) {
  if (log10 === null) return "";
  if (log10 <= -1e308) return "<1e−300";
  const twoDigits = (x) => String(Number(x.toPrecision(2)));
  if (log10 > -4) return twoDigits(10 ** log10);
  const exponent = Math.floor(log10), digits = twoDigits(10 ** (log10 - exponent));
  return (digits === "10" ? `1e${exponent + 1}` : `${digits}e${exponent}`).replace("-", "−");
}

// The tooltip shows the full name, and the search matches it.
function shorten(name) {
  const characters = name.length <= MAX_LENGTH ? [] : [...name];
  if (characters.length <= MAX_LENGTH) return name;
  const half = MAX_LENGTH / 2;
  return `${characters.slice(0, half).join("")}…${characters.slice(1 - half).join("")}`;
}

function formatValue(x) {
  if (x === null) return "";
  if (typeof x !== "number") return String(x);
  return Number.isInteger(x) ? count(x) : String(Number(x.toPrecision(4))).replace("-", "−");
}

function makeSpan(text) {
  const span = document.createElement("span");
  span.textContent = text;
  return span;
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class FeatureTable {
  constructor(article, data) {
    this.find = (name) => article.querySelector(`.${name}`);
    this.values = data.columns;
    this.selected = data.selected;
    this.oneSided = data.one_sided;
    this.words = data.words;
    this.evidence = data.evidence;
    this.length = data.columns.index.length;
    this.lowerNames = data.columns.name.map((name) => name.toLowerCase());
    this.table = document.createElement("table");
    this.table.className = "list";
    this.table.append(document.createElement("thead"), document.createElement("tbody"));
    this.find("features").replaceChildren(this.table);
    this.page = 0;
    this.listen();
    this.makeColumns();
    this.sortBy(this.columns[0], false);
    for (const name of ["controls", "pager"]) this.find(name).hidden = false;
  }

  listen() {
    this.find("only-label").hidden = this.selected === this.length;
    this.find("search").addEventListener("input", () => this.filterAndSort());
    this.find("only").addEventListener("change", () => this.makeColumns());
    this.find("size").addEventListener("change", () => this.show());
    this.find("download").addEventListener("click", () => this.download());
    for (const [name, step] of [["previous", -1], ["next", 1]]) {
      this.find(name).addEventListener("click", () => {
        this.page += step;
        this.show();
      });
    }
  }

  // Columns without a value are left out, and so is the round if only selected features are shown.
  makeColumns() {
    const only = this.find("only").checked;
    const last = only ? this.selected : this.length;
    const filled = (name) => {
      if (HIDDEN.has(name) || (name === "round_dropped" && only)) return false;
      for (let i = 0; i < last; i++) if (this.values[name][i] !== null && this.values[name][i] !== "") return true;
      return false;
    };
    this.columns = Object.keys(this.values).filter(filled).map((name) => this.describe(name));
    this.columns = this.columns.length ? this.columns : ["rank", "name"].map((name) => this.describe(name));
    this.makeHead();
    this.sortBy(this.columns.find((column) => column.name === this.sort?.name) || this.columns[0], this.descending);
  }

  describe(name) {
    const values = this.values[name];
    const column = {
      name, title: TITLES[name] || name.replaceAll("_", " "), key: (i) => values[i],
      text: (i) => formatValue(values[i]), kind: MINOR.has(name) ? "minor" : "",
    };
    const log10 = (i) => this.values[`log10_${name}`][i];
    const isSelected = (i) => i < this.selected;
    const changes = {
      name: { key: (i) => this.naturalKey(i), text: (i) => shorten(values[i]), kind: "name" },
      score: { text: (i) => (this.oneSided ? signed(values[i], 4).replace("+", "") : signed(values[i], 4)) },
      low: {
        title: "95% interval",
        text: (i) => (values[i] === null ? "" : `${signed(values[i], 3)}\u00a0to ${signed(this.values.high[i], 3)}`),
        kind: "ends",
      },
      pvalue: { key: log10, text: (i) => formatPvalue(log10(i)) },
      adjusted_pvalue: { key: log10, text: (i) => formatPvalue(log10(i)) },
      associated: {
        key: (i) => (isSelected(i) ? Number(!values[i]) : 2),
        text: () => "", kind: "evidence",
      },
      round_dropped: { text: (i) => (values[i] ? count(values[i]) : "") },
      flag: { kind: "flag minor" },
    };
    return Object.assign(column, changes[name]);
  }

  // Sort x9 before x10. Comparing padded strings is faster than Intl.Collator.
  naturalKey(i) {
    return this.lowerNames[i].replace(/\d+/g, (digits) => digits.padStart(16, "0"));
  }

  makeHead() {
    const row = document.createElement("tr");
    for (const column of this.columns) {
      const head = document.createElement("th");
      head.scope = "col";
      head.className = column.kind;
      head.ariaLabel = column.title;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = column.title;
      button.addEventListener("click", () => {
        this.sortBy(column, this.sort === column ? !this.descending : column.name === "score");
      });
      head.append(button);
      row.append(head);
    }
    this.table.tHead.replaceChildren(row);
  }

  sortBy(column, descending = false) {
    [this.sort, this.descending] = [column, descending];
    this.columns.forEach((other, k) => {
      const order = descending ? "descending" : "ascending";
      this.table.tHead.rows[0].cells[k].ariaSort = other === column ? order : null;
    });
    this.filterAndSort();
  }

  // Ties stay in order of rank. Missing values come last in both directions.
  filterAndSort() {
    const query = this.find("search").value.trim().toLowerCase();
    const last = this.find("only").checked ? this.selected : this.length;
    const view = [];
    for (let i = 0; i < last; i++) if (this.lowerNames[i].includes(query)) view.push(i);
    const sign = this.descending ? -1 : 1;
    const keys = new Map(view.map((i) => [i, this.sort.key(i)]));
    view.sort((i, j) => {
      const [a, b] = [keys.get(i), keys.get(j)];
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return (a < b ? -sign : a > b ? sign : 0) || i - j;
    });
    [this.view, this.page] = [view, 0];
    this.show();
  }

  makeRow(i) {
    const row = document.createElement("tr");
    if (i >= this.selected) row.className = "dropped";
    else row.className = this.evidence[i];
    for (const column of this.columns) {
      const cell = row.insertCell();
      cell.className = column.kind;
      this.fill(cell, column, i);
    }
    return row;
  }

  // A phone shows only three lines of a name.
  fill(cell, column, i) {
    if (column.name === "name") {
      cell.append(makeSpan(column.text(i)));
      if (cell.textContent !== this.values.name[i]) cell.title = this.values.name[i];
    } else if (column.name === "associated" && i < this.selected) {
      cell.append(MARKS[this.evidence[i]], makeSpan(this.words[i]));
    } else {
      cell.textContent = column.text(i);
    }
  }

  show() {
    const size = Number(this.find("size").value);
    const pages = Math.max(1, Math.ceil(this.view.length / size));
    this.page = Math.min(this.page, pages - 1);
    const first = this.page * size;
    const rows = this.view.slice(first, first + size).map((i) => this.makeRow(i));
    this.table.tBodies[0].replaceChildren(...rows);
    this.find("shown").textContent = this.view.length
      ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(this.view.length)} features`
      : this.find("search").value.trim() ? "no matching feature" : "no feature was selected";
    this.find("previous").disabled = this.page === 0;
    this.find("next").disabled = this.page === pages - 1;
    this.find("download").disabled = !this.view.length;
  }

  // All columns of the features that match the search, in the order shown.
  csv() {
    const names = Object.keys(this.values);
    const quote = (x) => (/[",\r\n]/.test(x) ? `"${x.replaceAll('"', '""')}"` : x);
    const text = (x) => (x === null ? "" : x === true ? "True" : x === false ? "False" : quote(String(x)));
    const lines = this.view.map((i) => names.map((name) => text(this.values[name][i])).join(","));
    return [names.join(","), ...lines, ""].join("\n");
  }

  download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    link.download = "features.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

// --- One response at a time. ---

const articles = [...document.querySelectorAll(".response")];
const made = new Set();

async function open(article) {
  for (const other of articles) other.classList.toggle("closed", other !== article);
  for (const link of document.querySelectorAll(".overview a")) {
    if (link.hash === `#${article.id}`) link.ariaCurrent = "true";
    else link.ariaCurrent = null;
  }
  if (made.has(article)) return;
  made.add(article);
  new FeatureTable(article, await unpack(article.querySelector(".data").textContent));
  document.documentElement.dataset.ready = made.size;
}

function follow() {
  const chosen = articles.find((article) => `#${article.id}` === location.hash);
  open(chosen || articles.find((article) => made.has(article) && !article.classList.contains("closed")) || articles[0]);
  chosen?.scrollIntoView();
}

addEventListener("hashchange", follow);
follow();

// --- Light and dark. ---

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const toggle = document.getElementById("theme");

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

"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("features").textContent);
  const total = data.index.length;

  // --- The table: all features stay in arrays; only the lines of one page become elements. ---

  const signed = (x, digits) => (x === null ? "" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits));
  // From logarithms, since p-values far below 1e-300 are no numbers in a browser.
  function power(log10) {
    if (log10 === null) return "";
    if (log10 > -3) return (10 ** log10).toFixed(4);
    const exponent = Math.floor(log10);
    return `${(10 ** (log10 - exponent)).toFixed(1)}e${exponent}`.replace("-", "−");
  }
  // The middle of a long name is left out; its tooltip has it whole, and the search finds it.
  const longest = 120;
  function shorten(name) {
    if (name.length <= longest) return name;
    const signs = [...name];
    const half = longest / 2;
    return signs.length <= longest ? name : `${signs.slice(0, half).join("")}…${signs.slice(1 - half).join("")}`;
  }
  const count = (x) => x.toLocaleString("en");
  const isSelected = (i) => i < data.selected;
  const columns = [
    { label: "rank", key: (i) => i, text: (i) => count(i + 1), kind: "number" },
    { label: "feature", key: (i) => naturalKey(i), text: (i) => shorten(data.name[i]), whole: (i) => data.name[i], kind: "name" },
    { label: "score", key: (i) => data.score[i], text: (i) => signed(data.score[i], 4), kind: "number" },
  ];
  if (data.low) {
    const within = (i) => isSelected(i) && data.low[i] !== null;
    columns.push({
      label: "95% interval",
      key: (i) => (within(i) ? data.low[i] : null),
      text: (i) => (within(i) ? `${signed(data.low[i], 3)}\u00a0to ${signed(data.high[i], 3)}` : ""),
      kind: "number ends",
    });
  }
  if (data.log10p) {
    columns.push({ label: "p-value", key: (i) => data.log10p[i], text: (i) => power(data.log10p[i]), kind: "number" });
  }
  columns.push(
    { label: "picture", draw: drawForest, kind: "wide" },
    { label: "rows read", key: (i) => data.rows[i], text: (i) => count(data.rows[i]), kind: "number minor" },
    {
      label: "outcome",
      key: (i) => (isSelected(i) ? Infinity : data.round[i]),
      text: (i) => (isSelected(i) ? "selected" : `dropped in round ${data.round[i]}`),
      kind: "text minor",
    },
    { label: "column", key: (i) => data.index[i], text: (i) => count(data.index[i]), kind: "number spare" },
  );

  // Where 0 and the largest values lie in the pictures.
  const ends = data.score.concat(data.low || [], data.high || []);
  const reach = ends.reduce((most, x) => Math.max(most, Math.abs(x || 0)), 0) || 1;
  const hasSigns = ends.some((x) => x < 0);
  const place = (x) => (hasSigns ? 60 + (54 * x) / reach : 6 + (108 * x) / reach);

  const svgNamespace = document.querySelector(".chart").namespaceURI;

  function shape(name, attributes) {
    const element = document.createElementNS(svgNamespace, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  function drawForest(cell, i) {
    if (data.score[i] === null) return;
    const svg = shape("svg", { class: "forest", viewBox: "0 0 120 18", "aria-hidden": "true" });
    svg.append(shape("line", { class: "zero", x1: place(0), x2: place(0), y1: 0, y2: 18 }));
    if (data.low && isSelected(i) && data.low[i] !== null) {
      const line = { class: "interval", x1: place(data.low[i]), x2: place(data.high[i]), y1: 9, y2: 9 };
      svg.append(shape("line", line));
    }
    svg.append(shape("circle", { cx: place(data.score[i]), cy: 9, r: 3.2 }));
    cell.append(svg);
  }

  const state = { sort: 0, down: false, page: 0 };
  const lowered = data.name.map((name) => name.toLowerCase());
  const naturalKeys = [];
  let view = [];

  // Numbers in names count as numbers: x9 before x10. Plain strings sort faster than by Intl.
  function naturalKey(i) {
    return (naturalKeys[i] ??= lowered[i].replace(/\d+/g, (digits) => digits.padStart(16, "0")));
  }

  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  // Ties keep the order of rank; what is unknown comes last either way.
  function arrange() {
    const query = byId("search").value.trim().toLowerCase();
    const last = byId("only").checked ? data.selected : total;
    view = [];
    for (let i = 0; i < last; i++) if (lowered[i].includes(query)) view.push(i);
    const { key } = columns[state.sort];
    const sign = state.down ? -1 : 1;
    const keys = new Map(view.map((i) => [i, key(i)]));
    if (state.sort > 0 || state.down) {
      view.sort((i, j) => {
        const a = keys.get(i);
        const b = keys.get(j);
        if (a === null || b === null) return (a === null) - (b === null) || i - j;
        return sign * compare(a, b) || i - j;
      });
    }
    state.page = 0;
    show();
  }

  function show() {
    const size = Number(byId("size").value);
    const pages = Math.max(1, Math.ceil(view.length / size));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * size;
    const rows = view.slice(first, first + size).map((i) => {
      const row = document.createElement("tr");
      if (!isSelected(i)) row.className = "dropped";
      for (const column of columns) {
        const cell = row.insertCell();
        cell.className = column.kind;
        if (column.draw) column.draw(cell, i);
        else cell.textContent = column.text(i);
        if (column.whole && column.whole(i) !== cell.textContent) cell.title = column.whole(i);
      }
      return row;
    });
    byId("features-table").tBodies[0].replaceChildren(...rows);
    byId("shown").textContent = view.length
      ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(view.length)} features`
      : byId("search").value.trim() ? "no feature has such a name" : "no feature was selected";
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
  }

  function makeHead() {
    const row = byId("features-table").tHead.insertRow();
    columns.forEach((column, c) => {
      const head = document.createElement("th");
      head.scope = "col";
      head.className = column.kind;
      row.append(head);
      if (!column.key) {
        head.textContent = "";
        head.setAttribute("aria-label", column.label);
        return;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.dataset.label = column.label;
      head.append(button);
      button.addEventListener("click", () => {
        state.down = state.sort === c ? !state.down : c === 2;
        state.sort = c;
        markSorted();
        arrange();
      });
    });
    markSorted();
  }

  function markSorted() {
    [...byId("features-table").tHead.rows[0].cells].forEach((head, c) => {
      if (c === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function turn(by) {
    state.page += by;
    show();
  }

  byId("only-label").hidden = data.selected === total;
  byId("search").addEventListener("input", arrange);
  byId("only").addEventListener("change", arrange);
  byId("size").addEventListener("change", show);
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  makeHead();
  arrange();
  byId("found").hidden = false;

  // --- Texts of the marks in the charts, by pointer and by keyboard. ---

  const tip = byId("tip");

  function showTip(mark, x, y) {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  }

  function showTipAt(mark) {
    const box = mark.lastElementChild.getBoundingClientRect();
    showTip(mark, box.left, box.bottom - 10);
  }

  const hideTip = () => (tip.hidden = true);

  // Listeners are on the figure: one for focus on the SVG itself would make it a stop of the Tab key.
  for (const chart of document.querySelectorAll("figure")) {
    const marks = [...chart.querySelectorAll(".mark")];
    marks[0].setAttribute("tabindex", "0");
    chart.addEventListener("pointermove", (event) => {
      const mark = event.target.closest(".mark");
      if (mark) showTip(mark, event.clientX, event.clientY);
      else hideTip();
    });
    chart.addEventListener("pointerleave", hideTip);
    chart.addEventListener("focusout", hideTip);
    chart.addEventListener("focusin", (event) => {
      const mark = event.target.closest(".mark");
      for (const other of marks) other.setAttribute("tabindex", other === mark ? "0" : "-1");
      showTipAt(mark);
    });
    chart.addEventListener("keydown", (event) => {
      const moves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
      if (event.key === "Escape") hideTip();
      if (!(event.key in moves)) return;
      event.preventDefault();
      const next = marks.indexOf(document.activeElement) + moves[event.key];
      marks[Math.max(0, Math.min(marks.length - 1, next))].focus();
    });
  }

  // Moving to a mark by keyboard may scroll the page: its text goes along.
  addEventListener("scroll", () => {
    const mark = document.activeElement.closest(".mark");
    if (mark && !tip.hidden) showTipAt(mark);
    else hideTip();
  }, { passive: true });

  // --- Light and dark. ---

  const toggle = byId("theme");
  const isDark = () => getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);

  function nameToggle() {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Show in ${isDark() ? "light" : "dark"} colours`);
  }

  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameToggle();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameToggle);
  nameToggle();
  toggle.hidden = false;
})();

// A table that sorts by any column; with `choose`, each row has a checkbox.

import { el, fill } from "./dom.js";

const FIRST_ROWS = 25;

export class SortedTable {
  // columns: {name, title, show(row) -> text or Node, value(row), words}; choose(row, on): rows can be selected.
  constructor(host, { caption, columns, label, choose = null, chosen = () => false }) {
    Object.assign(this, { host, caption, columns, label, choose, chosen, rows: [], by: null, down: false, all: false });
  }

  set(rows, columns = this.columns) {
    this.rows = rows;
    this.columns = columns;
    this.draw();
  }

  draw() {
    const head = this.columns.map((column) => this.heading(column));
    if (this.choose) head.unshift(el("th", { scope: "col" }, "select"));
    const sorted = this.sorted();
    const body = (this.all ? sorted : sorted.slice(0, FIRST_ROWS)).map((row) => this.row(row));
    if (body.length < sorted.length) body.push(this.more(sorted.length));
    fill(this.host, el("caption", { class: "hint" }, this.caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  }

  more(count) {
    const press = () => {
      this.all = true;
      this.draw();
      this.host.querySelectorAll("tbody tr")[FIRST_ROWS]?.querySelector("input, button, a")?.focus();
    };
    return el("tr", {}, el("td", { colspan: this.columns.length + 1 }, el("button", { type: "button", "data-more": true, onclick: press }, `Show all ${count}`)));
  }

  heading(column) {
    const sort = this.by === column.name ? (this.down ? "descending" : "ascending") : null;
    const mark = sort ? (this.down ? " ▾" : " ▴") : "";
    const press = () => {
      this.down = this.by === column.name && !this.down;
      this.by = column.name;
      this.draw();
      this.host.querySelector(`th button[data-column="${CSS.escape(column.name)}"]`)?.focus();
    };
    return el("th", { scope: "col", "aria-sort": sort }, el("button", { type: "button", "data-column": column.name, onclick: press }, column.title + mark));
  }

  sorted() {
    const column = this.columns.find((one) => one.name === this.by);
    if (!column) return this.rows;
    const order = [...this.rows].sort((a, b) => compare(column.value(a), column.value(b)));
    return this.down ? order.reverse() : order;
  }

  row(row) {
    const cells = this.columns.map((column) => el("td", { class: column.words ? "words" : null }, column.show(row)));
    if (this.choose) {
      const box = el("input", { type: "checkbox", checked: this.chosen(row), "aria-label": `Select ${this.label(row)}`,
        onchange: (event) => this.choose(row, event.target.checked) });
      cells.unshift(el("td", {}, box));
    }
    return el("tr", {}, ...cells);
  }
}

function compare(a, b) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(a) || empty(b)) return Number(empty(a)) - Number(empty(b));
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

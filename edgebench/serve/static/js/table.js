// A table that sorts by any column, with a box to choose rows where asked.

import { el, fill } from "./dom.js";

export class SortedTable {
  // columns: {name, title, show(row) -> text or Node, value(row), words}; choose(row, on) makes boxes.
  constructor(host, { caption, columns, label, choose = null, chosen = () => false }) {
    Object.assign(this, { host, caption, columns, label, choose, chosen, rows: [], by: null, down: false });
  }

  set(rows, columns = this.columns) {
    this.rows = rows;
    this.columns = columns;
    this.draw();
  }

  draw() {
    const head = this.columns.map((column) => this.heading(column));
    if (this.choose) head.unshift(el("th", { scope: "col" }, "choose"));
    const body = this.sorted().map((row) => this.row(row));
    fill(this.host, el("caption", { class: "hint" }, this.caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
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
      const box = el("input", { type: "checkbox", checked: this.chosen(row), "aria-label": `Choose ${this.label(row)}`,
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

// The whole machine: total, available, used, used %, active.

import { byId, setFigures } from "./dom.js";
import { bytes, MIB, percent } from "./format.js";
import { Chart } from "./chart.js";

// The columns of the server's rows (edgebench/serve/live.py, system_row).
const [T, TOTAL, AVAILABLE, USED, SHARE, ACTIVE, SWAP, CPU] = [0, 1, 2, 3, 4, 5, 6, 7];
const KEPT = 600;

export class SystemChart {
  constructor() {
    this.rows = [];
    this.chart = null;
  }

  replace(rows) {
    this.rows = rows;
    this.draw();
  }

  add(rows) {
    this.rows = [...this.rows, ...rows].slice(-KEPT);
    this.draw();
  }

  draw() {
    const last = this.rows.at(-1);
    if (!last || byId("live").hidden) return;
    setFigures(byId("system-figures"), [
      ["total", bytes(last[TOTAL])],
      ["available", bytes(last[AVAILABLE])],
      ["used", bytes(last[USED])],
      ["used %", percent(last[SHARE])],
      ["active", bytes(last[ACTIVE])],
      ["swap used", bytes(last[SWAP])],
      ["CPU, all cores", percent(last[CPU])],
    ]);
    this.chart ??= new Chart(byId("system-chart"), {
      title: "The machine's memory", y: "MiB", xLabel: "seconds ago",
      lines: [
        { label: "used", colour: "--c1", direct: "used" },
        { label: "active", colour: "--c3", direct: "active" },
        { label: "available", colour: "--c2", dash: [6, 4], direct: "available" },
      ],
    });
    const column = (index) => this.rows.map((row) => (row[index] === null ? null : row[index] / MIB));
    const ago = this.rows.map((row) => row[T] - last[T]);
    this.chart.set([ago, column(USED), column(ACTIVE), column(AVAILABLE)], `${bytes(last[USED])} used of ${bytes(last[TOTAL])}`);
  }
}

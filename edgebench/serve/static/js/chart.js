// uPlot with this page's colours, that follows its box and says in words what it shows.

import { el } from "./dom.js";

const charts = new Set();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function redrawAll() {
  for (const chart of charts) chart.redraw();
}

export class Chart {
  // lines: {label, colour: "--c1", dash, fill, points, scale}; y: axis label; xLabel; scales (uPlot's).
  constructor(host, { title, lines, y, xLabel = "seconds", scales = {}, height = 240, spanGaps = true, legend = true }) {
    this.title = title;
    this.box = el("div", { role: "img", "aria-label": title });
    host.replaceChildren(el("figure", { class: "chart" }, el("figcaption", {}, title), this.box));
    const axis = (label, extra = {}) => ({
      label, labelSize: 20, stroke: () => colour("--dim"), font: "12px system-ui", labelFont: "12px system-ui",
      grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1 }, ...extra,
    });
    const options = {
      width: this.width(), height,
      scales: { x: { time: false }, ...scales },
      axes: [axis(xLabel), axis(y, { size: 60 })],
      series: [{ label: xLabel }, ...lines.map((line) => series(line, spanGaps))],
      legend: { show: legend, live: true },
      cursor: { drag: { x: true, y: false } },
    };
    this.plot = new window.uPlot(options, [[], ...lines.map(() => [])], this.box);
    this.height = height;
    this.watcher = new ResizeObserver(() => this.plot.setSize({ width: this.width(), height }));
    this.watcher.observe(this.box);
    charts.add(this);
  }

  width() {
    return Math.max(240, this.box.clientWidth || 600);
  }

  set(columns, words) {
    this.plot.setData(columns);
    // Where nobody points at the chart, its legend tells what came last (once uPlot has drawn).
    queueMicrotask(() => {
      if (!(this.plot.cursor.left >= 0)) this.plot.setLegend({ idxs: columns.map(lastTold) });
    });
    if (words) this.box.setAttribute("aria-label", `${this.title}: ${words}`);
  }

  redraw() {
    this.plot.redraw(false);
  }

  close() {
    this.watcher.disconnect();
    this.plot.destroy();
    charts.delete(this);
  }
}

const lastTold = (column) => column.findLastIndex((value) => value !== null && value !== undefined);

function series({ label, colour: name, dash, fill, points, width = 1.6 }, spanGaps) {
  const stroke = () => colour(name);
  const value = (_, shown) => (shown === null || shown === undefined ? "–" : shown.toLocaleString("en", { maximumSignificantDigits: 4 }));
  const made = { label, stroke, width, dash, spanGaps, value, points: { show: false } };
  if (fill) made.fill = () => `${colour(name)}33`;
  if (points) return { ...made, paths: () => null, points: { show: true, size: 7, stroke, fill: stroke } };
  return made;
}

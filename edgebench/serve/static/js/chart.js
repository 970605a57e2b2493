// uPlot in this page's colours; it fits its box, labels its lines, and has a text for screen readers.

import { el } from "./dom.js";
import { linearMib, mibLabel } from "./ticks.js";

const charts = new Set();
const FONT = "12px system-ui, sans-serif";
const LABEL_GAP = 15;

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function redrawAll() {
  for (const chart of charts) chart.redraw();
}

export class Chart {
  // lines: {label, colour: "--c1", dash, fill, points, direct}; y: axis label, "MiB" gets round values; scales, axes, draw: uPlot's.
  constructor(host, { title, lines, y, xLabel = "seconds", scales = {}, axes = [{}, {}], bands = [], draw = null, height = 240, spanGaps = true, legend = true, caption = true }) {
    this.title = title;
    this.box = el("div", { role: "img", "aria-label": title });
    host.replaceChildren(el("figure", { class: "chart" }, caption ? el("figcaption", {}, title) : null, this.box));
    const axis = (label, extra) => ({
      label, labelSize: 22, stroke: () => colour("--dim"), font: FONT, labelFont: FONT,
      grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1 }, ...extra,
    });
    const memory = y === "MiB" ? { splits: (plot, __, low, high) => linearMib(low, high, plot.height < 200 ? 3 : 6), values: (_, splits) => splits.map(withUnit) } : {};
    const fromZero = y === "MiB" && !scales.y ? { y: { range: (_, __, high) => [0, Math.max(1, high * 1.12)] } } : {};
    const options = {
      width: this.width(), height,
      scales: { x: { time: false }, ...fromZero, ...scales },
      axes: [axis(xLabel, { size: 34, ...axes[0] }), axis(y === "MiB" ? "memory" : y, { size: 72, ...memory, ...axes[1] })],
      series: [{ label: xLabel }, ...lines.map((line) => series(line, spanGaps, y))],
      bands, legend: { show: legend, live: true },
      cursor: { drag: { x: true, y: false } },
      hooks: { draw: [(plot) => labelLines(plot, lines), ...(draw ? [draw] : [])] },
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
    // While no pointer is over the chart, its legend shows the last values (once uPlot has drawn).
    queueMicrotask(() => {
      if (!(this.plot.cursor.left >= 0)) this.plot.setLegend({ idxs: columns.map(lastKnown) });
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

// Names at the lines' ends, moved apart where they would meet.
function labelLines(plot, lines) {
  const ratio = window.devicePixelRatio || 1;
  const { left, top, width } = plot.bbox;
  const ends = lines.map((line, at) => [line, plot.data[at + 1]]).filter(([line]) => line.direct).flatMap(([line, values]) => {
    const last = lastKnown(values);
    return last < 0 ? [] : [{ line, y: plot.valToPos(values[last], "y", true) - 5 * ratio }];
  });
  let below = -Infinity;
  plot.ctx.save();
  plot.ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  plot.ctx.textAlign = "right";
  for (const end of ends.sort((a, b) => a.y - b.y)) {
    below = Math.max(end.y, below + LABEL_GAP * ratio, top + 11 * ratio);
    drawText(plot.ctx, end.line.direct, left + width - 5 * ratio, below, end.line.colour);
  }
  plot.ctx.restore();
}

// Text that stays readable over lines.
export function drawText(context, words, x, y, name) {
  context.lineWidth = 3 * (window.devicePixelRatio || 1);
  context.lineJoin = "round";
  context.strokeStyle = colour("--card");
  context.strokeText(words, x, y);
  context.fillStyle = colour(name);
  context.fillText(words, x, y);
}

const lastKnown = (column) => column.findLastIndex((value) => value !== null && value !== undefined);

const withUnit = (mib) => (mib === 0 ? "0" : mib >= 1024 ? mibLabel(mib) : `${mibLabel(mib)} MiB`);

function series({ label, colour: name, dash, fill, points, width = 1.8 }, spanGaps, y) {
  const stroke = () => colour(name);
  const value = (_, shown) => (shown === null || shown === undefined ? "–" : y === "MiB" ? withUnit(shown) : shown.toLocaleString("en", { maximumSignificantDigits: 4 }));
  const made = { label, stroke, width, dash, spanGaps, value, points: { show: false } };
  if (fill) made.fill = () => `${colour(name)}33`;
  if (points) return { ...made, paths: () => null, points: { show: true, size: 9, stroke, fill: stroke } };
  return made;
}

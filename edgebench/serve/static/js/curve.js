// The answer's chart: slowdown against limit, measured and predicted, with demand, kills and the chosen limit.

import { Chart, colour, drawText } from "./chart.js";
import { el } from "./dom.js";
import { MIB } from "./format.js";
import { logMib, logTimes, mibLabel } from "./ticks.js";
import { times } from "./words.js";

const TICK_PX = 58;

// measured: [{limit_bytes, low, median, high}]; killed: [bytes]; predicted: [{limit_bytes, slowdown, low, high}];
// demand: bytes or null; pick(mib): a click on the chart.
export class Curve {
  constructor(host, { measured, killed, predicted, demand, pick }) {
    Object.assign(this, { measured, killed, demand, chosen: null });
    const xs = [...measured.map((one) => one.limit_bytes), ...killed, ...predicted.map((one) => one.limit_bytes), ...(demand ? [demand] : [])].map((x) => x / MIB);
    const ys = [1, ...measured.flatMap((one) => [one.median, ...(one.high && one.high < one.median * 20 ? [one.high] : [])]), ...predicted.flatMap((one) => [one.slowdown, one.high ?? 1])];
    const [low, high] = [Math.min(...xs) / 1.06, Math.max(...xs) * 1.06];
    const most = Math.max(1.5, Math.max(...ys) * 1.35);
    this.chart = new Chart(host, {
      title: "Slowdown against memory limit", caption: false, y: "slowdown", xLabel: "memory limit, MiB", height: 340, legend: false,
      scales: {
        x: { time: false, distr: 3, log: 2, range: () => [low, high] },
        y: { distr: 3, log: 10, range: () => [0.85, most] },
      },
      axes: [
        { splits: (plot) => logMib(low, high, Math.max(3, Math.floor(plot.bbox.width / devicePixelRatio / TICK_PX))), filter: (_, splits) => splits, values: (_, splits) => splits.map(mibLabel) },
        { splits: () => logTimes(0.95, most), filter: (_, splits) => splits, values: (_, splits) => splits.map((value) => `×${value}`) },
      ],
      bands: [{ series: [3, 2], fill: () => `${colour("--c1")}2b` }],
      lines: [
        { label: "predicted", colour: "--c1", width: 2.4 },
        { label: "low", colour: "--c1", width: 0 },
        { label: "high", colour: "--c1", width: 0 },
      ],
      draw: (plot) => this.overlay(plot),
    });
    const band = predicted.length ? "; line: predicted, band: where 90 % of trials are expected" : "";
    host.append(el("p", { class: "hint" }, `Dots: measured, the bar from the repeats' spread${band}. Click the chart to choose a limit.`));
    this.chart.plot.over.addEventListener("click", ({ offsetX }) => pick(this.chart.plot.posToVal(offsetX, "x") * MIB));
    const x = predicted.length ? predicted.map((one) => one.limit_bytes / MIB) : measured.map((one) => one.limit_bytes / MIB);
    const of = (name) => (predicted.length ? predicted.map((one) => one[name]) : x.map(() => null));
    this.chart.set([x, of("slowdown"), of("low"), of("high")], this.words(predicted));
  }

  choose(bytes) {
    this.chosen = bytes;
    this.chart.redraw();
  }

  close() {
    this.chart.close();
  }

  // For screen readers: all that is drawn.
  words(predicted) {
    const points = this.measured.map((one) => `${mibLabel(Math.round(one.limit_bytes / MIB))} MiB ${times(one.median)}`);
    const model = predicted.length ? `; predicted from ${times(predicted[0].slowdown)} at the tightest limit to ${times(predicted.at(-1).slowdown)} at the widest` : "";
    const kills = this.killed.length ? `; killed at ${this.killed.map((one) => `${Math.round(one / MIB)} MiB`).join(", ")}` : "";
    return `measured: ${points.join(", ") || "no limit"}${model}${kills}`;
  }

  overlay(plot) {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    const at = (bytes) => plot.valToPos(bytes / MIB, "x", true);
    const up = (factor) => Math.max(bbox.top, Math.min(bbox.top + bbox.height, plot.valToPos(factor, "y", true)));
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    if (this.chosen) upright(ctx, at(this.chosen), bbox, ratio, "--accent", []);
    if (this.demand) {
      upright(ctx, at(this.demand), bbox, ratio, "--c3", [5, 4]);
      const right = at(this.demand) > bbox.left + bbox.width / 2;
      ctx.textAlign = right ? "right" : "left";
      drawText(ctx, "what it needs", at(this.demand) + (right ? -6 : 6) * ratio, bbox.top + 14 * ratio, "--c3");
    }
    for (const one of this.measured) this.dot(ctx, at(one.limit_bytes), one, up, ratio);
    ctx.textAlign = "center";
    for (const bytes of this.killed) {
      const y = bbox.top + bbox.height - 12 * ratio;
      cross(ctx, at(bytes), y, 5 * ratio);
      drawText(ctx, "killed", at(bytes), y - 10 * ratio, "--bad");
    }
    ctx.restore();
  }

  dot(ctx, x, one, up, ratio) {
    ctx.strokeStyle = ctx.fillStyle = colour("--c2");
    ctx.lineWidth = 2 * ratio;
    if (one.low && one.high) {
      ctx.beginPath();
      ctx.moveTo(x, up(one.low));
      ctx.lineTo(x, up(one.high));
      ctx.stroke();
    }
    ctx.beginPath();
    ctx.arc(x, up(one.median), 4.5 * ratio, 0, 7);
    ctx.fill();
    const last = x > ctx.canvas.width - 70 * ratio;
    ctx.textAlign = last ? "right" : "left";
    drawText(ctx, times(one.median), x + (last ? -8 : 8) * ratio, up(one.median) - 6 * ratio, "--c2");
  }
}

function upright(ctx, x, bbox, ratio, name, dash) {
  ctx.strokeStyle = colour(name);
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash(dash.map((one) => one * ratio));
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.setLineDash([]);
}

function cross(ctx, x, y, size) {
  ctx.strokeStyle = colour("--bad");
  ctx.lineWidth = size / 2;
  ctx.beginPath();
  for (const [dx, dy] of [[1, 1], [1, -1]]) {
    ctx.moveTo(x - dx * size, y - dy * size);
    ctx.lineTo(x + dx * size, y + dy * size);
  }
  ctx.stroke();
}

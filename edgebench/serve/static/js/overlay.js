// Chosen trials laid over each other, and side by side in a table that marks what differs.

import { byId, el, fill, say } from "./dom.js";
import { bytes, cell, count, MIB } from "./format.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { metricsChart, setMetrics } from "./trial.js";

const MOST = 8;
let charts = [];

export async function showOverlay(rows) {
  const chosen = rows.slice(0, MOST);
  byId("overlay-card").hidden = false;
  say(rows.length > MOST ? `The first ${MOST} of ${rows.length} chosen trials are shown.` : "Reading samples …");
  let details;
  try {
    details = await Promise.all(chosen.map((row) => get(`/api/trial?${new URLSearchParams({ sweep: row.sweep, trial: row.trial })}`)));
  } catch (error) {
    say(error.message, true);
    return;
  }
  draw(chosen, details);
  compare(details.map((detail) => detail.row));
  const samples = details.reduce((sum, detail) => sum + (detail.fast?.samples ?? 0), 0);
  const warnings = details.flatMap((detail) => detail.warnings);
  say([`${count(samples)} samples of ${details.length} trials drawn.`, ...warnings].join(" "), warnings.length > 0);
  byId("overlay-title").focus();
}

const titleOf = (row, rows) => {
  const short = `${row.trial} ${row.network ?? row.kind ?? ""} ${row.limit}`;
  return new Set(rows.map((one) => one.sweep)).size > 1 ? `${short} (${row.sweep.split("/").at(-1)})` : short;
};

function draw(rows, details) {
  for (const chart of charts) chart.close();
  const host = byId("overlay-chart");
  const [usage, swap] = [el("div"), el("div")];
  fill(host, usage, swap);
  const lines = rows.map((row, at) => ({ label: titleOf(row, rows), colour: `--c${(at % 8) + 1}` }));
  const highest = details.map((detail) => column(detail.fast, "high_bytes"));
  const swapped = details.map((detail) => column(detail.stat, "swap_bytes"));
  charts = [overlaid(usage, "Highest usage over time", lines, highest), overlaid(swap, "Swap over time", lines, swapped)];
  details.forEach((detail, at) => {
    if (!detail.metrics?.length) return;
    const box = el("div");
    host.append(el("p", {}, lines[at].label), box);
    const chart = metricsChart(box, detail.metrics);
    setMetrics(chart, detail.metrics);
    charts.push(chart);
  });
}

// Pairs of seconds and bytes; the slow table tells swap exactly.
function column(table, name) {
  const at = table?.columns.indexOf(name) ?? -1;
  return at < 0 ? [] : table.rows.map((row) => [row[0], row[at]]);
}

function overlaid(host, title, lines, drawn) {
  const chart = new Chart(host, { title, y: "MiB", lines });
  const tables = drawn.map((pairs) => [pairs.map(([t]) => t), pairs.map(([, value]) => (value === null ? null : value / MIB))]);
  const most = drawn.map((pairs) => bytes(Math.max(0, ...pairs.map(([, value]) => value ?? 0))));
  chart.set(window.uPlot.join(tables), lines.map((line, at) => `${line.label}: ${most[at]} at most`).join("; "));
  return chart;
}

function compare(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined && row[name] !== ""));
  const head = rows.map((row) => el("th", { scope: "col" }, `${row.sweep.split("/").at(-1)} ${row.trial}`));
  const body = names.filter((name) => name !== "sweep" && name !== "trial").map((name) => {
    const values = rows.map((row) => row[name]);
    const differs = rows.length > 1 && new Set(values.map(String)).size > 1;
    return el("tr", { class: differs ? "differs" : null },
      el("th", { scope: "row" }, name.replace(/_bytes$|_s$/, "").replaceAll("_", " "), differs ? " ≠" : ""),
      ...values.map((value) => el("td", {}, cell(name, value))));
  });
  fill(byId("comparison"), el("caption", { class: "hint" }, "Rows marked ≠ differ."), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "of the trial"), ...head)), el("tbody", {}, ...body));
}

// Chosen trials laid over each other, and side by side in a table that marks what differs.

import { byId, el, fill, say } from "./dom.js";
import { bytes, cell, count, MIB } from "./format.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { metricNames } from "./trial.js";

const MOST = 8;
let charts = [];

// `settings` are the names of what was set, by which trials are told apart.
export async function showOverlay(rows, settings) {
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
  draw(chosen, details, settings);
  compare(details.map((detail) => detail.row));
  const samples = details.reduce((sum, detail) => sum + (detail.fast?.samples ?? 0), 0);
  const warnings = details.flatMap((detail) => detail.warnings);
  const drawn = details.length === 1 ? "1 trial" : `${details.length} trials`;
  say([`${count(samples)} samples of ${drawn} drawn.`, ...warnings].join(" "), warnings.length > 0);
  byId("overlay-title").focus();
}

function titleOf(row, rows, settings) {
  const apart = [...new Set(["network", "limit", ...settings])].filter((name) => new Set(rows.map((one) => String(one[name]))).size > 1);
  const words = apart.map((name) => (["network", "limit"].includes(name) ? row[name] : `${name.replaceAll("_", " ")} ${cell(name, row[name])}`));
  const sweep = new Set(rows.map((one) => one.sweep)).size > 1 ? ` (${row.sweep.split("/").at(-1)})` : "";
  return [row.trial, ...(words.length ? words : [row.network ?? row.kind, row.limit])].filter(Boolean).join(" · ") + sweep;
}

function draw(rows, details, settings) {
  for (const chart of charts) chart.close();
  charts = [];
  fill(byId("overlay-chart"));
  const lines = rows.map((row, at) => ({ label: titleOf(row, rows, settings), colour: `--c${(at % 8) + 1}` }));
  const atMost = (pairs) => `${bytes(Math.round(MIB * Math.max(0, ...pairs.map(([, value]) => value ?? 0))))} at most`;
  const memory = (title, name, table) => overlay({ title, y: "MiB" }, lines, details.map((detail) => mebibytes(detail[table], name)), atMost);
  memory("Highest usage over time", "high_bytes", "fast");
  // The slow table tells swap exactly.
  memory("Swap over time", "swap_bytes", "stat");
  drawMetrics(lines, details);
}

// Loss and accuracy, each on a chart of its own: the trainings lie over each other.
function drawMetrics(lines, details) {
  const all = details.flatMap((detail) => detail.metrics ?? []);
  const xLabel = all.every((metric) => metric.step !== null) ? "step" : "seconds";
  for (const name of metricNames(all)) {
    const told = details.map((detail) => (detail.metrics ?? []).filter((metric) => name in metric.values)
      .map((metric) => [xLabel === "step" ? metric.step : metric.t_s, metric.values[name]]));
    const trained = lines.filter((_, at) => told[at].length);
    overlay({ title: name.replaceAll("_", " "), y: "", xLabel }, trained, told.filter((pairs) => pairs.length), (pairs) => `${pairs.at(-1)[1].toPrecision(3)} at the end`);
  }
}

// Pairs of seconds and mebibytes.
function mebibytes(table, name) {
  const at = table?.columns.indexOf(name) ?? -1;
  return at < 0 ? [] : table.rows.map((row) => [row[0], row[at] === null ? null : row[at] / MIB]);
}

// A line for each table of pairs, and the words that say of each what matters.
function overlay(options, lines, tables, words) {
  const box = el("div");
  byId("overlay-chart").append(box);
  const chart = new Chart(box, { ...options, lines });
  const columns = tables.map((pairs) => [pairs.map(([x]) => x), pairs.map(([, value]) => value)]);
  chart.set(window.uPlot.join(columns), lines.map((line, at) => `${line.label}: ${words(tables[at])}`).join("; "));
  charts.push(chart);
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

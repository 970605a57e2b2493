// Selected trials: their curves in one chart, their values side by side in a table.

import { byId, el, fill, say } from "./dom.js";
import { bytes, cell, count, MIB } from "./format.js";
import { keyWords, sweepWords } from "./words.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { metricNames } from "./trial.js";

const MOST = 8;
let charts = [];

// `settings` are the names of the settings that may differ between trials.
export async function showComparison(rows, settings) {
  const selected = rows.slice(0, MOST);
  byId("comparison-card").hidden = false;
  say(rows.length > MOST ? `The first ${MOST} of ${rows.length} selected trials are shown.` : "Reading samples …");
  let details;
  try {
    details = await Promise.all(selected.map((row) => get(`/api/trial?${new URLSearchParams({ sweep: row.sweep, trial: row.trial })}`)));
  } catch (error) {
    say(error.message, true);
    return;
  }
  draw(selected, details, settings);
  compare(details.map((detail) => detail.row));
  const samples = details.reduce((sum, detail) => sum + (detail.fast?.samples ?? 0), 0);
  const warnings = details.flatMap((detail) => detail.warnings);
  const drawn = details.length === 1 ? "1 trial" : `${details.length} trials`;
  say([`${drawn} drawn from ${count(samples)} samples.`, ...warnings].join(" "), warnings.length > 0);
  byId("comparison-title").focus();
}

function titleOf(row, rows, settings) {
  const differing = [...new Set(["network", "limit", ...settings])].filter((name) => new Set(rows.map((one) => String(one[name]))).size > 1);
  const words = differing.map((name) => (["network", "limit"].includes(name) ? row[name] : `${keyWords(name)} ${cell(name, row[name])}`));
  const sweep = new Set(rows.map((one) => one.sweep)).size > 1 ? ` (${sweepWords(row.sweep)})` : "";
  return [...(words.length ? words : [row.network ?? row.kind, row.limit]), `trial ${row.trial}`].filter(Boolean).join(" · ") + sweep;
}

function draw(rows, details, settings) {
  for (const chart of charts) chart.close();
  charts = [];
  fill(byId("comparison-charts"));
  const lines = rows.map((row, at) => ({ label: titleOf(row, rows, settings), colour: `--c${(at % 8) + 1}` }));
  const atMost = (pairs) => `${bytes(Math.round(MIB * Math.max(0, ...pairs.map(([, value]) => value ?? 0))))} at most`;
  const memory = (title, name, ...tables) => drawLines({ title, y: "MiB" }, lines, details.map((detail) => mebibytes(tables.map((table) => detail[table]), name)), atMost);
  memory("Highest usage over time", "high_bytes", "fast");
  // The slow table has exact swap, where memory.stat was read; the fast one always has some.
  memory("Swap over time", "swap_bytes", "stat", "fast");
  drawMetrics(lines, details);
}

// Loss and accuracy, each on a chart of its own with a line for each training.
function drawMetrics(lines, details) {
  const all = details.flatMap((detail) => detail.metrics ?? []);
  const xLabel = all.every((metric) => metric.step !== null) ? "step" : "seconds";
  for (const name of metricNames(all)) {
    const values = details.map((detail) => (detail.metrics ?? []).filter((metric) => name in metric.values)
      .map((metric) => [xLabel === "step" ? metric.step : metric.t_s, metric.values[name]]));
    const trained = lines.filter((_, at) => values[at].length);
    drawLines({ title: name.replaceAll("_", " "), y: "", xLabel }, trained, values.filter((pairs) => pairs.length), (pairs) => `${pairs.at(-1)[1].toPrecision(3)} at the end`);
  }
}

// Pairs of seconds and mebibytes, from the first table that has the column.
function mebibytes(tables, name) {
  const table = tables.find((one) => one?.columns.includes(name));
  const at = table?.columns.indexOf(name);
  return !table ? [] : table.rows.map((row) => [row[0], row[at] === null ? null : row[at] / MIB]);
}

// A line for each table of pairs, and a sentence on each for screen readers.
function drawLines(options, lines, tables, words) {
  const box = el("div");
  byId("comparison-charts").append(box);
  const chart = new Chart(box, { ...options, lines });
  const columns = tables.map((pairs) => [pairs.map(([x]) => x), pairs.map(([, value]) => value)]);
  chart.set(window.uPlot.join(columns), lines.map((line, at) => `${line.label}: ${words(tables[at])}`).join("; "));
  charts.push(chart);
}

function compare(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined && row[name] !== ""));
  const head = rows.map((row) => el("th", { scope: "col" }, `${sweepWords(row.sweep)}, trial ${row.trial}`));
  const body = names.filter((name) => !["sweep", "trial", "point", "block"].includes(name)).map((name) => {
    const values = rows.map((row) => row[name]);
    const differs = rows.length > 1 && new Set(values.map(String)).size > 1;
    return el("tr", { class: differs ? "differs" : null },
      el("th", { scope: "row" }, keyWords(name), differs ? " ≠" : ""),
      ...values.map((value) => el("td", {}, cell(name, value))));
  });
  fill(byId("comparison"), el("caption", { class: "hint" }, "Rows marked ≠ differ."), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "value"), ...head)), el("tbody", {}, ...body));
}

// Every sweep and trial in the results: select, sort, filter, compare, download.

import { byId, el, fill, say } from "./dom.js";
import { breakable, cell, count } from "./format.js";
import { download, get } from "./api.js";
import { SortedTable } from "./table.js";
import { showComparison } from "./comparison.js";
import { keyWords, outcomeWords, OUTCOMES, sweepParts, sweepWords } from "./words.js";

// Columns shown first; the workload's settings follow, where trials have them.
const FIRST = ["trial", "outcome", "limit"];
const LAST = ["wall_s", "peak_bytes", "demand_bytes", "swap_peak_bytes", "major_faults", "cpu_s", "started_utc"];
const HIDDEN = new Set(["sweep", "point", "block", "reason", "peak_source", "saturated", "sampled_peak_bytes", "base_bytes",
  "gnu_time_maxrss_bytes", "minor_faults", "io_read_bytes", "io_write_bytes", "limit_bytes", "memory_bytes", "warnings", "seed", "exit_code", "oom_kills", "killed_with_swap_free"]);
const MOST_ROWS = 500;
const MOST_CHOICES = 12;
const MOST_NAMES = 4;

const sweeps = new Set();
const trials = new Map();
let rows = [];
const filters = new Map();
// The first networks, and how many more there are.
const shortList = (names) => breakable(names.slice(0, MOST_NAMES).join(", ")) + (names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "");
const keyOf = (row) => `${row.sweep} ${row.trial}`;

const sweepTable = new SortedTable(byId("sweeps"), {
  caption: "Select sweeps to see their trials.",
  label: (row) => `sweep ${sweepWords(row.sweep)}`,
  chosen: (row) => sweeps.has(row.sweep),
  choose: (row, on) => {
    if (on) sweeps.add(row.sweep);
    else sweeps.delete(row.sweep);
    showTrials();
  },
  columns: [
    { name: "sweep", title: "sweep", value: (row) => row.sweep, words: true, show: (row) => sweepParts(row.sweep).scenario },
    { name: "device", title: "device", value: (row) => sweepParts(row.sweep).device, words: true, show: (row) => sweepParts(row.sweep).device },
    { name: "more", title: "answer", value: () => "", show: (row) => (row.error ? "" : moreOf(row)) },
    { name: "state", title: "state", value: (row) => row.state, words: true,
      show: (row) => (row.error ? el("span", { class: "bad-text" }, `can't be read: ${row.error}`) : row.state) },
    { name: "done", title: "trials", value: (row) => row.done, show: (row) => (row.error ? "" : `${row.done} of ${row.total ?? "?"}`) },
    { name: "outcomes", title: "outcomes", value: (row) => row.outcomes?.ok, words: true,
      show: (row) => outcomeWords(row.outcomes) },
    { name: "networks", title: "networks", value: (row) => row.networks?.join(), words: true, show: (row) => shortList(row.networks ?? []) },
    { name: "started", title: "started (UTC)", value: (row) => row.started_utc, show: (row) => cell("started_utc", row.started_utc) },
  ],
});

const trialTable = new SortedTable(byId("trials"), {
  caption: "Select trials to compare them.", columns: [],
  label: (row) => `trial ${row.trial} of ${sweepWords(row.sweep)}`,
  chosen: (row) => trials.has(keyOf(row)),
  choose: (row, on) => {
    if (on) trials.set(keyOf(row), row);
    else trials.delete(keyOf(row));
    byId("compare").disabled = trials.size === 0;
  },
});

function moreOf(row) {
  const open = el("a", { href: `#answer/${row.sweep}`, "aria-label": `Answer of ${sweepWords(row.sweep)}` }, "Answer");
  const warnings = row.warnings.map((words) => el("span", { class: "fault" }, words));
  return el("div", {}, open, ...warnings);
}

export async function showHistory() {
  try {
    const found = (await get("/api/sweeps")).sweeps;
    sweepTable.set(found);
    if (!found.length) fill(byId("sweeps"), el("caption", {}, "No results yet."));
    for (const name of [...sweeps]) if (!found.some((row) => row.sweep === name)) sweeps.delete(name);
    if (sweeps.size) await showTrials();
  } catch (error) {
    say(error.message, true);
  }
}

async function showTrials() {
  byId("trials-card").hidden = sweeps.size === 0;
  if (!sweeps.size) return;
  const query = new URLSearchParams([...sweeps].map((name) => ["sweep", name]));
  byId("csv").onclick = () => download(`/api/trials.csv?${query}`, "trials.csv").catch((error) => say(error.message, true));
  byId("compare").disabled = trials.size === 0;
  try {
    rows = (await get(`/api/trials?${query}`)).trials;
  } catch (error) {
    rows = [];
    say(error.message, true);
  }
  drawFilters();
  drawTrials();
}

// A filter for each setting that differs between these trials: a list of its values, or a range.
function drawFilters() {
  const names = [...settingNames(), "limit", "outcome", "sweep"];
  const choices = names.map((name) => [name, [...new Set(rows.map((row) => row[name]).filter((v) => v !== undefined && v !== null))]]);
  const useful = choices.filter(([, values]) => values.length > 1 && (values.length <= MOST_CHOICES || values.every(Number.isFinite)));
  for (const name of filters.keys()) if (!useful.some(([known]) => known === name)) filters.delete(name);
  fill(byId("filters"), ...useful.map(([name, values]) => (values.length <= MOST_CHOICES ? listed(name, values) : ranged(name))));
}

function listed(name, values) {
  const kept = filters.get(name)?.value;
  const options = values.map((value) => el("option", { value: String(value), selected: kept === String(value) }, String(value)));
  const change = ({ target: { value } }) => setFilter(name, value === "" ? null : { value, fits: (found) => String(found) === value });
  return el("label", {}, name, el("select", { onchange: change, "data-filter": name }, el("option", { value: "" }, "all"), ...options));
}

function ranged(name) {
  const ends = ["from", "to"].map((end) => {
    const change = ({ target: { value } }) => {
      const { from, to } = { ...filters.get(name), [end]: value.trim() };
      const fits = (found) => found !== null && (!from || found >= Number(from)) && (!to || found <= Number(to));
      setFilter(name, from || to ? { from, to, fits } : null);
    };
    return el("label", {}, `${name} ${end}`, el("input", { size: 8, value: filters.get(name)?.[end] ?? "", onchange: change, "data-filter": `${name} ${end}` }));
  });
  return el("span", { class: "filters" }, ...ends);
}

function setFilter(name, filter) {
  if (filter) filters.set(name, filter);
  else filters.delete(name);
  drawTrials();
}

function settingNames() {
  const all = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return all.filter((name) => !FIRST.includes(name) && !LAST.includes(name) && !HIDDEN.has(name) && rows.some((row) => row[name] !== null));
}

function drawTrials() {
  const shown = rows.filter((row) => [...filters].every(([name, filter]) => filter.fits(row[name])));
  // Settings that are the same for all trials come last.
  const differs = (name) => new Set(rows.map((row) => String(row[name] ?? ""))).size > 1;
  const settings = settingNames();
  const names = [...(sweeps.size > 1 ? ["sweep"] : []), ...FIRST, ...settings.filter(differs), ...LAST, ...settings.filter((name) => !differs(name))];
  const columns = names.map((name) => ({ name, title: keyWords(name), value: (row) => row[name], words: name === "network",
    show: (row) => (name === "outcome" ? outcome(row) : name === "sweep" ? sweepWords(row.sweep) : cell(name, row[name])) }));
  const cut = shown.length > MOST_ROWS ? `; the first ${MOST_ROWS} are shown: filter to see others` : "";
  byId("trials-words").textContent = `${count(shown.length)} of ${count(rows.length)} trials${cut}.`;
  trialTable.set(shown.slice(0, MOST_ROWS), columns);
}

// A plain kill needs no reason; why a workload failed, or what is unusual about a kill, is shown.
const outcome = (row) => {
  if (row.outcome === "ok") return OUTCOMES.ok;
  const explained = ["failed", "accelerator-oom"].includes(row.outcome) || row.killed_with_swap_free || (row.outcome === "oom-killed" && row.exit_code === 0);
  return el("span", { class: "bad-text" }, OUTCOMES[row.outcome] ?? row.outcome, explained ? el("span", { class: "fault" }, row.reason) : null);
};

byId("compare").addEventListener("click", () => showComparison([...trials.values()], settingNames()));

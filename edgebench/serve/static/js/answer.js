// The first view: what the newest sweep found, in the report's tables, with its curve and what-if.

import { byId, el, fill } from "./dom.js";
import { get } from "./api.js";
import { count } from "./format.js";
import { comboBox } from "./combobox.js";
import { showEmpty } from "./empty.js";
import { outcomeWords, sweepParts, sweepWords } from "./words.js";
import { WhatIf } from "./whatif.js";

const MOST_SWEEPS = 100;
const whatIf = new WhatIf();
let answer = null;
let predicted = null;
let shown = null;
let asked = 0;

// `name`: a sweep; "": the newest one.
export async function showAnswer(name = "") {
  const request = ++asked;
  let found;
  try {
    found = await get(`/api/answer?${new URLSearchParams({ sweep: name })}`);
  } catch (error) {
    if (request === asked) sayFault(error.message);
    return;
  }
  if (request !== asked) return;
  const same = answer?.name === found.name && JSON.stringify(answer) === JSON.stringify(found);
  if (same && predicted?.name === found.name) return;
  if (predicted?.name !== found.name || answer?.done !== found.done) predicted = null;
  answer = found;
  drawSweeps();
  byId("answer-empty").hidden = Boolean(found.name);
  byId("answer-body").hidden = !found.workloads?.length;
  byId("answer-fault").hidden = true;
  if (!found.name) {
    byId("answer-title").textContent = "What do you want to know?";
    byId("answer-about").textContent = "There is no sweep here yet.";
    showEmpty(byId("answer-empty"));
    return;
  }
  drawAbout(name);
  drawWorkloads();
  drawRemedies();
  drawDoubts();
  performance.mark("answer-shown");
  // A fit takes a core for some seconds: not unasked while a sweep measures.
  byId("predict").hidden = found.state !== "running" || Boolean(predicted);
  byId("model-words").textContent = "";
  if (found.state !== "running") predict();
}

function sayFault(words) {
  answer = null;
  byId("answer-fault").hidden = false;
  byId("answer-fault").textContent = words;
  byId("answer-about").textContent = "";
  byId("answer-body").hidden = true;
}

function drawSweeps() {
  const names = answer.sweeps.slice(0, MOST_SWEEPS);
  byId("answer-sweep-box").hidden = names.length < 2;
  fill(byId("answer-sweep"), ...names.map((name) => el("option", { value: name, selected: name === answer.name }, sweepWords(name))));
}

function drawAbout(name) {
  const { scenario, when } = sweepParts(answer.name);
  byId("answer-title").textContent = name && name !== answer.sweeps[0] ? `Sweep ${scenario}` : `Newest sweep: ${scenario}`;
  const trials = `${count(answer.done)}${answer.planned === null ? "" : ` of ${count(answer.planned)}`} trials`;
  const state = answer.state === "complete" ? trials : `${answer.state}, ${trials} so far`;
  byId("answer-about").textContent = [state, when, `device ${answer.device}`, answer.machine].filter(Boolean).join(" · ");
}

function drawWorkloads() {
  const names = answer.workloads.map((one) => one.brief);
  const kept = answer.workloads.find((one) => one.name === shown)?.brief ?? names[0];
  const host = byId("answer-workload");
  host.hidden = names.length < 2;
  const choose = (brief) => drawWorkload(answer.workloads[names.indexOf(brief)]);
  if (names.length > 5) fill(host, comboBox({ id: "workload", label: "Workload", options: names, values: [kept], change: ([brief]) => brief && choose(brief) }).box);
  else fill(host, tabs(names, kept, choose));
  drawSummary(names, choose);
  choose(kept);
}

function tabs(names, kept, choose) {
  const radio = (name, at) => el("label", {}, el("input", { type: "radio", name: "workload", value: at, checked: name === kept, onchange: () => choose(name) }), el("span", {}, name));
  return el("div", { role: "radiogroup", "aria-label": "Workload", class: "tabs" }, ...names.map(radio));
}

function drawWorkload(one) {
  shown = one.name;
  byId("hero-title").textContent = one.brief;
  drawTiles(one);
  const more = predicted?.workloads.find((other) => other.name === one.name);
  byId("hero-words").textContent = [one.knee && `knee ${one.knee}`, more?.blame].filter(Boolean).join("; ");
  const layers = more?.layers ? [tableOf(more.layers)] : more ? [] : [el("p", { class: "hint" }, waiting())];
  fill(byId("questions"), tableOf(one.table), ...layers);
  whatIf.show(one, prediction(one.name));
  drawModel();
}

const prediction = (name) => predicted?.workloads.find((one) => one.name === name)?.prediction ?? null;

// Why there are no predictions.
function drawModel() {
  if (predicted) byId("model-words").textContent = prediction(shown) ? "" : `No prediction: ${predicted.why_not ?? "no model knows this workload."}`;
}

const waiting = () => (answer.state === "running" ? "Read when the sweep has ended, or on “Predict other limits”." : predicted?.fault ?? "Reading the layers' times …");

function drawTiles(one) {
  const tiles = [...Object.entries(one.tiles), ["trials", outcomeWords(total(one.points))]];
  fill(byId("hero-tiles"), ...tiles.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

// A table as the server made it, below its title.
function tableOf({ title, columns, rows, left }) {
  const kind = (at) => (left.includes(columns[at]) ? "" : "n");
  const head = columns.map((name, at) => el("th", { scope: "col", class: kind(at) }, name));
  const row = ([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell, at) => el("td", { class: kind(at + 1) }, cell)));
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows.map(row)));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || "Limits" }, ...(title ? [el("h3", {}, title)] : []), table);
}

function total(points) {
  const sum = {};
  for (const { outcomes } of points) for (const [name, n] of Object.entries(outcomes)) sum[name] = (sum[name] ?? 0) + n;
  return sum;
}

function drawSummary(names, choose) {
  byId("workloads-card").hidden = names.length < 2;
  const { columns, rows } = answer.overview;
  const head = columns.map((name) => el("th", { scope: "col" }, name));
  const press = (at) => {
    choose(names[at]);
    for (const radio of document.querySelectorAll("#answer-workload input[type=radio]")) radio.checked = Number(radio.value) === at;
    byId("hero-title").scrollIntoView({ block: "center" });
  };
  const row = (cells, at) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => press(at) }, names[at])),
    ...cells.slice(1).map((cell) => el("td", {}, cell)));
  fill(byId("workloads"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows.map(row)));
  const left = answer.left_out ? ` ${answer.left_out} more: edgebench show lists all.` : "";
  byId("workloads-note").textContent = `${answer.shared ? `All: ${answer.shared}.` : ""}${left}`;
}

function drawRemedies() {
  const found = answer.advice;
  byId("remedies").hidden = !found;
  if (!found) return;
  fill(byId("remedies-table"), tableOf(found));
}

function drawDoubts() {
  const warnings = [...new Set([...answer.warnings, ...(predicted?.warnings ?? [])])];
  const box = byId("doubts");
  box.hidden = !warnings.length;
  box.querySelector("summary").textContent = warnings.length === 1 ? "1 reason for doubt" : `${warnings.length} reasons for doubt`;
  fill(box.querySelector("ul"), ...warnings.map((words) => el("li", {}, words)));
}

async function predict() {
  const { name } = answer;
  byId("predict").hidden = true;
  if (predicted?.name === name) return;
  byId("model-words").textContent = "Fitting models, to predict the limits in between …";
  try {
    predicted = { name, ...(await get(`/api/predictions?${new URLSearchParams({ sweep: name })}`)) };
  } catch (error) {
    predicted = { name, workloads: [], warnings: [], why_not: error.message, fault: error.message };
  }
  if (answer?.name !== name) return;
  drawWorkload(answer.workloads.find((one) => one.name === shown) ?? answer.workloads[0]);
  drawDoubts();
}

// A running sweep grows: shown again, but not often, since reading it takes time from the trial.
export function refreshAnswer() {
  if (!byId("answer").hidden && answer?.name) showAnswer(location.hash.split("/").slice(1).join("/"));
}

byId("answer-sweep").addEventListener("change", ({ target }) => {
  location.hash = `#answer/${target.value}`;
});
byId("predict").addEventListener("click", predict);

// The first view: what the newest sweep found, in the report's words, with its curve and what-if.

import { byId, el, fill } from "./dom.js";
import { get } from "./api.js";
import { count } from "./format.js";
import { askBoards, forgetBoards } from "./board_list.js";
import { comboBox } from "./combobox.js";
import { showEmpty } from "./empty.js";
import { outcomeWords, sweepParts, sweepWords } from "./words.js";
import { WhatIf } from "./whatif.js";

const MOST_SWEEPS = 100;
// How many sentences on whether it fits stand in large letters.
const IN_HERO = 2;
const LAYERS = "Which layers cause the slowdown?";
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
  if (predicted?.name !== found.name || answer?.done !== found.done) {
    predicted = null;
    forgetBoards();
  }
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
  const fits = one.answers[0].sentences;
  byId("hero-title").textContent = one.brief;
  byId("hero-words").textContent = fits.slice(0, IN_HERO).join(" ");
  drawTiles(one);
  const more = predicted?.workloads.find((other) => other.name === one.name);
  const asked = one.answers.map(({ question, sentences }) => [question, [...sentences, ...(more?.answers[question] ?? [])]]);
  // What stands above it in large letters is not said again.
  asked[0][1].splice(0, IN_HERO);
  asked.splice(2, 0, [LAYERS, more?.answers[LAYERS] ?? [waiting()]]);
  fill(byId("questions"), ...asked.filter(([, sentences]) => sentences.length).flatMap(([question, sentences]) => [el("h3", {}, question), ...sentences.map((words) => el("p", {}, words))]));
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
  const at = answer.workloads.indexOf(one);
  const [, demand, least, slowdown, fast] = answer.summary.rows[at];
  const tiles = [["needs", demand], ["finishes down to", least], ["slowdown there", slowdown], ["at most 10 % slower down to", fast],
    ["trials", outcomeWords(total(one.points))]];
  fill(byId("hero-tiles"), ...tiles.filter(([, value]) => value && value !== "–").map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function total(points) {
  const sum = {};
  for (const { outcomes } of points) for (const [name, n] of Object.entries(outcomes)) sum[name] = (sum[name] ?? 0) + n;
  return sum;
}

function drawSummary(names, choose) {
  byId("workloads-card").hidden = names.length < 2;
  const { columns, rows } = answer.summary;
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
  byId("remedies-words").textContent = found.sentence;
  byId("remedies-typed").hidden = !found.typed.length;
  byId("remedies-typed").textContent = found.typed.join("\n");
  const head = found.columns.map((name) => el("th", { scope: "col" }, name));
  const row = ([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name), ...cells.map((cell) => el("td", {}, cell)));
  fill(byId("remedies-table"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...found.rows.map(row)));
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
  if (!predicted.fault) askBoards(name);
}

// A running sweep grows: shown again, but not often, since reading it takes time from the trial.
export function refreshAnswer() {
  if (!byId("answer").hidden && answer?.name) showAnswer(location.hash.split("/").slice(1).join("/"));
}

byId("answer-sweep").addEventListener("change", ({ target }) => {
  location.hash = `#answer/${target.value}`;
});
byId("predict").addEventListener("click", predict);

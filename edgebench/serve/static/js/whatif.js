// A slider over limits that were predicted: slowdown, whether a trial finishes, the layers to blame.

import { byId, el, fill } from "./dom.js";
import { bytes, MIB, percent, seconds } from "./format.js";
import { get } from "./api.js";
import { Chart } from "./chart.js";

let workloads = [];
let chart = null;

export async function showWhatIf(sweep) {
  byId("what-if-card").hidden = false;
  byId("what-if-body").hidden = true;
  byId("what-if-words").textContent = `Fitting ${sweep} …`;
  byId("what-if-title").focus();
  let answer;
  try {
    answer = await get(`/api/what-if?${new URLSearchParams({ sweep })}`);
  } catch (error) {
    byId("what-if-words").textContent = `Nothing can be predicted of ${sweep}: ${error.message}`;
    return;
  }
  workloads = answer.workloads;
  byId("what-if-words").textContent = [`Predicted from ${sweep}.`, ...answer.warnings].join(" ");
  byId("what-if-body").hidden = false;
  fill(byId("what-if-workload"), ...workloads.map((one, at) => el("option", { value: at }, nameOf(one))));
  chooseWorkload();
}

const nameOf = (one) => [one.network, ...Object.entries(one.settings).map(([name, value]) => (name === "swap_kind" ? `swap ${value}` : name === "batch" ? `batch ${value}` : value))].join(" · ");

const times = (factor) => (Number.isFinite(factor) ? `×${factor.toFixed(2)}` : "not told");

const now = () => workloads[Number(byId("what-if-workload").value)];

function chooseWorkload() {
  const phases = now().at[0].phases.map((phase, at) => el("option", { value: at, selected: phase.phase === "total" }, `${phase.phase} of ${phase.network}`));
  fill(byId("what-if-phase"), ...phases);
  const slider = byId("what-if-limit");
  slider.max = String(now().at.length - 1);
  slider.value = String(Math.floor(now().at.length / 2));
  choosePhase();
}

function choosePhase() {
  draw();
  tell();
}

// Tight limits lie to the left, as on the figure.
const chosenAt = () => now().at[now().at.length - 1 - Number(byId("what-if-limit").value)];

function tell() {
  const at = chosenAt();
  const phase = at.phases[Number(byId("what-if-phase").value)];
  const limit = `${bytes(Math.round(at.limit_bytes))}${at.share === null ? "" : ` (${percent(at.share)} of demand)`}`;
  byId("what-if-limit").setAttribute("aria-valuetext", limit);
  const interval = phase.low === null || phase.high === null ? "" : `, 90 % of trials ${times(phase.low)} to ${times(phase.high)}`;
  const finishes = at.probability === null ? "" : `; finishes with probability ${percent(at.probability)}`;
  const time = at.viable ? `slowdown ${times(phase.slowdown)}${interval}, ${seconds(phase.seconds)}` : "not viable: it would be killed";
  const far = at.extrapolated ? "; beyond all trials: extrapolated" : "";
  byId("what-if-told").textContent = `${limit}: ${time}${finishes}${far}`;
  const layers = at.viable ? at.layers : [];
  fill(byId("what-if-layers"), ...layers.map((layer) =>
    el("li", {}, el("span", {}, layer.name), el("meter", { min: 0, max: 1, value: layer.share, "aria-label": `${layer.name}'s part of the added time` }), el("span", {}, percent(layer.share)))));
  if (at.viable && !layers.length) fill(byId("what-if-layers"), el("li", {}, "No layer is to blame: nothing is added here, or no calibration tells."));
}

function draw() {
  chart?.close();
  const one = now();
  const which = Number(byId("what-if-phase").value);
  const { phase, network } = one.at[0].phases[which];
  const predicted = [...one.at].reverse().filter((at) => at.viable);
  const told = predicted.map((at) => at.phases[which].slowdown).filter((value) => value !== null);
  const measured = one.measured.find((curve) => curve.phase === phase && curve.network === network);
  const points = (measured?.limit_bytes ?? []).map((limit, at) => [limit / MIB, measured.slowdown[at]]);
  const killed = [...new Set(measured?.killed_bytes ?? [])].map((limit) => [limit / MIB, 1]);
  chart = new Chart(byId("what-if-chart"), {
    title: `Slowdown of ${phase}, ${nameOf(one)}; told by ${one.rung}`, y: "slowdown", xLabel: "limit, MiB",
    scales: { x: { time: false, distr: 3, log: 2 }, y: { distr: 3, log: 10 } },
    lines: [
      { label: "predicted", colour: "--c1", width: 2 },
      { label: "90 % low", colour: "--c6", dash: [4, 4], width: 1 },
      { label: "90 % high", colour: "--c6", dash: [4, 4], width: 1 },
      { label: "measured", colour: "--c2", points: true },
      { label: "killed", colour: "--bad", points: true },
    ],
  });
  const line = (value) => [predicted.map((at) => at.limit_bytes / MIB), predicted.map((at) => value(at.phases[which]))];
  const columns = (pairs) => [pairs.map((pair) => pair[0]), pairs.map((pair) => pair[1])];
  const sortedPairs = (pairs) => columns(unique(pairs));
  chart.set(window.uPlot.join([line((p) => p.slowdown), line((p) => p.low), line((p) => p.high), sortedPairs(points), sortedPairs(killed)]),
    `from ${times(Math.min(...told))} to ${times(Math.max(...told))}`);
}

// Repeats at one limit are moved apart by a hair: the chart joins points by their x.
function unique(pairs) {
  const seen = new Map();
  return [...pairs].sort((a, b) => a[0] - b[0]).map(([x, y]) => {
    const before = seen.get(x) ?? 0;
    seen.set(x, before + 1);
    return [x * (1 + before * 1e-6), y];
  });
}

byId("what-if-workload").addEventListener("change", chooseWorkload);
byId("what-if-phase").addEventListener("change", choosePhase);
byId("what-if-limit").addEventListener("input", tell);

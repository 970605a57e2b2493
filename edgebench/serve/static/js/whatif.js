// What if it had another limit: measured where there were trials, predicted elsewhere, never interpolated.

import { byId, el, fill } from "./dom.js";
import { Curve } from "./curve.js";
import { bytes, percent, seconds } from "./format.js";
import { outcomeWords, phaseWords, times } from "./words.js";

// A measured limit this near to a predicted one is told with it.
const NEAR = 0.012;

export class WhatIf {
  constructor() {
    this.curve = null;
    this.steps = [];
    byId("limit").addEventListener("input", () => this.told());
    byId("curve-phase").addEventListener("change", () => this.draw());
  }

  // workload: of the answer; prediction: of its limits, or null.
  show(workload, prediction) {
    Object.assign(this, { workload, prediction });
    const phases = [...new Set(workload.points.flatMap((point) => Object.keys(point.times_s)))];
    const kept = byId("curve-phase").value;
    const chosen = phases.includes(kept) ? kept : phases.includes("total") ? "total" : phases[0];
    fill(byId("curve-phase"), ...phases.map((phase) => el("option", { value: phase, selected: phase === chosen }, subject(phase, workload))));
    this.draw();
  }

  draw() {
    const before = this.steps[Number(byId("limit").value)]?.limit_bytes;
    const { points } = this.workload;
    this.phase = byId("curve-phase").value;
    this.tried = points.filter((point) => !point.unlimited && point.limit_bytes);
    const predicted = (this.prediction?.at ?? []).map((at) => this.step(at)).filter(Boolean).reverse();
    this.steps = this.merged(predicted);
    const any = this.steps.length > 0;
    for (const id of ["curve", "limit-box", "limit-words", "limit-layers"]) byId(id).hidden = !any;
    byId("curve-phase-box").hidden = !any || byId("curve-phase").options.length < 2;
    this.curve?.close();
    this.curve = null;
    if (!any) {
      byId("limit-words").hidden = false;
      byId("limit-words").textContent = "No limit was tried in this sweep, so there is no curve. Start a sweep with limits, for example max, 75%, 50%.";
      return;
    }
    this.curve = new Curve(byId("curve"), {
      measured: this.tried.filter((point) => point.slowdowns[this.phase]).map((point) => spread(point, this.phase)),
      killed: this.tried.filter((point) => !this.finished(point)).map((point) => point.limit_bytes),
      predicted: predicted.filter((one) => one.viable), demand: this.workload.demand_bytes, pick: (limit) => this.choose(limit),
    });
    byId("limit").max = String(this.steps.length - 1);
    this.choose(before ?? this.steps[Math.floor(this.steps.length / 3)].limit_bytes);
  }

  finished(point) {
    return Boolean(point.outcomes.ok);
  }

  // Measured limits, and predicted ones between them; a predicted limit near a measured one is told with it.
  merged(predicted) {
    const near = (point) => predicted.find((one) => Math.abs(one.limit_bytes / point.limit_bytes - 1) < NEAR);
    const measured = this.tried.map((point) => ({ ...near(point), point, limit_bytes: point.limit_bytes, viable: this.finished(point) }));
    const taken = new Set(this.tried.map(near));
    return [...measured, ...predicted.filter((one) => !taken.has(one))].sort((a, b) => a.limit_bytes - b.limit_bytes);
  }

  // One predicted limit, for the chosen phase. A pipeline has a phase for each of its networks.
  step(at) {
    // At a cliff without points between there are two times, not one.
    const phases = at.phases.filter((one) => one.phase === this.phase && one.slowdown !== null);
    if (phases.length !== 1) return null;
    const [one] = phases;
    return { ...at, phase: one, slowdown: one.slowdown, low: one.low_s && one.low_s / one.unlimited_s, high: one.high_s && one.high_s / one.unlimited_s };
  }

  choose(limit) {
    const off = this.steps.map((one) => Math.abs(Math.log(one.limit_bytes / limit)));
    byId("limit").value = String(off.indexOf(Math.min(...off)));
    this.told();
  }

  told() {
    const at = this.steps[Number(byId("limit").value)];
    const demand = this.workload.demand_bytes;
    const limit = `${bytes(Math.round(at.limit_bytes))}${demand ? `, ${percent(at.limit_bytes / demand)} of what it needs` : ""}`;
    byId("limit").setAttribute("aria-valuetext", limit);
    const { point } = at;
    byId("limit-words").textContent = `${limit}: ${[point && this.measuredWords(point), at.phase && predictedWords(at, this.workload)].filter(Boolean).join(" ")}`;
    const layers = (at.viable && at.layers) || [];
    fill(byId("limit-layers"), layers.length ? el("li", { class: "hint" }, "Layers that add most of the time:") : null, ...layers.map((layer) =>
      el("li", {}, el("span", {}, layer.name), el("meter", { min: 0, max: 1, value: layer.share, "aria-label": `${layer.name}'s share of the added time` }), el("span", {}, percent(layer.share)))));
    this.curve.choose(at.limit_bytes);
  }

  measuredWords(point) {
    const found = point.slowdowns[this.phase];
    const time = point.times_s[this.phase];
    const lost = this.finished(point) && Object.keys(point.outcomes).length === 1 ? "" : ` (${outcomeWords(point.outcomes)})`;
    if (!time) return `measured, no trial finished${lost}.`;
    return `measured, ${subject(this.phase, this.workload)} takes ${seconds(time[1])}${found ? `, ${times(found[1])} the time without a limit` : ""}${lost}.`;
  }
}

// "total" is a steady round, the only one, or the whole trial.
const subject = (phase, workload) => (phase === "total" ? workload.pass_words : phaseWords(phase));

const spread = (point, phase) => {
  const [low, median, high] = point.slowdowns[phase];
  return { limit_bytes: point.limit_bytes, low, median, high };
};

function predictedWords(at, workload) {
  if (!at.point && !at.viable) return "predicted to be killed for memory.";
  const interval = at.low && at.high ? ` (90 % of trials between ${times(at.low)} and ${times(at.high)})` : "";
  const least = at.phase.at_least ? " or more" : "";
  return `predicted, ${subject(at.phase.phase, workload)} takes ${seconds(at.phase.seconds)}${least}, ${times(at.slowdown)} the time without a limit${interval} (${at.source}).`;
}

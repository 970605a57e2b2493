// The form, drawn from the scenario's keys as the server sends them; only the server checks it.

import { byId, el, fill, say } from "./dom.js";
import { seconds } from "./format.js";
import { get, post } from "./api.js";
import { control, setValue, valueOf } from "./field.js";
import { presets } from "./presets.js";

const TITLES = { workload: "Workload", limits: "Limits", scenario: "Sweep", sampler: "Sampling", memory: "Other ways to measure memory", around: "Load from outside" };
const ORDER = ["workload", "limits", "scenario"];
// Shown though they have a default: what most sweeps set.
const SHOWN = new Set(["workload.network", "workload.batch", "workload.optimizer", "workload.steps", "limits.board", "limits.memory", "limits.swap", "scenario.name", "scenario.repeats"]);
let tables = null;

export async function showForm() {
  if (tables) return;
  try {
    tables = await get("/api/form");
  } catch (error) {
    fill(byId("form"), el("p", { class: "fault" }, error.message));
    return;
  }
  fill(byId("presets"), presets(usePreset));
  draw(Object.keys(tables.workload)[0]);
}

function usePreset(kind, values) {
  const kept = byId("field-workload.kind").value === kind && !("workload.network" in values);
  const network = kept ? valueOf("workload", keyNamed(kind, "workload.network")) : undefined;
  draw(kind, values);
  if (network) setValue("workload", keyNamed(kind, "workload.network"), network);
  const target = byId("field-workload.network");
  target.closest("fieldset").scrollIntoView({ block: "start" });
  target.focus();
  say(`The form is filled in: ${"workload.network" in values ? "look through it" : "choose the network"}, then start the sweep.`);
}

const keyNamed = (kind, path) => {
  const [table, name] = path.split(".");
  return (table === "workload" ? tables.workload[kind] : tables[table]).find((key) => key.name === name);
};

// `values`: by key, what a preset sets.
function draw(kind, values = {}) {
  const names = [...ORDER, ...Object.keys(tables).filter((name) => !ORDER.includes(name))];
  const kinds = el("select", { id: "field-workload.kind", onchange: (event) => draw(event.target.value) },
    ...Object.keys(tables.workload).map((name) => el("option", { value: name, selected: name === kind }, name)));
  const sets = names.map((name) => {
    const keys = name === "workload" ? tables.workload[kind] : tables[name];
    const isShown = (key) => key.required || SHOWN.has(`${name}.${key.name}`) || `${name}.${key.name}` in values;
    const shown = keys.filter(isShown).map((key) => control(name, key));
    const rest = keys.filter((key) => !isShown(key)).map((key) => control(name, key));
    if (name === "workload") shown.unshift(el("div", { class: "field" }, el("label", { for: kinds.id }, "kind"), kinds));
    return ORDER.includes(name) ? set(TITLES[name], shown, rest) : folded(TITLES[name] ?? name, rest);
  });
  fill(byId("form"), ...sets.slice(0, ORDER.length), ...sets.slice(ORDER.length), el("div", { id: "form-status", role: "status", "aria-live": "polite" }),
    el("p", { class: "buttons" },
      el("button", { type: "submit", class: "main" }, "Start sweep"),
      el("button", { type: "button", id: "check", onclick: () => send("/api/check") }, "Check only")));
  for (const [path, value] of Object.entries(values)) setValue(path.split(".")[0], keyNamed(kind, path), value);
  byId("form").onsubmit = (event) => {
    event.preventDefault();
    send("/api/start");
  };
}

function set(title, shown, rest) {
  const more = rest.length ? el("details", {}, el("summary", {}, `${rest.length} more settings, at their defaults`), el("div", { class: "fields" }, ...rest)) : null;
  return el("fieldset", {}, el("legend", {}, title), el("div", { class: "fields" }, ...shown), more);
}

function folded(title, fields) {
  return el("details", { class: "card" }, el("summary", {}, title), el("div", { class: "fields" }, ...fields));
}

function filledIn() {
  const kind = byId("field-workload.kind").value;
  const sent = {};
  for (const [name, keys] of Object.entries({ ...tables, workload: tables.workload[kind] })) {
    const values = keys.map((key) => [key.name, valueOf(name, key)]).filter(([, value]) => value !== undefined);
    sent[name] = Object.fromEntries(values);
  }
  sent.workload.kind = kind;
  return sent;
}

async function send(path) {
  const buttons = byId("form").querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  fill(byId("form-status"), "Checking …");
  try {
    showAnswer(await post(path, filledIn()));
  } catch (error) {
    fill(byId("form-status"), el("p", { class: "fault" }, error.message));
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

function showAnswer(answer) {
  clearFaults();
  if (answer.faults) {
    showFaults(answer.faults);
    return;
  }
  if (answer.started) {
    say(`Sweep ${answer.started} is started.`);
    location.hash = "#live";
    return;
  }
  const words = `No errors: ${answer.points} ${answer.points === 1 ? "point" : "points"}, ${answer.trials} ${answer.trials === 1 ? "trial" : "trials"}. Takes at most ${seconds(answer.longest_s)} (if every trial reaches its timeout).`;
  fill(byId("form-status"), el("p", {}, words), el("ul", { class: "warnings" }, ...answer.warnings.map((one) => el("li", {}, one))));
}

function clearFaults() {
  for (const fault of byId("form").querySelectorAll(".field .fault")) fault.remove();
  for (const field of byId("form").querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

function showFaults(faults) {
  const rest = [];
  let first = null;
  for (const { key, says } of faults) {
    const field = fieldOf(key);
    if (!field) {
      rest.push(el("p", { class: "fault" }, `${key}: ${says}`));
      continue;
    }
    first ??= field;
    const id = `${field.id}-fault`;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", id);
    field.closest(".field").append(el("span", { class: "fault", id }, says));
    field.closest("details")?.setAttribute("open", "");
  }
  fill(byId("form-status"), el("p", { class: "fault" }, faults.length === 1 ? "1 error" : `${faults.length} errors`), ...rest);
  first?.focus();
}

function fieldOf(key) {
  const plain = key.replace(/\[.*$/, "");
  return byId(`field-${plain}`) ?? byId(`field-scenario.${plain}`);
}

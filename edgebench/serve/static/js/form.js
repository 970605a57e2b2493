// The form, drawn from what the server says a scenario's keys are; checked by the server alone.

import { byId, el, fill, say } from "./dom.js";
import { seconds } from "./format.js";
import { get, post } from "./api.js";
import { control, valueOf } from "./field.js";

const TITLES = { workload: "Workload", limits: "Limits", scenario: "Sweep" };
// Shown first and open; every other table is folded.
const ORDER = ["workload", "limits", "scenario"];
let tables = null;

export async function showForm() {
  if (tables) return;
  try {
    ({ tables } = await get("/api/form"));
  } catch (error) {
    fill(byId("form"), el("p", { class: "fault" }, error.message));
    return;
  }
  draw(Object.keys(tables.workload)[0]);
}

function draw(kind) {
  const names = [...ORDER, ...Object.keys(tables).filter((name) => !ORDER.includes(name))];
  const kinds = el("select", { id: "field-workload.kind", onchange: (event) => draw(event.target.value) },
    ...Object.keys(tables.workload).map((name) => el("option", { value: name, selected: name === kind }, name)));
  const sets = names.map((name) => {
    const keys = name === "workload" ? tables.workload[kind] : tables[name];
    const fields = keys.map((key) => control(name, key));
    if (name === "workload") fields.unshift(el("div", { class: "field" }, el("label", { for: kinds.id }, "kind"), kinds));
    return ORDER.includes(name) ? set(TITLES[name], fields) : folded(name, fields);
  });
  fill(byId("form"), ...sets, el("div", { id: "form-said", role: "status", "aria-live": "polite" }),
    el("p", { class: "buttons" },
      el("button", { type: "submit", class: "main" }, "Start sweep"),
      el("button", { type: "button", id: "check", onclick: () => send("/api/check") }, "Check only")));
  byId("form").onsubmit = (event) => {
    event.preventDefault();
    send("/api/jobs");
  };
}

const set = (title, fields) => el("fieldset", {}, el("legend", {}, title), el("div", { class: "fields" }, ...fields));

function folded(name, fields) {
  return el("details", {}, el("summary", {}, `More: ${name}`), set(name, fields));
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
  fill(byId("form-said"), "Checking …");
  try {
    told(await post(path, filledIn()));
  } catch (error) {
    fill(byId("form-said"), el("p", { class: "fault" }, error.message));
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

function told(answer) {
  clearFaults();
  if (answer.faults) {
    showFaults(answer.faults);
    return;
  }
  const warnings = el("ul", { class: "warnings" }, ...answer.warnings.map((words) => el("li", {}, words)));
  if (answer.job) {
    say(`Sweep ${answer.job.name} is queued.`);
    location.hash = "#live";
    return;
  }
  const words = `Right: ${answer.points} points, ${answer.trials} trials; ${seconds(answer.longest_s)} at most, if every trial ran into its timeout.`;
  fill(byId("form-said"), el("p", {}, words), warnings);
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
  fill(byId("form-said"), el("p", { class: "fault" }, faults.length === 1 ? "1 fault" : `${faults.length} faults`), ...rest);
  first?.focus();
}

function fieldOf(key) {
  const plain = key.replace(/\[.*$/, "");
  return byId(`field-${plain}`) ?? byId(`field-scenario.${plain}`);
}

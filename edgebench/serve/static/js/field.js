// One key of the form: its control, and the value that was filled in.

import { byId, el } from "./dom.js";

const UNITS = {
  duration: "a duration, as 500ms, 90s or 10m", size: "a size, as 512M or 2G", limit: "limits, as max, 75%, 150M",
  swap: "none, system, or a size as 2G for a temporary swap file", name: "a-z, 0-9 and -", int: "whole number", float: "number",
  shape: "channels x height x width, as 3x224x224", part: "all, none, last, layers 40% or filters 40%",
};
const FEW = 6;

const idOf = (table, key) => `field-${table}.${key.name}`;

export function control(table, key) {
  const id = idOf(table, key);
  const words = `${key.name}${key.required ? " (needed)" : ""}`;
  if (key.type === "choice" && key.many && key.choices.length <= FEW) return boxes(id, key, words);
  const made = key.type === "choice" ? choice(id, key) : key.type === "switch" ? switched(id, key) : text(id, key);
  return el("div", { class: "field" }, el("label", { for: id }, words), made, hint(id, key));
}

function hint(id, key) {
  const range = [key.least !== null ? `from ${key.least}` : "", key.most !== null ? `to ${key.most}` : ""].filter(Boolean).join(" ");
  const kind = [UNITS[key.type], range].filter(Boolean).join(" ");
  const several = key.many && key.type !== "limit" ? "several with commas make an axis" : "";
  const listed = key.type === "choice" || key.type === "switch";
  const words = listed ? (key.many ? "one or several" : "") : [kind, several].filter(Boolean).join("; ");
  return el("span", { class: "hint", id: `${id}-hint` }, words);
}

const list = (value) => (value === null || value === undefined ? [] : Array.isArray(value) ? value : [value]);

function start(key) {
  const given = list(key.default);
  return given.length || !key.required ? given : list(key.example);
}

function text(id, key) {
  const value = key.name === "name" ? "from-the-page" : start(key).join(", ");
  return el("input", { id, value, "aria-describedby": `${id}-hint`, autocomplete: "off", spellcheck: "false",
    inputmode: key.type === "int" && !key.many ? "numeric" : null, required: key.required });
}

function switched(id, key) {
  if (key.many) return choice(id, { ...key, choices: ["false", "true"], default: list(key.default).map(String) });
  return el("input", { id, type: "checkbox", checked: Boolean(key.default) });
}

function choice(id, key) {
  // An axis without a default starts with its first example, so that the form can be sent as it is.
  const chosen = list(key.default).length ? list(key.default) : key.name === "network" ? list(key.example).slice(0, 1) : [];
  const options = key.choices.map((name) => el("option", { value: name, selected: chosen.map(String).includes(name) }, name));
  if (!key.many && !key.required && key.default === null) options.unshift(el("option", { value: "" }, "(left out)"));
  return el("select", { id, multiple: key.many, size: key.many ? Math.min(6, key.choices.length) : null }, ...options);
}

function boxes(id, key, words) {
  const chosen = list(key.default);
  const made = key.choices.map((name) =>
    el("label", {}, el("input", { type: "checkbox", name: id, value: name, checked: chosen.includes(name) }), ` ${name}`));
  return el("div", { class: "field", role: "group", "aria-labelledby": `${id}-label` },
    el("span", { class: "label", id: `${id}-label` }, words), el("div", { class: "choices", id, tabindex: "-1" }, ...made));
}

// The key's value as a scenario would hold it; undefined if it was left out.
// What is as it would be anyway is left out too: the scenario then says only what was chosen.
export function valueOf(table, key) {
  const value = filledIn(table, key);
  const same = key.default !== null && String(list(value)) === String(list(key.default));
  return same ? undefined : value;
}

function filledIn(table, key) {
  const field = byId(idOf(table, key));
  const values = key.type === "choice" || (key.type === "switch" && key.many) ? chosen(field) : null;
  if (values) {
    const plain = key.type === "switch" ? values.map((value) => value === "true") : values;
    return plain.length === 0 ? undefined : key.many ? plain : plain[0];
  }
  if (key.type === "switch") return field.checked;
  const words = field.value.trim();
  if (words === "") return undefined;
  if (!key.many) return typed(key, words);
  return words.split(",").map((word) => word.trim()).filter(Boolean).map((word) => typed(key, word));
}

function chosen(field) {
  if (field instanceof HTMLSelectElement) return [...field.selectedOptions].map((option) => option.value).filter(Boolean);
  return [...field.querySelectorAll("input:checked")].map((box) => box.value);
}

function typed(key, word) {
  // What is no number goes as it is: the server's check then says what is wrong.
  if (key.type === "int" && /^-?\d{1,15}$/.test(word)) return Number(word);
  if (key.type === "float" && word !== "" && Number.isFinite(Number(word))) return Number(word);
  return word;
}

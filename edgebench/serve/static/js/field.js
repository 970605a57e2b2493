// One key of the form: its control, and the value that was filled in.

import { byId, el } from "./dom.js";
import { comboBox } from "./combobox.js";
import { keyWords } from "./words.js";

const UNITS = {
  duration: "a duration, for example 500ms, 90s or 10m", size: "a size, for example 512M or 2G", limit: "limits separated by commas, for example max, 75%, 150M",
  swap: "none, system, zram:1G, or a size such as 2G for a temporary swap file", name: "a-z, 0-9 and -", int: "whole number", float: "number",
  storage: "as-is, a kind of storage such as sd-a1, or speeds such as read=90MB/s,read_iops=2000",
  shape: "channels x height x width, for example 3x224x224", part: "all, none, last, layers 40% or filters 40%",
};
const FEW = 6;
// A speed of storage has commas of its own.
const separator = (key) => (key.type === "storage" ? ";" : ",");
// The searchable lists of the form that is shown, by id.
const combos = new Map();

const LIST_HINTS = {
  network: (key) => `${key.choices.length} known networks${key.many ? "; several: each is run" : ""}`,
  board: () => "sets memory, cores, storage and swap where you leave them as they are; several: each is emulated",
};

const idOf = (table, key) => `field-${table}.${key.name}`;

export function control(table, key) {
  const id = idOf(table, key);
  combos.delete(id);
  const words = `${keyWords(key.name)}${key.required ? " (required)" : ""}`;
  if (key.type === "choice" && key.choices.length > FEW) return searched(id, key, words);
  if (key.type === "choice" && key.many) return boxes(id, key, words);
  const made = key.type === "choice" ? choice(id, key) : key.type === "switch" ? switched(id, key) : text(id, key);
  return el("div", { class: "field" }, el("label", { for: id }, words), made, hint(id, key));
}

function hint(id, key) {
  const range = [key.least !== null ? `from ${key.least}` : "", key.most !== null ? `to ${key.most}` : ""].filter(Boolean).join(" ");
  const kind = [UNITS[key.type], range].filter(Boolean).join(" ");
  const several = key.many && key.type !== "limit" ? `separate several values by ${key.type === "storage" ? "semicolons" : "commas"}: each is run` : "";
  const listed = key.type === "choice" || key.type === "switch";
  const words = listed ? (key.many ? "select one or several" : "") : [kind, several].filter(Boolean).join("; ");
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

// A network without a default starts with its first example, so that the form can be sent at once.
const chosenAtFirst = (key) => (list(key.default).length ? list(key.default) : key.name === "network" ? list(key.example).slice(0, 1) : []);

function searched(id, key, words) {
  // A network may be one that the list doesn't have: the server's check says whether it can be run.
  const combo = comboBox({ id, label: words, options: key.choices, values: chosenAtFirst(key), many: key.many, free: key.name === "network", describedBy: `${id}-hint` });
  combos.set(id, combo);
  const hint = LIST_HINTS[key.name]?.(key) ?? (key.many ? "choose one or several" : "");
  combo.box.classList.add("field");
  combo.box.append(el("span", { class: "hint", id: `${id}-hint` }, hint));
  return combo.box;
}

function choice(id, key) {
  const chosen = chosenAtFirst(key);
  const options = key.choices.map((name) => el("option", { value: name, selected: chosen.map(String).includes(name) }, name));
  if (!key.many && !key.required && key.default === null) options.unshift(el("option", { value: "" }, "(not set)"));
  return el("select", { id, multiple: key.many, size: key.many ? Math.min(6, key.choices.length) : null }, ...options);
}

function boxes(id, key, words) {
  const chosen = list(key.default);
  const made = key.choices.map((name) =>
    el("label", {}, el("input", { type: "checkbox", name: id, value: name, checked: chosen.includes(name) }), ` ${name}`));
  return el("div", { class: "field", role: "group", "aria-labelledby": `${id}-label` },
    el("span", { class: "label", id: `${id}-label` }, words), el("div", { class: "choices", id, tabindex: "-1" }, ...made));
}

// The key's value as in a scenario; undefined if it is empty, or the default: the scenario then has
// only what was changed.
export function valueOf(table, key) {
  const value = filledIn(table, key);
  const same = key.default !== null && String(list(value)) === String(list(key.default));
  return same ? undefined : value;
}

function filledIn(table, key) {
  const combo = combos.get(idOf(table, key));
  if (combo) return combo.values.length === 0 ? undefined : key.many ? combo.values : combo.values[0];
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
  return words.split(separator(key)).map((word) => word.trim()).filter(Boolean).map((word) => typed(key, word));
}

function chosen(field) {
  if (field instanceof HTMLSelectElement) return [...field.selectedOptions].map((option) => option.value).filter(Boolean);
  return [...field.querySelectorAll("input:checked")].map((box) => box.value);
}

// Fill in a field; `value` is a text, or a list of choices.
export function setValue(table, key, value) {
  const id = idOf(table, key);
  const field = byId(id);
  if (combos.has(id)) combos.get(id).set(list(value));
  else if (field instanceof HTMLInputElement) field.value = String(value);
  else for (const one of field.querySelectorAll("input, option")) one[one.tagName === "OPTION" ? "selected" : "checked"] = list(value).includes(one.value);
}

function typed(key, word) {
  // Anything but a number is sent as it is: the server's check says what is wrong.
  if (key.type === "int" && /^-?\d{1,15}$/.test(word)) return Number(word);
  if (key.type === "float" && word !== "" && Number.isFinite(Number(word))) return Number(word);
  return word;
}

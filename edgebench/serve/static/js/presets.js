// Questions that fill in the form: the reader changes what differs.

import { el } from "./dom.js";

// Each gives the form's values by key; the kind of workload where it isn't inference.
const PRESETS = [
  { title: "How slow does it get with less memory?", words: "Five limits, from none to 40 % of what the network needs, with swap.",
    values: { "scenario.name": "less-memory", "limits.memory": "max, 85%, 70%, 55%, 40%", "limits.swap": "2G", "workload.rounds": "2", "workload.schedule": ["bulk"] } },
  { title: "A quick look", words: "Without a limit and at half of it, one trial each.",
    values: { "scenario.name": "quick-look", "limits.memory": "max, 50%", "limits.swap": "2G", "scenario.repeats": "1" } },
  { title: "How much memory does a larger batch take?", words: "Batches of 1, 4 and 16 without a limit.",
    values: { "scenario.name": "batches", "limits.memory": "max", "workload.batch": "1, 4, 16" } },
  { title: "How many tokens per second?", words: "A small language model (GPT-2, random weights) generates text with less and less memory, with swap.",
    values: { "scenario.name": "tokens", "workload.network": ["transformers:gpt2"], "workload.prompt": "32", "workload.new_tokens": "16", "limits.memory": "max, 75%, 50%", "limits.swap": "2G" } },
  { title: "How much memory does training take?", words: "Ten steps with two optimizers, without a limit.", kind: "training",
    values: { "scenario.name": "training", "limits.memory": "max", "workload.optimizer": ["sgd", "adam"], "workload.steps": "10" } },
  { title: "Does it fit a board?", words: "A board's memory, cores, storage and swap: choose the board.",
    values: { "scenario.name": "fits-a-board", "limits.board": ["raspberry-pi-4-1g"] } },
];

// use(kind, values): fills in the form.
export function presets(use) {
  const button = ({ title, words, kind = "inference", values }) =>
    el("button", { type: "button", class: "preset", onclick: () => use(kind, values) }, el("strong", {}, title), el("span", {}, words));
  return el("section", { "aria-labelledby": "presets-title" },
    el("h3", { id: "presets-title" }, "Start from a question"),
    el("div", { class: "cards" }, ...PRESETS.map(button)));
}

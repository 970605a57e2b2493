// What stands where there is no sweep: three questions with their commands, and something to look at.

import { el, fill } from "./dom.js";

const QUESTIONS = [
  ["How much memory does my program need?", "edgebench minimum -- python3 my_program.py", "Runs it under one limit after another, until it is killed or too slow."],
  ["How slow is a network with less memory, and which layer is to blame?", "edgebench run quickstart", "AlexNet, walked through memory limits: one to two minutes on two cores. The answer appears here."],
  ["Will it finish within this limit?", "edgebench measure --memory 300M --swap 2G -- python3 train.py", "One trial under the limit, measured from outside."],
];

export function showEmpty(host) {
  const card = ([question, command, words]) => el("section", { class: "card" }, el("h3", {}, question), el("pre", { tabindex: "0", "aria-label": "command" }, command), el("p", { class: "hint" }, words));
  fill(host,
    el("div", { class: "cards" }, ...QUESTIONS.map(card)),
    el("p", { class: "buttons" }, el("a", { class: "button main", href: "#new" }, "Start a sweep in this page")),
    el("p", {}, "A clone of edgebench has sweeps to look at: ", el("code", {}, "edgebench serve results"), "."));
}

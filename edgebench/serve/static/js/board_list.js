// Does it fit a board: the board's memory, less what its system keeps, against what is needed; and how slow it is with the
// board's storage.

import { get } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { BOARDS, MIB } from "./boards.js";
import { bytes } from "./format.js";
import { times } from "./words.js";

// A board's answer is of this much memory, give or take a rounding.
const SAME = 0.001;
let whatIf = null;
// Of which sweep, and by workload and board what it does there; null until the server answers.
let sweep = null;
let told = null;

export function showBoards(shown) {
  whatIf = shown;
  draw();
}

export function forgetBoards() {
  sweep = told = null;
}

// Ask how each workload does on the boards that don't hold all of it.
export async function askBoards(name) {
  sweep = name;
  const typed = typedReserve();
  const reserve = typed === null ? "" : String(Math.round(typed * MIB));
  const found = await get(`/api/predictions/boards?${new URLSearchParams({ sweep: name, reserve })}`).catch(() => null);
  if (!found || sweep !== name || typed !== typedReserve()) return;
  told = found.workloads;
  if (whatIf) draw();
}

function typedReserve() {
  const typed = byId("reserve").value.trim();
  return typed !== "" && Number(typed) >= 0 ? Number(typed) : null;
}

// What is left beside the system: as typed, else as the board's file says.
const left = (board) => {
  const typed = typedReserve();
  return typed === null ? board.left_bytes : board.usable_bytes - typed * MIB;
};

function draw() {
  if (!whatIf.workload.demand_bytes) return;
  fill(byId("board-list"), ...BOARDS.map(row));
  byId("boards-note").textContent =
    `The answer is about memory, with the swap of this sweep. Where it doesn't fit, its time is predicted with the board's storage, from counted bytes where a walk counted them, else from the sizes of its layers; the CPU is this machine's, so read “×2” as twice as slow as with memory to spare. What its system uses is as published for the board, or 256 MiB where nothing is: free --mebi on the board tells it.`;
}

function row(board) {
  const [state, words] = verdict(board, left(board));
  const mark = { good: "✓", slow: "~", bad: "✕", unknown: "?" }[state];
  return el("li", { class: state }, el("span", { class: "mark", "aria-hidden": "true" }, mark), el("strong", {}, board.title), el("span", {}, words));
}

// The libraries that a program maps take their part of the board; no limit of a sweep counts them.
function verdict(board, onBoard) {
  const need = whatIf.workload.demand_bytes;
  const libraries = whatIf.workload.library_bytes ?? 0;
  const room = onBoard - libraries;
  const beside = libraries ? ` beside ${bytes(libraries)} of libraries` : "";
  if (onBoard <= 0) return ["bad", "no memory is left beside the system"];
  if (room <= 0) return ["bad", `no memory is left${beside}`];
  if (room >= need) return ["good", `fits: it needs ${bytes(need)}${beside}, of ${bytes(onBoard)}`];
  const there = told?.find((one) => one.name === whatIf.workload.name)?.boards[board.name];
  if (there && Math.abs(there.limit_bytes / room - 1) < SAME) return onItsStorage(there, `${bytes(room)}${beside}`);
  const at = whatIf.within(room);
  if (!at) return ["unknown", `${bytes(room)}${beside} is less than any limit known here`];
  if (!at.viable) return ["bad", `is killed with ${bytes(room)}${beside}`];
  const found = at.point?.slowdowns[whatIf.phase]?.[1];
  const how = `${found ? "measured" : "predicted"} at ${bytes(Math.round(at.limit_bytes))}, with this machine's storage`;
  return ["slow", `finishes with ${bytes(room)}${beside}, taking about ${times(found ?? at.slowdown)} the time (${how})`];
}

// Predicted for the board's own storage.
function onItsStorage(there, room) {
  const total = there.phases.find((one) => one.phase === "total");
  if (!there.viable) return ["bad", `is killed with ${room} (predicted)`];
  if (!total?.slowdown) return ["unknown", `finishes with ${room}; how long it takes is unknown`];
  return ["slow", `finishes with ${room}, taking about ${times(total.slowdown)} the time (${there.source})`];
}

byId("reserve").addEventListener("input", draw);
byId("reserve").addEventListener("change", () => sweep && askBoards(sweep));

// Does it fit a board: the board's memory, less what its system keeps, against the sweep's answer.

import { byId, el, fill } from "./dom.js";
import { BOARDS, MIB } from "./boards.js";
import { bytes } from "./format.js";
import { times } from "./words.js";

let whatIf = null;

export function showBoards(shown) {
  whatIf = shown;
  draw();
}

// What is left beside the system: as typed, else as the board's file says.
const left = (board) => {
  const typed = byId("reserve").value.trim();
  return typed !== "" && Number(typed) >= 0 ? board.usable_bytes - Number(typed) * MIB : board.left_bytes;
};

function draw() {
  if (!whatIf.workload.demand_bytes) return;
  fill(byId("board-list"), ...BOARDS.map(row));
  byId("boards-note").textContent =
    `The answer is about memory, with the swap of this sweep. A board's own speed and its storage differ from this machine's, so read “×2” as twice as slow as the same board with memory to spare. What its system uses is as published for the board, or 256 MiB where nothing is: free --mebi on the board tells it.`;
}

function row(board) {
  const [state, words] = verdict(left(board));
  const mark = { good: "✓", slow: "~", bad: "✕", unknown: "?" }[state];
  return el("li", { class: state }, el("span", { class: "mark", "aria-hidden": "true" }, mark), el("strong", {}, board.title), el("span", {}, words));
}

// The libraries that a program maps take their part of the board; no limit of a sweep counts them.
function verdict(onBoard) {
  const need = whatIf.workload.demand_bytes;
  const libraries = whatIf.workload.library_bytes ?? 0;
  const room = onBoard - libraries;
  const beside = libraries ? ` beside ${bytes(libraries)} of libraries` : "";
  if (onBoard <= 0) return ["bad", "no memory is left beside the system"];
  if (room <= 0) return ["bad", `no memory is left${beside}`];
  if (room >= need) return ["good", `fits: it needs ${bytes(need)}${beside}, of ${bytes(onBoard)}`];
  const at = whatIf.within(room);
  if (!at) return ["unknown", `${bytes(room)}${beside} is less than any limit known here`];
  if (!at.viable) return ["bad", `is killed with ${bytes(room)}${beside}`];
  const found = at.point?.slowdowns[whatIf.phase]?.[1];
  const how = `${found ? "measured" : "predicted"} at ${bytes(Math.round(at.limit_bytes))}`;
  return ["slow", `finishes with ${bytes(room)}${beside}, taking about ${times(found ?? at.slowdown)} the time (${how})`];
}

byId("reserve").addEventListener("input", draw);

// The live view. The stream sends the full state first, then the changes; so a reload, a second
// browser or a lost connection loses nothing.

import { events } from "./api.js";
import { byId, el, fill, say } from "./dom.js";
import { count, seconds } from "./format.js";
import { showStarted } from "./started.js";
import { SystemChart } from "./system.js";
import { TrialView } from "./trial.js";
import { refreshAnswer } from "./answer.js";
import { OUTCOMES, sweepWords } from "./words.js";

const trial = new TrialView();
const system = new SystemChart();

// A sweep that runs is read again no more often than this.
const REFRESH_MS = 20_000;
let refreshed = 0;
let before = null;

// After a lost connection, and after the server's own end, it is tried again.
const AGAIN_MS = 3_000;

const SHOW = {
  state(data) {
    showProgress(data);
    system.replace(data.system);
    trial.show(data.trial);
  },
  progress: showProgress,
  system: (data) => system.add(data.rows),
  trial: (data) => trial.show(data),
  update: (data) => trial.update(data),
};

export function startLive() {
  let left = new AbortController();
  follow(left.signal);
  // A browser may keep a page that was left; its stream would hold one of the few connections
  // that a browser makes to one server.
  window.addEventListener("pagehide", () => left.abort());
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    left = new AbortController();
    follow(left.signal);
  });
}

async function follow(signal) {
  while (!signal.aborted) {
    try {
      for await (const [kind, data] of events("/api/live", signal)) {
        if (kind === "state") say("Connected.");
        SHOW[kind](data);
      }
    } catch (error) {
      if (error.refused) {
        say(error.message, true);
        return;
      }
      if (!signal.aborted) console.error(error);
    }
    if (!signal.aborted) say("Connection lost; reconnecting …", true);
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function showProgress({ sweep, started }) {
  showStarted(started);
  const problems = [...(sweep?.reasons ?? []).map((words) => `Problem in a trial: ${words}`), ...(sweep?.warnings ?? [])];
  fill(byId("sweep-warnings"), ...problems.map((words) => el("li", {}, words)));
  byId("sweep-progress").hidden = !sweep;
  showRunning(sweep);
  if (!sweep) {
    byId("sweep-words").textContent = "No sweep is running.";
    fill(byId("outcomes"));
    return;
  }
  const words = progressWords(sweep);
  byId("sweep-words").textContent = words;
  byId("sweep-progress").max = sweep.total ?? 1;
  byId("sweep-progress").value = sweep.done;
  const outcomes = Object.entries(sweep.outcomes).sort();
  fill(byId("outcomes"), ...outcomes.map(([outcome, n]) => el("li", {}, `${count(n)} ${OUTCOMES[outcome] ?? outcome}`)));
  say(`${sweep.running ? "Sweep running" : "Sweep ended"}: ${sweep.done} of ${sweep.total ?? "?"} trials.`);
}

// The strip above the answer, and the answer itself as the sweep grows.
function showRunning(sweep) {
  const running = Boolean(sweep?.running);
  byId("running").hidden = !running;
  if (running) {
    byId("running-words").textContent = progressWords(sweep);
    byId("running-progress").max = sweep.total ?? 1;
    byId("running-progress").value = sweep.done;
  }
  const grown = before && sweep && (before.name !== sweep.name || before.done !== sweep.done);
  const ended = before?.running && !running;
  if (ended || (grown && performance.now() - refreshed > REFRESH_MS)) {
    refreshed = performance.now();
    refreshAnswer();
  }
  before = sweep;
}

function progressWords(sweep) {
  const trials = `${sweep.done} of ${sweep.total ?? "an unknown number of"} trials`;
  const name = `${sweepWords(sweep.name)}, on device ${sweep.device}`;
  if (sweep.complete) return `${name}: complete, ${trials}.`;
  if (!sweep.running) return `${name}: stopped after ${trials}; finished trials are kept.`;
  const left = sweep.left_s === null ? "time left unknown" : `${seconds(sweep.left_s)} left`;
  return `${name}: ${trials}, ${left}.`;
}

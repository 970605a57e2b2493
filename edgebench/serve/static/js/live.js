// The live view. The stream first tells all that is known, then what changed; so a reload, a second
// browser or a lost connection loses nothing.

import { byId, el, fill, say } from "./dom.js";
import { count, seconds } from "./format.js";
import { showJobs } from "./jobs.js";
import { SystemChart } from "./system.js";
import { TrialView } from "./trial.js";

const trial = new TrialView();
const system = new SystemChart();

export function startLive() {
  let stream = open();
  // A page that was left may be kept for who comes back; its stream would hold one of the few
  // connections that a browser makes to one server.
  window.addEventListener("pagehide", () => stream.close());
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) stream = open();
  });
}

function open() {
  const stream = new EventSource("/api/live");
  const on = (kind, act) => stream.addEventListener(kind, (event) => act(JSON.parse(event.data)));
  on("whole", (data) => {
    showProgress(data);
    system.replace(data.system);
    trial.show(data.trial);
  });
  on("progress", showProgress);
  on("system", (data) => system.add(data.rows));
  on("trial", (data) => trial.show(data));
  on("news", (data) => trial.news(data));
  stream.onopen = () => say("Connected.");
  stream.onerror = () => say("The connection is lost; trying again …", true);
  return stream;
}

function showProgress({ sweep, jobs }) {
  showJobs(jobs);
  const doubts = [...(sweep?.reasons ?? []).map((words) => `A trial failed: ${words}`), ...(sweep?.warnings ?? [])];
  fill(byId("sweep-warnings"), ...doubts.map((words) => el("li", {}, words)));
  byId("sweep-progress").hidden = !sweep;
  if (!sweep) {
    byId("sweep-words").textContent = "No sweep runs now.";
    fill(byId("outcomes"));
    return;
  }
  const words = progressWords(sweep);
  byId("sweep-words").textContent = words;
  byId("sweep-progress").max = sweep.total ?? 1;
  byId("sweep-progress").value = sweep.done;
  const outcomes = Object.entries(sweep.outcomes).sort();
  fill(byId("outcomes"), ...outcomes.map(([outcome, n]) => el("li", {}, `${count(n)} ${outcome}`)));
  say(`${sweep.running ? "Sweep runs" : "Sweep ended"}: ${sweep.done} of ${sweep.total ?? "?"} trials.`);
}

function progressWords(sweep) {
  const trials = `${sweep.done} of ${sweep.total ?? "an unknown number of"} trials`;
  if (sweep.complete) return `${sweep.device}/${sweep.name}: complete, ${trials}.`;
  if (!sweep.running) return `${sweep.device}/${sweep.name}: stopped after ${trials}; what is finished is kept.`;
  const left = sweep.left_s === null ? "time left not known yet" : `${seconds(sweep.left_s)} left`;
  return `${sweep.device}/${sweep.name}: ${trials}, ${left}.`;
}

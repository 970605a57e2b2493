// Sweeps that were started from this page: stop them, remove them from the queue, run them again.

import { byId, el, fill, say } from "./dom.js";
import { post } from "./api.js";

const WORDS = {
  queued: "waiting", running: "running", stopping: "stopping", done: "done", stopped: "stopped", failed: "failed",
};
const AGAIN = { done: "Run again", stopped: "Continue", failed: "Try again" };

export function showJobs(jobs) {
  // Redrawn only when something changed, so that a button keeps its focus.
  const mark = JSON.stringify(jobs);
  const list = byId("jobs");
  if (list.dataset.mark === mark) return;
  list.dataset.mark = mark;
  const focused = document.activeElement?.dataset?.job;
  if (!jobs.length) {
    fill(list, el("li", {}, "None yet. ", el("a", { href: "#new" }, "Start a sweep")));
    return;
  }
  fill(list, ...jobs.map(row));
  if (focused) list.querySelector(`button[data-job="${CSS.escape(focused)}"]`)?.focus();
}

function row(job) {
  const queued = job.queued_utc.replace("T", " ").slice(0, 19);
  return el("li", { "data-state": job.state },
    el("strong", {}, job.name), el("span", {}, job.some_failed ? "done, but some trials failed" : WORDS[job.state]), el("span", { class: "hint" }, `queued ${queued} UTC`),
    button(job), job.error ? el("pre", { class: "said" }, job.error) : null);
}

function button(job) {
  const about = `${job.name}, queued ${job.queued_utc}`;
  const make = (words, path) =>
    el("button", { type: "button", "data-job": job.id, "aria-label": `${words}: ${about}`, onclick: () => act(path) }, words);
  if (job.state === "queued") return make("Remove", `/api/jobs/${job.id}/stop`);
  if (job.state === "running") return make("Stop", `/api/jobs/${job.id}/stop`);
  return job.state === "stopping" ? null : make(AGAIN[job.state], `/api/jobs/${job.id}/again`);
}

async function act(path) {
  try {
    await post(path);
  } catch (error) {
    say(error.message, true);
  }
}

// The sweep that was started from this page: how it stands, and its Stop.

import { byId, say } from "./dom.js";
import { post } from "./api.js";

const WORDS = {
  running: "is running", stopping: "is stopping", done: "is done", "some-failed": "is done, but some trials failed",
  stopped: "was stopped; start it again with the same settings to continue it", failed: "failed:",
};

export function showStarted(started) {
  byId("started").textContent = started ? `“${started.name}”, started from this page, ${WORDS[started.state]}` : "";
  byId("stop").hidden = !["running", "stopping"].includes(started?.state);
  byId("started-error").hidden = !started?.error;
  byId("started-error").textContent = started?.error ?? "";
}

byId("stop").addEventListener("click", () => post("/api/stop").catch((error) => say(error.message, true)));

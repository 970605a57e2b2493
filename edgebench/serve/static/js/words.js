// Names as words: a reader meets no folder's name without them.

export const PHASES = {
  import: "the import of the runtime", start: "the start (first round)", load: "loading", first: "first execution", execute: "warm execution", forward: "forward pass",
  backward: "backward pass", step: "optimizer's step", data: "reading data",
};

export const phaseWords = (phase) => PHASES[phase] ?? phase;

// "device/20261121T103950Z-quickstart-0491e2" as {scenario, when, device}.
export function sweepParts(name) {
  const cut = name.lastIndexOf("/");
  const [device, folder] = [name.slice(0, Math.max(cut, 0)), name.slice(cut + 1)];
  const found = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ-(.+?)(?:-[0-9a-f]{6})?$/.exec(folder);
  if (!found) return { scenario: folder, when: "", device };
  const [, year, month, day, hour, minute, scenario] = found;
  return { scenario, when: `${year}-${month}-${day} ${hour}:${minute} UTC`, device };
}

export function sweepWords(name) {
  const { scenario, when } = sweepParts(name);
  return [scenario, when].filter(Boolean).join(", ");
}

// A setting's or a column's name.
export const keyWords = (name) => name.replace(/_bytes$|_s$/, "").replaceAll("_", " ");

export const OUTCOMES = {
  ok: "finished", "oom-killed": "killed for memory", "accelerator-oom": "out of the accelerator's memory", timeout: "out of time", failed: "failed", "harness-error": "stopped by an error of edgebench",
  interrupted: "interrupted",
};

export const outcomeWords = (outcomes) =>
  Object.entries(outcomes ?? {}).sort().map(([name, n]) => `${n} ${OUTCOMES[name] ?? name}`).join(", ");

// Of many small memory sizes: 462.7 MiB; of an axis: round ones.
export const times = (factor) => (Number.isFinite(factor) ? `×${factor >= 100 ? factor.toFixed(0) : factor >= 10 ? factor.toFixed(1) : factor.toFixed(2)}` : "unknown");

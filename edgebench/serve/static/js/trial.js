// The running trial: its memory over time and by kind, its phases and layers, its loss.

import { byId, el, fill, setFigures } from "./dom.js";
import { bytes, count, MIB, seconds, workload } from "./format.js";
import { Chart } from "./chart.js";
import { phaseWords } from "./words.js";

const SPANS = 12;
const MOST_METRICS = 2000;
const KINDS = {
  anon_bytes: ["anonymous", "--c1"], file_bytes: ["file", "--c3"], shmem_bytes: ["shared", "--c4"],
  slab_bytes: ["slab", "--c5"], kernel_bytes: ["kernel", "--c6"], page_tables_bytes: ["page tables", "--c7"],
  swap_bytes: ["swapped out", "--c2"],
};

export class TrialView {
  constructor() {
    this.data = null;
    this.drawn = 0;
    this.charts = {};
  }

  show(data) {
    for (const chart of Object.values(this.charts)) chart.close();
    this.charts = {};
    this.drawn = 0;
    this.data = data;
    delete document.body.dataset.drawnUntil;
    fill(byId("trial-kinds"));
    fill(byId("running-chart"));
    byId("trial-body").hidden = !data;
    if (!data) {
      fill(byId("trial-words"), "No trial is running. ", el("a", { href: "#new" }, "Start a sweep"), " here, or in a terminal: it is shown as it runs. ",
        el("a", { href: "#answer" }, "See the newest answer"), ".");
      return;
    }
    const extra = data.strategy ? `, extra trial for ${data.strategy}` : "";
    byId("trial-words").textContent =
      `${workload(data.settings)}, ${limitWords(data.limits)}${extra} (trial ${data.trial})`;
    this.draw();
  }

  update(update) {
    const data = this.data;
    if (!data) return;
    data.points.splice(update.from, Infinity, ...update.points);
    data.kinds.splice(update.kinds_from, Infinity, ...update.kinds);
    data.spans = [...data.spans, ...update.spans].slice(-SPANS);
    data.metrics.push(...update.metrics);
    // Every second one is dropped, as on the server: a long training stays quick to draw.
    if (data.metrics.length > MOST_METRICS) data.metrics = data.metrics.filter((_, at) => at % 2 === 0);
    for (const name of ["elapsed_s", "peak_bytes", "now", "cpu_cores", "open"]) data[name] = update[name];
    this.draw();
  }

  draw() {
    if (document.hidden) return;
    if (!byId("answer").hidden) this.usage("running-chart", 150);
    if (byId("live").hidden) return;
    this.figures();
    this.usage("trial-usage", 240);
    // The time of the last point drawn: benchmarks/serve_page.py measures its age.
    document.body.dataset.drawnUntil = this.data.points.at(-1)?.[0] ?? "";
    // The rest less often: on a small machine drawing takes time from the trial.
    if (this.drawn % 2 === 0) {
      this.kinds();
      this.metrics();
    }
    if (this.drawn % 4 === 0) this.spans();
    this.drawn += 1;
  }

  figures() {
    const { now, limits, peak_bytes: peak, cpu_cores: cpu, elapsed_s: elapsed, timeout_s: timeout } = this.data;
    const limit = limits.memory_bytes;
    const figures = [
      ["usage", bytes(now.usage_bytes), limit !== null && now.usage_bytes > 0.98 * limit],
      ["limit", limit === null ? "max (none)" : bytes(limit)],
      ["peak, sampled", bytes(peak)],
      ["swap", bytes(now.swap_bytes)],
      ["CPU cores in use", cpu === null ? "unknown" : cpu.toFixed(2)],
      ...(now.major_faults === undefined ? [] : [["major faults", count(now.major_faults)]]),
      ["elapsed", seconds(elapsed) + (timeout ? ` of ${seconds(timeout)}` : "")],
    ];
    if (now.refault_anon !== undefined) figures.push(["pages read back from swap", count(now.refault_anon)]);
    if (now.refault_file !== undefined) figures.push(["file pages read again", count(now.refault_file)]);
    if (now.pressure_full_us !== undefined) figures.push(["time all tasks stalled (PSI)", seconds(now.pressure_full_us / 1e6)]);
    setFigures(byId("trial-figures"), figures);
  }

  usage(host, height) {
    const { points, limits } = this.data;
    this.charts[host] ??= new Chart(byId(host), {
      title: `Memory of the trial: ${byId("trial-words").textContent}`, y: "MiB", height, legend: height > 200,
      lines: [
        { label: "usage, highest", colour: "--c1", fill: true, direct: "usage" },
        { label: "usage, lowest", colour: "--c6", width: 1 },
        { label: "swap", colour: "--c2", direct: "swap" },
        { label: "limit", colour: "--bad", dash: [8, 4], direct: "limit" },
      ],
    });
    const limit = limits.memory_bytes === null ? null : limits.memory_bytes / MIB;
    this.charts[host].set(
      [
        points.map((point) => point[0]),
        points.map((point) => point[2] / MIB),
        points.map((point) => point[1] / MIB),
        points.map((point) => (point[3] === null ? null : point[3] / MIB)),
        points.map(() => limit),
      ],
      `${bytes(this.data.now.usage_bytes)} now, ${bytes(this.data.peak_bytes)} at most`,
    );
  }

  kinds() {
    const { kinds, kind_names: names } = this.data;
    const known = names.map((name, at) => [name, at + 1]).filter(([name, at]) => name in KINDS && kinds.some((row) => row[at] !== null));
    if (!known.length) {
      if (this.data.kinds_missing) fill(byId("trial-kinds"), el("p", { class: "hint" }, this.data.kinds_missing));
      return;
    }
    this.charts.kinds ??= new Chart(byId("trial-kinds"), {
      title: "Memory by kind", y: "MiB", height: 200,
      lines: known.map(([name]) => ({ label: KINDS[name][0], colour: KINDS[name][1] })),
    });
    const last = kinds.at(-1);
    this.charts.kinds.set(
      [kinds.map((row) => row[0]), ...known.map(([, at]) => kinds.map((row) => (row[at] === null ? null : row[at] / MIB)))],
      known.map(([name, at]) => `${KINDS[name][0]} ${bytes(last[at])}`).join(", "),
    );
  }

  metrics() {
    const { metrics } = this.data;
    byId("trial-metrics").hidden = !metrics.length;
    if (!metrics.length) return;
    this.charts.metrics ??= metricsChart(byId("trial-metrics"), metrics);
    setMetrics(this.charts.metrics, metrics);
  }

  spans() {
    const { open, spans } = this.data;
    const words = open.map((span) => span.name ?? [phaseWords(span.phase), span.network].filter(Boolean).join(" of "));
    byId("trial-open").textContent = words.length ? `Now: ${words.join(" › ")}` : "Between phases.";
    const rows = spans.slice(-SPANS).reverse().map((span) =>
      el("tr", {}, el("td", {}, phaseWords(span.phase)), el("td", {}, span.network ?? ""), el("td", {}, span.name ?? "all layers"),
        el("td", {}, seconds(span.wall_s)), el("td", {}, bytes(span.peak_bytes))));
    const head = ["phase", "network", "layer", "time", "kernel's peak"].map((name) => el("th", { scope: "col" }, name));
    fill(byId("trial-spans"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  }
}

const limitWords = (limits) => {
  const memory = limits.label === "max" ? "no memory limit" : `at ${limits.label}${limits.memory_bytes === null || !limits.label.endsWith("%") ? "" : ` (${bytes(limits.memory_bytes)})`}`;
  return `${memory}, ${limits.swap_kind === "none" ? "no swap" : `swap: ${limits.swap_kind}`}`;
};

export const metricNames = (metrics) =>
  [...new Set(metrics.flatMap((metric) => Object.keys(metric.values)))].filter((name) => /loss|accuracy/.test(name));

function metricsChart(host, metrics) {
  const names = metricNames(metrics);
  return new Chart(host, {
    title: "Loss and accuracy", y: "", height: 200,
    lines: names.map((name, at) => ({ label: name, colour: `--c${(at % 8) + 1}` })),
  });
}

function setMetrics(chart, metrics) {
  const names = chart.plot.series.slice(1).map((series) => series.label);
  const columns = names.map((name) => metrics.map((metric) => metric.values[name] ?? null));
  const last = metrics.at(-1).values;
  chart.set([metrics.map((metric) => metric.t_s), ...columns], names.map((name) => `${name} ${last[name] ?? "unknown"}`).join(", "));
}

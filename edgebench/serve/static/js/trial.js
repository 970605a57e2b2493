// The trial under way: its memory as it grows, by kind, its phases and layers, its loss.

import { byId, el, fill, setFigures } from "./dom.js";
import { bytes, count, MIB, seconds, workload } from "./format.js";
import { Chart } from "./chart.js";

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
    byId("trial-body").hidden = !data;
    if (!data) {
      byId("trial-words").textContent = "No trial is under way.";
      return;
    }
    const whose = data.strategy ? `, ${data.strategy}'s own trial` : "";
    byId("trial-words").textContent =
      `Trial ${data.trial}: ${workload(data.settings)} at ${data.limits.label}, swap ${data.limits.swap_kind}${whose}`;
    this.draw();
  }

  news(news) {
    const data = this.data;
    if (!data) return;
    data.points.splice(news.from, Infinity, ...news.points);
    data.kinds.splice(news.kinds_from, Infinity, ...news.kinds);
    data.spans = [...data.spans, ...news.spans].slice(-SPANS);
    data.metrics.push(...news.metrics);
    // Every second one goes, as on the server: a long training stays a line that is quick to draw.
    if (data.metrics.length > MOST_METRICS) data.metrics = data.metrics.filter((_, at) => at % 2 === 0);
    for (const name of ["elapsed_s", "peak_bytes", "now", "cpu_cores", "open"]) data[name] = news[name];
    this.draw();
  }

  draw() {
    if (byId("live").hidden || document.hidden) return;
    this.figures();
    this.usage();
    // Until when the trial is drawn: benchmarks/serve_page.py tells by it how old that is.
    document.body.dataset.drawnUntil = this.data.points.at(-1)?.[0] ?? "";
    // The rest more seldom: on a small machine drawing takes time from the trial.
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
      ["CPU, cores busy", cpu === null ? "not told" : cpu.toFixed(2)],
      ["major faults", count(now.major_faults)],
      ["elapsed", seconds(elapsed) + (timeout ? ` of ${seconds(timeout)}` : "")],
    ];
    if (now.refault_anon !== undefined) figures.push(["pages back from swap", count(now.refault_anon)]);
    if (now.refault_file !== undefined) figures.push(["file pages read again", count(now.refault_file)]);
    if (now.pressure_full_us !== undefined) figures.push(["all stalled (PSI)", seconds(now.pressure_full_us / 1e6)]);
    setFigures(byId("trial-figures"), figures);
  }

  usage() {
    const { points, limits } = this.data;
    this.charts.usage ??= new Chart(byId("trial-usage"), {
      title: "Memory of the trial", y: "MiB",
      lines: [
        { label: "usage, highest", colour: "--c1", fill: true },
        { label: "usage, lowest", colour: "--c6", width: 1 },
        { label: "swap", colour: "--c2" },
        { label: "limit", colour: "--bad", dash: [8, 4] },
      ],
    });
    const limit = limits.memory_bytes === null ? null : limits.memory_bytes / MIB;
    this.charts.usage.set(
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
    const told = names.map((name, at) => [name, at + 1]).filter(([name, at]) => name in KINDS && kinds.some((row) => row[at] !== null));
    if (!told.length) return;
    this.charts.kinds ??= new Chart(byId("trial-kinds"), {
      title: "By kind", y: "MiB", height: 200,
      lines: told.map(([name]) => ({ label: KINDS[name][0], colour: KINDS[name][1] })),
    });
    const last = kinds.at(-1);
    this.charts.kinds.set(
      [kinds.map((row) => row[0]), ...told.map(([, at]) => kinds.map((row) => (row[at] === null ? null : row[at] / MIB)))],
      told.map(([name, at]) => `${KINDS[name][0]} ${bytes(last[at])}`).join(", "),
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
    const words = open.map((span) => span.name ?? [span.phase, span.network].filter(Boolean).join(" "));
    byId("trial-open").textContent = words.length ? `Now: ${words.join(" › ")}` : "Between phases.";
    const rows = spans.slice(-SPANS).reverse().map((span) =>
      el("tr", {}, el("td", {}, span.phase), el("td", {}, span.network ?? ""), el("td", {}, span.name ?? "all layers"),
        el("td", {}, seconds(span.wall_s)), el("td", {}, bytes(span.peak_bytes))));
    const head = ["phase", "network", "layer", "took", "peak, kernel's"].map((name) => el("th", { scope: "col" }, name));
    fill(byId("trial-spans"), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  }
}

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
  chart.set([metrics.map((metric) => metric.t_s), ...columns], names.map((name) => `${name} ${last[name] ?? "not told"}`).join(", "));
}

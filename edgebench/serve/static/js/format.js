// Numbers as text.

export const MIB = 1024 * 1024;

export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  if (value < 1024) return `${value} B`;
  if (value < MIB) return `${(value / 1024).toFixed(1)} KiB`;
  if (value < 1024 * MIB) return `${(value / MIB).toFixed(1)} MiB`;
  return `${(value / MIB / 1024).toFixed(2)} GiB`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(1)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.round(value % 60)).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export const percent = (share) => (share === null || share === undefined ? "unknown" : `${(share * 100).toFixed(1)} %`);

export const count = (value) => (value === null || value === undefined ? "unknown" : value.toLocaleString("en"));

// The networks of a pipeline; a line may break after each.
export const breakable = (names) => names.replaceAll("+", "+\u200b");

// A cell of a table; its column's name ends in its unit.
export function cell(name, value) {
  if (value === null || value === undefined || value === "") return "";
  if (name.endsWith("_bytes") && typeof value === "number") return bytes(value);
  if (name.endsWith("_s") && typeof value === "number") return seconds(value);
  if (name === "started_utc") return String(value).replace("T", " ").slice(0, 19);
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  return name === "network" ? breakable(String(value)) : String(value);
}

// A trial's workload in one line.
export function workload(settings) {
  const words = ["network", "schedule", "loader"].map((name) => settings[name]).filter(Boolean);
  return words.length ? words.join(" ") : String(settings.kind ?? "");
}

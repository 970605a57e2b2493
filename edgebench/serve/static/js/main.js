// The page: which view is shown, which theme, and the live stream that all views share.

import { byId } from "./dom.js";
import { redrawAll } from "./chart.js";
import { startLive } from "./live.js";
import { showForm } from "./form.js";
import { showHistory } from "./history.js";

const VIEWS = { live: null, new: showForm, history: showHistory };
const THEMES = ["auto", "light", "dark"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function showView() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "live";
  for (const view of Object.keys(VIEWS)) byId(view).hidden = view !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  VIEWS[name]?.();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  byId("theme").textContent = `Theme: ${theme}`;
  redrawAll();
}

function keptTheme() {
  const kept = localStorage.getItem("theme");
  return THEMES.includes(kept) ? kept : "auto";
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(keptTheme()) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  setTheme(next);
});
dark.addEventListener("change", () => setTheme(keptTheme()));
window.addEventListener("hashchange", showView);
setTheme(keptTheme());
showView();
startLive();

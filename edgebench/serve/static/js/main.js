// The page: which view is shown, which theme, and the live stream that all views share.

import { byId } from "./dom.js";
import { redrawAll } from "./chart.js";
import { startLive } from "./live.js";
import { showAnswer } from "./answer.js";
import { showForm } from "./form.js";
import { showHistory } from "./history.js";

const VIEWS = { answer: showAnswer, live: null, new: showForm, history: showHistory };
const THEMES = ["auto", "light", "dark"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function showView() {
  // "#answer/device/folder" is the answer of one sweep.
  const [asked, ...rest] = location.hash.slice(1).split("/");
  const name = asked in VIEWS ? asked : "answer";
  for (const view of Object.keys(VIEWS)) byId(view).hidden = view !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  VIEWS[name]?.(decodeURIComponent(rest.join("/")));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  byId("theme").textContent = `Theme: ${theme}`;
  redrawAll();
}

function storedTheme() {
  const stored = localStorage.getItem("theme");
  return THEMES.includes(stored) ? stored : "auto";
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  setTheme(next);
});
dark.addEventListener("change", () => setTheme(storedTheme()));
window.addEventListener("hashchange", showView);
setTheme(storedTheme());
showView();
startLive();

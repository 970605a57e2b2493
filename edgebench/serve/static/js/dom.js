// Elements made from data. Text goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null).map(asNode));
  return made;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

export function fill(host, ...children) {
  host.replaceChildren(...children.filter((child) => child !== null).map(asNode));
}

// Values in a <dl>, changed in place, so that a screen reader is not interrupted.
export function setFigures(list, figures) {
  for (const [name, value, bad] of figures) {
    let row = list.querySelector(`[data-name="${CSS.escape(name)}"]`);
    if (!row) {
      row = el("div", { "data-name": name }, el("dt", {}, name), el("dd"));
      list.append(row);
    }
    row.classList.toggle("bad", Boolean(bad));
    const shown = row.querySelector("dd");
    if (shown.textContent !== value) shown.textContent = value;
  }
  const names = new Set(figures.map(([name]) => name));
  for (const row of [...list.children]) if (!names.has(row.dataset.name)) row.remove();
}

export function say(words, bad = false) {
  const status = byId("status");
  if (status.textContent !== words) status.textContent = words;
  status.classList.toggle("bad", bad);
}

// A searchable list (ARIA's editable combobox): one value, or several as chips; free text where asked.

import { el, fill } from "./dom.js";

const MOST_SHOWN = 60;

// options: texts; values: chosen at first; many: several; free: any text may be chosen; change(values).
export function comboBox({ id, label, options, values = [], many = false, free = false, describedBy = null, change = () => {} }) {
  const combo = new ComboBox({ id, options, many, free, change, describedBy });
  combo.values = [...values];
  combo.box = el("div", { class: "combo-field" }, label ? el("label", { for: id }, label) : null, combo.frame);
  combo.drawValues();
  return combo;
}

class ComboBox {
  constructor({ id, options, many, free, change, describedBy }) {
    Object.assign(this, { id, options, many, free, change, found: [], active: -1, values: [] });
    this.chips = el("ul", { class: "chosen", "aria-label": "Chosen" });
    this.list = el("ul", { id: `${id}-list`, role: "listbox", class: "options", hidden: true, "aria-label": "Choices", "aria-multiselectable": many ? "true" : null });
    this.count = el("span", { class: "unseen", role: "status" });
    this.input = el("input", {
      id, role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-describedby": describedBy,
      autocomplete: "off", spellcheck: "false", placeholder: many ? "type to search, Enter to add" : null,
      oninput: () => this.open(), onfocus: () => this.input.select(), onclick: () => this.open(), onkeydown: (event) => this.key(event), onblur: () => this.leave(),
    });
    this.frame = el("div", { class: "combo" }, many ? this.chips : null, this.input, this.list, this.count);
  }

  drawValues() {
    if (!this.many) {
      this.input.value = this.values[0] ?? "";
      return;
    }
    const chip = (value) => el("li", {}, value, el("button", { type: "button", "aria-label": `Remove ${value}`, onclick: () => this.remove(value) }, "×"));
    this.chips.hidden = !this.values.length;
    fill(this.chips, ...this.values.map(chip));
  }

  open() {
    const typed = this.input.value.trim();
    // What is chosen is no search: all are offered.
    const sought = !this.many && typed === this.values[0] ? "" : typed.toLowerCase();
    const fits = this.options.filter((name) => name.toLowerCase().includes(sought));
    fits.sort((a, b) => Number(!a.toLowerCase().startsWith(sought)) - Number(!b.toLowerCase().startsWith(sought)));
    this.found = fits.slice(0, MOST_SHOWN);
    if (this.free && sought && !this.options.includes(typed)) this.found.push(typed);
    const left = fits.length - this.found.length;
    fill(this.list, ...this.found.map((name, at) => this.option(name, at)), left > 0 ? el("li", { class: "hint", role: "presentation" }, `${left} more: type to narrow`) : null,
      this.found.length ? null : el("li", { class: "hint", role: "presentation" }, "nothing fits"));
    this.count.textContent = `${fits.length} fit`;
    this.active = this.many || sought ? (sought && this.found.length ? 0 : -1) : this.found.indexOf(this.values[0]);
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  option(name, at) {
    const words = this.options.includes(name) ? name : `use “${name}”`;
    // Before the field loses the focus.
    const press = (event) => {
      event.preventDefault();
      this.take(name);
    };
    return el("li", { role: "option", id: `${this.id}-option-${at}`, "aria-selected": String(this.values.includes(name)), "data-value": name, onmousedown: press }, words);
  }

  mark() {
    for (const one of this.list.querySelectorAll(".active")) one.classList.remove("active");
    const now = this.list.children[this.active];
    if (this.active < 0 || !now) {
      this.input.removeAttribute("aria-activedescendant");
      return;
    }
    now.classList.add("active");
    now.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", now.id);
  }

  key(event) {
    const { key } = event;
    const isOpen = !this.list.hidden;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) this.open();
      const step = key === "ArrowDown" ? 1 : -1;
      this.active = Math.max(0, Math.min(this.found.length - 1, this.active + step));
      this.mark();
    } else if (key === "Enter" && isOpen) {
      event.preventDefault();
      if (this.active >= 0) this.take(this.found[this.active]);
    } else if (key === "Escape" && isOpen) {
      event.preventDefault();
      this.close();
    } else if (key === "Backspace" && this.many && !this.input.value && this.values.length) {
      this.remove(this.values.at(-1));
    }
  }

  take(name) {
    if (!this.many) this.values = [name];
    else if (!this.values.includes(name)) this.values.push(name);
    if (this.many) this.input.value = "";
    this.close();
    this.drawValues();
    this.change(this.values);
  }

  remove(name) {
    this.values = this.values.filter((value) => value !== name);
    this.drawValues();
    this.input.focus();
    this.change(this.values);
  }

  set(values) {
    this.values = this.many ? [...values] : values.slice(0, 1);
    this.drawValues();
  }

  // Text that was typed and not chosen: taken where any text may be, or where it is a name.
  leave() {
    const typed = this.input.value.trim();
    if (typed && !this.values.includes(typed) && (this.free || this.options.includes(typed))) this.take(typed);
    else if (!this.many) this.input.value = this.values[0] ?? "";
    else this.input.value = "";
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

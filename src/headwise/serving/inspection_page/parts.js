// Small parts that several views are made of.

import { behindPicture, element, table } from "./dom.js";
import { moveIn } from "./heat.js";

const CELLS_AT_ONCE = 6000;

/** A bar as long as a share of its line, behind what is written in it. */
export function bar(share, attributes = {}, ...children) {
  const { tag = "span", class: name = "", ...others } = attributes;
  const found = element(tag, { class: `bar ${name}`.trim(), ...others }, ...children);
  found.style.setProperty("--share", Math.min(1, Math.max(0, share)));
  return found;
}

/** The numbers behind a picture, made when they are unfolded, and so many rows at a
 *  time that a page with a million numbers stays quick. */
export function numbers(summary, header, count, rowOf) {
  const size = Math.max(10, Math.floor(CELLS_AT_ONCE / header.length));
  const place = element("div");
  const fill = (first) => {
    const last = Math.min(count, first + size);
    const rows = Array.from({ length: last - first }, (_, i) => rowOf(first + i));
    place.replaceChildren(table(summary, header, rows));
    if (count <= size) return;
    const turn = (text, to) => element("button", { type: "button", disabled: to < 0 || to >= count, onclick: () => fill(to) }, text);
    place.prepend(element("p", { class: "turn" }, turn("Previous", first - size), turn("Next", last),
      element("span", { "aria-live": "polite" }, `Rows ${first + 1} to ${last} of ${count}`)));
  };
  const found = behindPicture(summary, place);
  found.addEventListener("toggle", () => {
    if (found.open && !place.hasChildNodes()) fill(0);
  });
  return found;
}

/** The numbers of a matrix, a row for each of its rows. */
export function matrixNumbers(summary, corner, rows, columns, write) {
  const names = (axis) => Array.from({ length: axis.count }, (_, i) => axis.name(i));
  return numbers(summary, [corner, ...names(columns)], rows.count, (row) =>
    [rows.name(row), ...Array.from({ length: columns.count }, (_, column) => write(row, column))]);
}

/** Let arrow keys move the focus between `items`, `across` in a row, of which only one
 *  is reached by Tab. */
export function rove(items, across = items.length, first = 0) {
  items.forEach((item, index) => {
    item.tabIndex = index === first ? 0 : -1;
    item.addEventListener("focus", () => {
      for (const other of items) if (other.tabIndex === 0) other.tabIndex = -1;
      item.tabIndex = 0;
    });
    item.addEventListener("keydown", (event) => {
      const down = Math.ceil(items.length / across);
      const to = moveIn(event.key, Math.floor(index / across), index % across, down, across);
      if (!to) return;
      event.preventDefault();
      items[Math.min(items.length - 1, to[0] * across + to[1])].focus();
    });
  });
  return items;
}

/** A field with its label above it. */
export function field(label, name, value, attributes = {}) {
  return element("label", { class: "field" }, element("span", {}, label),
    element("input", { name, value: value ?? "", dir: "auto", autocomplete: "off", spellcheck: "false", ...attributes }));
}

/** A choice of one of several options, [value, text], in groups if `group` says so. */
export function choice(label, options, chosen, onchoose, { group = null, id = null } = {}) {
  const one = ([value, text]) => element("option", { value, selected: value === chosen }, text);
  const groups = group ? [...Map.groupBy(options, group)] : null;
  const children = groups
    ? groups.map(([name, members]) => element("optgroup", { label: name }, ...members.map(one)))
    : options.map(one);
  return element("label", { class: "field" }, element("span", {}, label),
    element("select", { id, onchange: (event) => onchoose(event.target.value) }, ...children));
}

/** A formula: what follows ^ is raised. */
export function formula(text) {
  return text.split(/\^(\S)/).map((each, index) => (index % 2 ? element("sup", {}, each) : each));
}

/** A paragraph of secondary text. */
export function note(...children) {
  return element("p", { class: "note" }, ...children);
}

/** A picture with its title, what it shows, and what belongs to it. */
export function panel(title, about, ...children) {
  return element("section", { class: "panel" }, element("h2", {}, title), about ? note(about) : null, ...children);
}

/** What a head is called in a sentence: cross.0.3 is cross-attention, layer 0, head 3. */
export function headTitle(name) {
  const [kind, layer, head] = name.split(".");
  const attention = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" }[kind];
  return `${attention}, layer ${layer}, head ${head}`;
}

// Small parts that several views are made of.

import { behindPicture, h, table } from "./dom.js";
import { limited, moveIn, setProperties } from "./heat.js";
import { shown } from "./tokens.js";

const CELLS_AT_ONCE = 6000;

/** A piece of the vocabulary that is no token of the page. */
export function piece(text) {
  return h("bdi.token", { dir: "auto", title: shown(text) }, shown(text));
}

/** A bar as long as a share of its line, behind what is written in it; with `onclick` a
 *  button. */
export function bar(share, attributes = {}, ...children) {
  return setProperties(h(attributes.onclick ? "button.bar" : "span.bar", attributes, ...children), { share: limited(share, 0, 1) });
}

/** A list of bars, each [share, attributes, what is written on the left, on the right]. */
export function bars(list) {
  return h("ol.bars", ...list.map(([share, attributes, left, right]) => h("li", bar(share, attributes, ...[left].flat(), h("span.p", right)))));
}

/** The numbers behind a picture, made when they are unfolded, and so many rows at a
 *  time that a page with a million numbers stays quick. */
export function numbers(summary, header, count, rowOf) {
  const size = Math.max(10, Math.floor(CELLS_AT_ONCE / header.length));
  const place = h("div");
  const fill = (first) => {
    const last = Math.min(count, first + size);
    const turn = (text, to) => h("button", { disabled: to < 0 || to >= count, onclick: () => fill(to) }, text);
    place.replaceChildren(table(summary, header, Array.from({ length: last - first }, (_, i) => rowOf(first + i))));
    if (count > size) {
      place.prepend(h("p.tools", turn("Previous", first - size), turn("Next", last), h("span", { "aria-live": "polite" }, `Rows ${first + 1} to ${last} of ${count}`)));
    }
  };
  const found = behindPicture(summary, place);
  found.addEventListener("toggle", () => found.open && !place.hasChildNodes() && fill(0));
  return found;
}

/** The numbers of a matrix, a row for each of its rows. */
export function matrixNumbers(summary, corner, rows, columns, write) {
  const ofColumns = (make) => Array.from({ length: columns.count }, (_, column) => make(column));
  return numbers(summary, [corner, ...ofColumns(columns.name)], rows.count, (row) => [rows.name(row), ...ofColumns((column) => write(row, column))]);
}

/** Let arrow keys move the focus between `items`, `across` in a row, of which only one
 *  is reached by Tab. */
export function rove(items, across = items.length, first = 0) {
  items.forEach((item, index) => {
    item.tabIndex = index === first ? 0 : -1;
    item.addEventListener("focus", () => {
      for (const other of items) other.tabIndex = other === item ? 0 : -1;
    });
    item.addEventListener("keydown", (event) => {
      const to = moveIn(event.key, Math.floor(index / across), index % across, Math.ceil(items.length / across), across);
      if (!to) return;
      event.preventDefault();
      items[Math.min(items.length - 1, to[0] * across + to[1])].focus();
    });
  });
  return items;
}

/** A choice of one of `options`, which are values with their texts; `group(value)` names
 *  the group that an option is in. */
export function choice(label, options, chosen, onchoose, { group = () => "", id = null } = {}) {
  const groups = [...Map.groupBy(options, ([value]) => group(value))].map(([name, members]) => {
    const each = members.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
    return name ? [h("optgroup", { label: name }, ...each)] : each;
  });
  return h("label.field", h("span", label), h("select", { id, onchange: (event) => onchoose(event.target.value) }, ...groups.flat()));
}

/** A paragraph of secondary text. */
export function note(...children) {
  return h("p.note", ...children);
}

/** A picture with its title, what it shows, and what belongs to it. */
export function panel(title, about, ...children) {
  return h("section.card.panel", h("h3", title), note(about), ...children);
}

/** A formula: what follows ^ is raised. */
export function formula(text) {
  return text.split(/\^(\S)/).map((each, index) => (index % 2 ? h("sup", each) : each));
}

// Matrices and vectors as coloured cells. One pixel of a canvas is one cell, enlarged by
// CSS, so that a million cells cost no more nodes than one.

import { h } from "./dom.js";
import { signed } from "./numbers.js";
import { light, onHover, shown, token, tokenId } from "./tokens.js";
import { onColourScheme } from "./views/attention_maps.js";

const LARGEST_SIDE = 2000;
const LABELLED = 11;
const LONGEST_LINE = 128;
const STRIP = 768;

/** Rows or columns that are tokens; `indices` are their positions in the sentence. */
export function tokenAxis(side, pieces, indices = null) {
  const at = (i) => indices?.[i] ?? i;
  return {
    count: pieces.length,
    name: (i) => `${shown(pieces[i])} (${at(i)})`,
    id: (i) => tokenId(side, at(i)),
    label: (i) => token(side, at(i), pieces[i], { title: shown(pieces[i]) }),
  };
}

/** Rows or columns with names. */
export function nameAxis(names) {
  return { count: names.length, name: (i) => names[i], id: () => null, label: (i) => h("span", names[i]) };
}

/** Columns that are the channels of a vector: too many to be labelled. */
export function channels(count) {
  return { count, name: (i) => `channel ${i}`, id: () => null, label: null };
}

/**
 * Draw a matrix. `value(row, column)` is a number, or null for a masked cell; its colour
 * is that of its sign, its strength the share of `largest`. `write(row, column)` is what
 * is said of the cell that is pointed at, in `readout` or in a line of its own. Cells are
 * `high` by `wide` pixels, by default as large as fits.
 */
export function heatMap({ label, rows, columns, value, write, largest = null, high = null, wide = null, readout = null, tone = "--heat" }) {
  const fitting = limited(Math.floor(LARGEST_SIDE / Math.max(rows.count, columns.count)), 2, 18);
  const [height, width] = [high ?? fitting, wide ?? high ?? fitting];
  const line = readout ?? h("p.readout", { "aria-live": "polite" }, "\u00a0");
  const canvas = h("canvas", { width: columns.count, height: rows.count, "aria-hidden": "true" });
  const [mark, ...bands] = ["mark", "band", "band"].map((name) => h("span", { class: name, hidden: true }));
  const cells = h("div.cells", {
    class: Math.min(height, width) >= LABELLED ? "ruled" : "", tabindex: "0", role: "application",
    "aria-roledescription": "matrix", "aria-label": `${label}. Arrow keys move from cell to cell.`,
  }, canvas, ...bands, mark);
  let at = [0, 0];
  const point = (...cell) => {
    at = cell;
    place(mark, ...cell, 1, 1);
    line.textContent = write(...cell);
    light(...[rows.id(cell[0]), columns.id(cell[1])].filter(Boolean));
  };
  const leave = () => {
    mark.hidden = true;
    light();
  };
  const listen = (node, type, listener) => node.addEventListener(type, listener);
  listen(canvas, "pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const index = (share, count) => limited(Math.floor(share * count), 0, count - 1);
    point(index((event.clientY - box.top) / box.height, rows.count), index((event.clientX - box.left) / box.width, columns.count));
  });
  listen(canvas, "pointerleave", leave);
  listen(cells, "focus", () => cells.matches(":focus-visible") && point(...at));
  listen(cells, "blur", leave);
  listen(cells, "keydown", (event) => {
    const to = moveIn(event.key, ...at, rows.count, columns.count);
    if (!to) return;
    event.preventDefault();
    point(...to);
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const found = h("div.heat-map", labels("columns", columns, width), labels("rows", rows, height), cells);
  setProperties(found, { high: `${height}px`, wide: `${width}px`, rows: rows.count, columns: columns.count });
  const draw = () => paint(canvas, rows.count, columns.count, value, largest, tone);
  draw();
  const end = onColourScheme(() => (canvas.isConnected ? draw() : end()));
  followTokens(canvas, bands, rows, columns);
  return h("div.heat-block", h("div.scroll", found), readout ? null : line);
}

/** Draw a vector as a strip of coloured cells, a long one in several lines. */
export function strip(name, vector, readout) {
  const across = Math.min(vector.length, LONGEST_LINE);
  const number = (row, column) => vector[row * across + column];
  return heatMap({
    label: name, rows: { ...channels(Math.ceil(vector.length / across)) }, columns: channels(across), readout,
    high: vector.length > across ? 10 : 20, wide: limited(Math.floor(STRIP / across), 3, 12),
    value: (...cell) => number(...cell) ?? 0,
    write: (...cell) => (number(...cell) === undefined ? "\u00a0" : `${name}, channel ${cell[0] * across + cell[1]}: ${signed(number(...cell), 4)}`),
  });
}

/** Return the cell that an arrow key leads to, or null if the key is another. */
export function moveIn(key, row, column, rows, columns) {
  const to = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1], PageUp: [row - 10, column], PageDown: [row + 10, column],
  }[key];
  return to ? [limited(to[0], 0, rows - 1), limited(to[1], 0, columns - 1)] : null;
}

/** Set custom properties of an element. */
export function setProperties(node, values) {
  for (const [name, value] of Object.entries(values)) node.style.setProperty(`--${name}`, value);
  return node;
}

export function limited(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function labels(name, axis, size) {
  const each = axis.label && size >= LABELLED ? Array.from({ length: axis.count }, (_, i) => h("div", axis.label(i))) : [];
  return h("div.labels", { class: name }, ...each);
}

function place(node, row, column, height, width) {
  node.hidden = false;
  setProperties(node, { row, column, height, width });
}

function paint(canvas, rows, columns, value, largest, tone) {
  const values = Array.from({ length: rows * columns }, (_, i) => value(Math.floor(i / columns), i % columns));
  const most = largest ?? (values.reduce((sum, each) => Math.max(sum, Math.abs(each)), 0) || 1);
  const style = getComputedStyle(document.documentElement);
  const [above, below, masked] = [tone, "--c2", "--faint"].map((name) => style.getPropertyValue(name));
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, columns, rows);
  values.forEach((each, i) => {
    pen.fillStyle = each === null ? masked : each < 0 ? below : above;
    pen.globalAlpha = each === null ? 1 : Math.min(1, Math.abs(each) / most);
    pen.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  });
}

/** Show the row and the column of tokens that are pointed at anywhere in the page. */
function followTokens(canvas, bands, rows, columns) {
  const [ofRow, ofColumn] = [rows, columns].map((axis) => new Map(Array.from({ length: axis.count }, (_, i) => [axis.id(i), i])));
  const end = onHover((lit) => {
    if (!canvas.isConnected) return end();
    for (const band of bands) band.hidden = true;
    for (const id of lit) {
      if (ofRow.has(id)) place(bands[0], ofRow.get(id), 0, 1, columns.count);
      if (ofColumn.has(id)) place(bands[1], 0, ofColumn.get(id), rows.count, 1);
    }
  });
}

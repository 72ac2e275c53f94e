// Matrices and vectors as coloured cells. One pixel of a canvas is one cell, enlarged by
// CSS, so that a million cells cost no more nodes than one.

import { element } from "./dom.js";
import { signed } from "./numbers.js";
import { light, onHover, shown, token, tokenId } from "./tokens.js";

const LARGEST_SIDE = 2000;
const LABELLED = 11;
const LONGEST_LINE = 128;
const STRIP = 768;

/** Rows or columns that are tokens; `indices` are their positions in the sentence. */
export function tokenAxis(side, pieces, indices = null) {
  const at = (i) => (indices ? indices[i] : i);
  return {
    count: pieces.length,
    name: (i) => `${shown(pieces[i])} (${at(i)})`,
    id: (i) => tokenId(side, at(i)),
    label: (i) => token(side, at(i), pieces[i], { title: shown(pieces[i]) }),
  };
}

/** Rows or columns with names, written or not; `label(i)` may make another node. */
export function nameAxis(names, label = (i) => element("span", {}, names[i])) {
  return { count: names.length, name: (i) => names[i], id: () => null, label };
}

/** Columns that are the channels of a vector: too many to be labelled. */
export function channels(count, name = "channel") {
  return { count, name: (i) => `${name} ${i}`, id: () => null, label: null };
}

/**
 * Draw a matrix. `value(row, column)` is a number, or null for a masked cell; its colour
 * is that of its sign, its strength the share of `largest`. `write(row, column)` is what
 * is said of the cell that is pointed at, in `readout` or in a line of its own;
 * `press(row, column)` is called when it is clicked, or Enter is pressed on it. Cells are
 * `high` by `wide` pixels, by default as large as fits.
 */
export function heatMap({ label, rows, columns, value, write, largest = null, high = null, wide = null,
  readout = null, press = null, from = null, tone = "--heat" }) {
  const most = Math.max(rows.count, columns.count);
  const fitting = Math.max(2, Math.min(18, Math.floor(LARGEST_SIDE / most)));
  const [height, width] = [high ?? fitting, wide ?? high ?? fitting];
  const line = readout ?? element("p", { class: "readout", "aria-live": "polite" }, "\u00a0");
  const canvas = element("canvas", { width: columns.count, height: rows.count, "aria-hidden": "true" });
  const mark = element("span", { class: "mark", hidden: true });
  const bands = [element("span", { class: "band", hidden: true }), element("span", { class: "band", hidden: true })];
  const cells = element("div", {
    class: Math.min(height, width) >= LABELLED ? "cells ruled" : "cells", tabindex: "0", role: "application",
    "aria-roledescription": "matrix", "aria-label": `${label}. Arrow keys move from cell to cell.`,
  }, canvas, ...bands, mark);
  const at = { row: from?.[0] ?? 0, column: from?.[1] ?? 0 };

  const point = (row, column) => {
    Object.assign(at, { row, column });
    place(mark, row, column, 1, 1);
    line.textContent = write(row, column);
    light(...[rows.id(row), columns.id(column)].filter((each) => each !== null));
  };
  const leave = () => {
    mark.hidden = true;
    light();
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    point(inside((event.clientY - box.top) / box.height, rows.count), inside((event.clientX - box.left) / box.width, columns.count));
  });
  canvas.addEventListener("pointerleave", leave);
  if (press) canvas.addEventListener("click", () => press(at.row, at.column));
  cells.addEventListener("focus", () => {
    if (cells.matches(":focus-visible")) point(at.row, at.column);
  });
  cells.addEventListener("blur", leave);
  cells.addEventListener("keydown", (event) => {
    const moved = moveIn(event.key, at.row, at.column, rows.count, columns.count);
    if (moved) {
      point(...moved);
      mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else if (press && (event.key === "Enter" || event.key === " ")) press(at.row, at.column);
    else return;
    event.preventDefault();
  });

  const found = element("div", { class: press ? "heat-map pressable" : "heat-map" },
    labels("columns", columns, width), labels("rows", rows, height), cells);
  found.style.setProperty("--high", `${height}px`);
  found.style.setProperty("--wide", `${width}px`);
  found.style.setProperty("--rows", rows.count);
  found.style.setProperty("--columns", columns.count);
  paint(canvas, rows.count, columns.count, value, largest, tone);
  whenSchemeChanges(canvas, () => paint(canvas, rows.count, columns.count, value, largest, tone));
  followTokens(canvas, bands, rows, columns);
  return element("div", { class: "heat-block" }, element("div", { class: "scroll" }, found), readout ? null : line);
}

/** Draw a vector as a strip of coloured cells, a long one in several lines. */
export function strip(name, vector, readout, { largest = null, tone = "--heat" } = {}) {
  const across = Math.min(vector.length, LONGEST_LINE);
  const at = (row, column) => row * across + column;
  return heatMap({
    label: name, rows: { count: Math.ceil(vector.length / across), id: () => null, label: null }, columns: channels(across),
    high: vector.length > across ? 10 : 20, wide: Math.max(3, Math.min(12, Math.floor(STRIP / across))),
    value: (row, column) => vector[at(row, column)] ?? 0, largest, tone, readout,
    write: (row, column) => (at(row, column) < vector.length
      ? `${name}, channel ${at(row, column)}: ${signed(vector[at(row, column)], 4)}` : "\u00a0"),
  });
}

/** Return the cell that an arrow key leads to, or null if the key is another. */
export function moveIn(key, row, column, rows, columns) {
  const to = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, columns - 1],
    PageUp: [row - 10, column], PageDown: [row + 10, column],
  }[key];
  return to ? [Math.min(rows - 1, Math.max(0, to[0])), Math.min(columns - 1, Math.max(0, to[1]))] : null;
}

function inside(share, count) {
  return Math.min(count - 1, Math.max(0, Math.floor(share * count)));
}

function labels(name, axis, size) {
  if (!axis.label || size < LABELLED) return element("div", { class: `labels ${name}` });
  return element("div", { class: `labels ${name}` },
    ...Array.from({ length: axis.count }, (_, i) => element("div", {}, axis.label(i))));
}

function place(node, row, column, height, width) {
  node.hidden = false;
  node.style.setProperty("--row", row);
  node.style.setProperty("--column", column);
  node.style.setProperty("--height", height);
  node.style.setProperty("--width", width);
}

function paint(canvas, rows, columns, value, largest, tone) {
  const colours = [tone, "--c2", "--faint"].map(colour);
  let most = largest ?? 0;
  if (largest === null) {
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) most = Math.max(most, Math.abs(value(row, column) ?? 0));
    }
  }
  const pixels = new ImageData(columns, rows);
  for (let row = 0, at = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1, at += 4) {
      const number = value(row, column);
      const [red, green, blue] = colours[number === null ? 2 : number < 0 ? 1 : 0];
      pixels.data.set([red, green, blue, number === null ? 255 : 255 * Math.min(1, Math.abs(number) / (most || 1))], at);
    }
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

function colour(name) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "gray";
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
}

function whenSchemeChanges(node, redraw) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const change = () => (node.isConnected ? redraw() : scheme.removeEventListener("change", change));
  scheme.addEventListener("change", change);
}

/** Show the row and the column of tokens that are pointed at anywhere in the page. */
function followTokens(canvas, [rowBand, columnBand], rows, columns) {
  const where = (axis) => new Map(Array.from({ length: axis.count }, (_, i) => [axis.id(i), i]));
  const ofRow = where(rows);
  const ofColumn = where(columns);
  const end = onHover((lit) => {
    if (!canvas.isConnected) return end();
    rowBand.hidden = columnBand.hidden = true;
    for (const id of lit) {
      if (ofRow.has(id)) place(rowBand, ofRow.get(id), 0, 1, columns.count);
      if (ofColumn.has(id)) place(columnBand, 0, ofColumn.get(id), rows.count, 1);
    }
  });
}

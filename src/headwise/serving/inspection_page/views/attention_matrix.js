// One head as a matrix on a canvas: queries down, keys across. The canvas is as large as
// what can be seen of it; labels stand beside while the weights are scrolled.

import { element } from "../dom.js";
import { share } from "../numbers.js";
import { light, onHover, shown, tokenId } from "../tokens.js";
import { shortened, widest, writeLabel } from "./attention_labels.js";
import { greatestOf, imageOf, litIndices, makeShades, maxPooled, onColourScheme, oncePerFrame } from "./attention_maps.js";

const LARGEST = 40; // sides of a cell, in CSS pixels
const LABELLED = 10; // the smallest cell whose row has a label
const MOST_LABEL = 120;
const TALLEST = 640;
const PAGE = 10; // cells that Page Up and Page Down move

/** Fill `place`. `pick(query, key)` is called when a cell is chosen. Returns
 *  {update({query, key}), clean()}. */
export function makeMatrix(place, map, sides, { name, pick }) {
  const canvas = element("canvas", { class: "matrix-canvas", "aria-hidden": "true" });
  const space = element("div", { class: "matrix-space" }, canvas);
  const readout = element("p", { class: "matrix-readout", "aria-live": "polite" });
  const frame = element("div", {
    class: "matrix-frame scroll", id: "matrix", tabindex: "0", role: "application", "aria-roledescription": "attention matrix",
    "aria-label": `Weights of ${name}: ${map.rows} queries, ${map.columns} keys. Arrow keys move the cell, Enter shows its numbers, plus and minus zoom.`,
  }, space);
  const context = canvas.getContext("2d");
  const view = { cell: 0, left: 0, top: 0, width: 0, height: 0, chosen: { query: null, key: null }, at: null, lit: new Set() };
  const greatest = greatestOf(map);
  let images = null;

  const colours = () => {
    const shades = makeShades();
    const whole = { rows: map.rows, columns: map.columns, values: map.weights };
    images = { whole: imageOf(whole, shades, greatest), shades, pooled: new Map() };
  };
  const layout = (cell) => {
    context.font = fontOf(frame);
    const room = frame.clientWidth;
    const labels = { left: widest(context, sides.rows.pieces, Math.min(MOST_LABEL, room / 3)) + 10, top: widest(context, sides.columns.pieces, MOST_LABEL) + 10 };
    const fits = Math.min((room - labels.left) / map.columns, (TALLEST - labels.top) / map.rows);
    view.cell = Math.max(Math.min(cell ?? fits, LARGEST), Math.min(fits, LABELLED));
    const labelled = view.cell >= LABELLED;
    view.left = labelled ? labels.left : 40;
    view.top = labelled ? labels.top : 24;
    const [width, height] = [view.left + view.cell * map.columns, view.top + view.cell * map.rows];
    space.style.width = `${width}px`;
    space.style.height = `${height}px`;
    frame.style.height = `${Math.min(height, TALLEST)}px`;
    view.width = Math.min(Math.ceil(width), room);
    view.height = Math.min(Math.ceil(height), TALLEST);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    soon();
  };
  const draw = () => {
    const ratio = canvas.width / view.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    drawWeights();
    drawMarks(context, view, frame, map, sides);
  };
  const drawWeights = () => {
    const pixels = view.cell * (window.devicePixelRatio || 1);
    const factor = Math.max(1, Math.floor(1 / pixels));
    if (factor > 1 && !images.pooled.has(factor)) {
      images.pooled.set(factor, imageOf(maxPooled(map, Math.ceil(Math.max(map.rows, map.columns) / factor)), images.shades, greatest));
    }
    const image = factor > 1 ? images.pooled.get(factor) : images.whole;
    context.save();
    context.beginPath();
    context.rect(view.left, view.top, view.width, view.height);
    context.clip();
    context.imageSmoothingEnabled = pixels < 1;
    const size = view.cell * (factor > 1 ? factor : 1);
    context.drawImage(image, view.left - frame.scrollLeft, view.top - frame.scrollTop, image.width * size, image.height * size);
    context.restore();
  };
  const soon = oncePerFrame(draw);

  const tell = (at) => {
    readout.replaceChildren(...(at ? describe(map, sides, at) : []));
  };
  const point = (at, byKey) => {
    view.at = at;
    tell(at ?? chosenCell(view));
    if (at) light(tokenId(sides.rows.side, at.query), tokenId(sides.columns.side, at.key));
    else light();
    if (byKey) reveal(frame, view, at);
    soon();
  };
  const zoom = (times) => {
    const middle = [frame.scrollLeft, frame.scrollTop].map((each, axis) => (each + (axis ? view.height - view.top : view.width - view.left) / 2) / view.cell);
    layout(view.cell * times);
    [frame.scrollLeft, frame.scrollTop] = middle.map((each, axis) => each * view.cell - (axis ? view.height - view.top : view.width - view.left) / 2);
  };

  frame.addEventListener("scroll", soon);
  frame.addEventListener("pointermove", (event) => point(cellUnder(event, canvas, frame, view, map), false));
  frame.addEventListener("pointerleave", () => point(null, false));
  frame.addEventListener("click", (event) => {
    const at = cellUnder(event, canvas, frame, view, map);
    if (at) pick(at.query, at.key);
  });
  frame.addEventListener("blur", () => point(null, false));
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = view.at ?? chosenCell(view) ?? { query: 0, key: 0 };
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "Enter" || event.key === " ") pick(at.query, at.key);
    else {
      const next = moved(event.key, at, map);
      if (!next) return;
      point(next, true);
    }
    event.preventDefault();
  });
  const button = (text, label, onclick) => element("button", { type: "button", "aria-label": label, title: label, onclick }, text);
  place.replaceChildren(
    element("div", { class: "tools" },
      button("−", "Zoom out (−)", () => zoom(1 / 1.5)), button("+", "Zoom in (+)", () => zoom(1.5)), button("Fit", "Show all of it", () => layout()),
      element("span", { class: "about" }, "queries down, keys across"),
      element("span", { class: "shade-scale" }, "0", element("i"), share(greatest))),
    frame, readout);
  colours();
  layout();
  const resized = new ResizeObserver(() => {
    if (view.room !== frame.clientWidth) layout(view.room ? undefined : view.cell);
    view.room = frame.clientWidth;
  });
  resized.observe(frame);
  const ends = [
    onHover((lit) => {
      view.lit = lit;
      soon();
    }),
    onColourScheme(() => {
      colours();
      soon();
    }),
    () => resized.disconnect(),
  ];
  return {
    update({ query, key }) {
      const inside = query !== null && key !== null && query < map.rows && key < map.columns;
      view.chosen = inside ? { query, key } : { query: null, key: null };
      tell(view.at ?? chosenCell(view));
      soon();
    },
    clean: () => ends.forEach((each) => each()),
  };
}

function describe(map, sides, { query, key }) {
  const piece = (side, index) => element("bdi", { class: "token", dir: "auto" }, shown(side.pieces[index]));
  const weight = map.weights[query * map.columns + key];
  return [piece(sides.rows, query), ` ${query} attends to `, piece(sides.columns, key), ` ${key}: `, element("strong", {}, share(weight))];
}

function drawMarks(context, view, frame, map, sides) {
  const style = getComputedStyle(frame);
  const property = (name) => style.getPropertyValue(name);
  const rows = view.at ? [view.at.query] : litIndices(sides.rows, view.lit);
  const columns = view.at ? [view.at.key] : litIndices(sides.columns, view.lit);
  const x = (column) => view.left - frame.scrollLeft + column * view.cell;
  const y = (row) => view.top - frame.scrollTop + row * view.cell;
  const thick = Math.max(view.cell, 1);
  context.save();
  context.beginPath();
  context.rect(view.left, view.top, view.width, view.height);
  context.clip();
  context.strokeStyle = property("--ink");
  context.globalAlpha = 0.55;
  for (const row of rows) context.strokeRect(view.left - 2, y(row) + 0.5, view.width + 4, thick - 1);
  for (const column of columns) context.strokeRect(x(column) + 0.5, view.top - 2, thick - 1, view.height + 4);
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = property("--c2");
  const { query, key } = view.chosen;
  if (query !== null) {
    const size = Math.max(view.cell, 6);
    context.strokeRect(x(key) + (view.cell - size) / 2, y(query) + (view.cell - size) / 2, size, size);
  }
  context.restore();
  context.font = fontOf(frame);
  context.textBaseline = "middle";
  const labels = view.cell >= LABELLED ? drawLabels : drawNumbers;
  const tones = { ink: property("--ink"), soft: property("--soft"), lit: property("--lit") };
  labels(context, view, { list: sides.rows.pieces, count: map.rows, marked: new Set(rows), at: y, start: view.top, end: view.height, down: true }, tones);
  labels(context, view, { list: sides.columns.pieces, count: map.columns, marked: new Set(columns), at: x, start: view.left, end: view.width, down: false }, tones);
}

/** Write the labels of the rows (down) or columns that can be seen. */
function drawLabels(context, view, { list, count, marked, at, start, end, down }, tones) {
  const first = Math.max(0, Math.floor((start - at(0)) / view.cell));
  for (let index = first; index < count; index++) {
    const middle = at(index) + view.cell / 2;
    if (middle < start) continue;
    if (middle > end) return;
    context.save();
    if (down) context.translate(view.left - 5, middle);
    else {
      context.translate(middle, view.top - 5);
      context.rotate(-Math.PI / 2);
    }
    const room = (down ? view.left : view.top) - 8;
    const text = shortened(context, list[index], room);
    if (marked.has(index)) {
      const width = context.measureText(text).width + 6;
      context.fillStyle = tones.lit;
      context.fillRect(down ? 3 - width : -3, -8, width, 16);
    }
    context.fillStyle = tones.ink;
    writeLabel(context, text, 0, 0, down ? "right" : "left");
    context.restore();
  }
}

/** Write the numbers of some rows or columns, where there is no room for tokens. */
function drawNumbers(context, view, { count, marked, at, start, end, down }, tones) {
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((each) => each * view.cell >= 44) ?? 10_000;
  for (let index = 0; index < count; index++) {
    if (index % step !== 0 && !marked.has(index)) continue;
    const middle = at(index) + view.cell / 2;
    if (middle < start || middle > end) continue;
    if (marked.has(index)) {
      context.fillStyle = tones.lit;
      if (down) context.fillRect(0, middle - 8, view.left, 16);
      else context.fillRect(middle - 16, 0, 32, view.top);
    }
    context.fillStyle = marked.has(index) ? tones.ink : tones.soft;
    context.direction = "ltr";
    context.textAlign = down ? "right" : "center";
    context.fillText(String(index), down ? view.left - 5 : middle, down ? middle : view.top - 10);
  }
}

function fontOf(node) {
  return `11px ${getComputedStyle(node).getPropertyValue("--mono")}`;
}

function chosenCell({ chosen }) {
  return chosen.query === null ? null : chosen;
}

function cellUnder(event, canvas, frame, view, map) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const key = Math.floor((x - view.left + frame.scrollLeft) / view.cell);
  const query = Math.floor((y - view.top + frame.scrollTop) / view.cell);
  const inside = x >= view.left && y >= view.top && key < map.columns && query < map.rows;
  return inside ? { query, key } : null;
}

function moved(pressed, { query, key }, map) {
  const last = { query: map.rows - 1, key: map.columns - 1 };
  const moves = {
    ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1],
    PageDown: [PAGE, 0], PageUp: [-PAGE, 0], Home: [0, -last.key], End: [0, last.key],
  };
  if (!(pressed in moves)) return null;
  const within = (value, end) => Math.max(0, Math.min(end, value));
  return { query: within(query + moves[pressed][0], last.query), key: within(key + moves[pressed][1], last.key) };
}

/** Scroll so that a cell can be seen. */
function reveal(frame, view, { query, key }) {
  const along = (scroll, room, index) => {
    const [start, end] = [index * view.cell, (index + 1) * view.cell];
    return Math.max(Math.min(scroll, start), end - room);
  };
  frame.scrollLeft = along(frame.scrollLeft, view.width - view.left, key);
  frame.scrollTop = along(frame.scrollTop, view.height - view.top, query);
}

// One head as a matrix on a canvas: queries down, keys across. The canvas is as large as
// what can be seen of it; labels stand beside while the weights are scrolled.

import { h } from "../dom.js";
import { share } from "../numbers.js";
import { piece } from "../parts.js";
import { light, onHover, tokenId } from "../tokens.js";
import { LABELLED, drawLabels, setFont, widest } from "./attention_labels.js";
import { greatestOf, imageOf, litIndices, makeShades, maxPooled, onColourScheme, oncePerFrame } from "./attention_maps.js";

const LARGEST = 40; // sides of a cell, in CSS pixels
const TALLEST = 640;
const PAGE = 10; // cells that Page Up and Page Down move
const MOST_LABEL = 120;

/** Fill `place`. `pick(query, key)` is called when a cell is chosen, `turn()` when the
 *  head is to be switched. Returns {update(state), clean()}. */
export function makeMatrix(place, map, sides, { pick, turn }) {
  const canvas = h("canvas.matrix-canvas", { "aria-hidden": "true" });
  const space = h("div", canvas);
  const readout = h("p.matrix-readout", { "aria-live": "polite" });
  const frame = h("div.matrix-frame.scroll", {
    id: "matrix", tabindex: "0", role: "application", "aria-roledescription": "attention matrix",
    "aria-label": `Weights of ${map.head}: ${map.rows} queries, ${map.columns} keys. Arrow keys move the cell, Enter shows its numbers, plus and minus zoom, o switches the head.`,
  }, space);
  const context = canvas.getContext("2d");
  const greatest = greatestOf(map);
  const view = { cell: 0, left: 0, top: 0, width: 0, height: 0, chosen: null, at: null, lit: new Set() };
  let shades = makeShades();
  let images = new Map(); // by how many positions a pixel stands for
  let tones = tonesOf(place);

  const draw = () => {
    const ratio = canvas.width / view.width;
    const origin = { x: view.left - frame.scrollLeft, y: view.top - frame.scrollTop };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    drawWeights(origin, ratio);
    drawMarks(context, view, origin, tones, sides);
  };
  const soon = oncePerFrame(draw);
  const drawWeights = ({ x, y }, ratio) => {
    const factor = Math.max(1, Math.floor(1 / (view.cell * ratio)));
    if (!images.has(factor)) images.set(factor, imageOf(maxPooled(map, Math.ceil(Math.max(map.rows, map.columns) / factor)), shades, greatest));
    const image = images.get(factor);
    const size = view.cell * factor;
    context.save();
    context.beginPath();
    context.rect(view.left, view.top, view.width, view.height);
    context.clip();
    context.imageSmoothingEnabled = view.cell * ratio < 1;
    context.drawImage(image, x, y, image.width * size, image.height * size);
    context.restore();
  };
  const layout = (cell) => {
    setFont(context, tones);
    const room = frame.clientWidth;
    const [left, top] = [widest(context, sides.rows.pieces, Math.min(MOST_LABEL, room / 3)) + 10, widest(context, sides.columns.pieces, MOST_LABEL) + 10];
    const fits = Math.max(0.1, Math.min((room - left) / map.columns, (TALLEST - top) / map.rows));
    view.cell = Math.max(Math.min(cell ?? fits, LARGEST), Math.min(fits, LABELLED));
    [view.left, view.top] = view.cell >= LABELLED ? [left, top] : [40, 24];
    const [width, height] = [view.left + view.cell * map.columns, view.top + view.cell * map.rows];
    [view.room, view.width, view.height] = [room, Math.min(Math.ceil(width), room), Math.min(Math.ceil(height), TALLEST)];
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
    const size = (node, across, down) => Object.assign(node.style, { width: `${across}px`, height: `${down}px` });
    size(space, width, height);
    size(canvas, view.width, view.height);
    frame.style.height = `${view.height}px`;
    soon();
  };
  const zoom = (times) => {
    const [across, down] = [(view.width - view.left) / 2, (view.height - view.top) / 2];
    const [x, y] = [(frame.scrollLeft + across) / view.cell, (frame.scrollTop + down) / view.cell];
    layout(view.cell * times);
    frame.scrollTo(x * view.cell - across, y * view.cell - down);
  };
  const tell = () => {
    const at = view.at ?? view.chosen;
    readout.replaceChildren(...(at ? [piece(sides.rows.pieces[at.query]), ` ${at.query} attends to `, piece(sides.columns.pieces[at.key]),
      ` ${at.key}: `, h("strong", share(map.weights[at.query * map.columns + at.key]))] : []));
  };
  const point = (at) => {
    view.at = at;
    tell();
    light(...(at ? [tokenId(sides.rows.side, at.query), tokenId(sides.columns.side, at.key)] : []));
    soon();
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - view.left, event.clientY - box.top - view.top];
    const [query, key] = [Math.floor((y + frame.scrollTop) / view.cell), Math.floor((x + frame.scrollLeft) / view.cell)];
    return x >= 0 && y >= 0 && query < map.rows && key < map.columns ? { query, key } : null;
  };
  const onkey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = view.at ?? view.chosen ?? { query: 0, key: 0 };
    const next = moved(event.key, at, map);
    if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "Enter" || event.key === " ") pick(at.query, at.key);
    else if (event.key === "o") turn();
    else if (next) {
      point(next);
      reveal(frame, view, next);
    } else return;
    event.preventDefault();
  };
  const listeners = {
    scroll: soon, keydown: onkey, blur: () => point(null), pointerleave: () => point(null), pointermove: (event) => point(under(event)),
    click: (event) => {
      const at = under(event);
      if (at) pick(at.query, at.key);
    },
  };
  for (const [name, listener] of Object.entries(listeners)) frame.addEventListener(name, listener);
  const button = (text, label, onclick) => h("button", { "aria-label": label, title: label, onclick }, text);
  place.replaceChildren(
    h("div.tools", button("−", "Zoom out (−)", () => zoom(1 / 1.5)), button("+", "Zoom in (+)", () => zoom(1.5)), button("Fit", "Show all of it", () => layout()),
      h("span.about", "queries down, keys across"), h("span.shade-scale", "0", h("i"), share(greatest))),
    frame, readout);
  layout();
  const resized = new ResizeObserver(() => {
    if (frame.clientWidth && view.room !== frame.clientWidth) layout();
  });
  resized.observe(frame);
  const ends = [
    () => resized.disconnect(),
    onHover((lit) => {
      view.lit = lit;
      soon();
    }),
    onColourScheme(() => {
      shades = makeShades();
      tones = tonesOf(place);
      images = new Map();
      soon();
    }),
  ];
  return {
    update({ query, key }) {
      const inside = query !== null && key !== null && query < map.rows && key < map.columns;
      view.chosen = inside ? { query, key } : null;
      tell();
      soon();
    },
    clean: () => ends.forEach((each) => each()),
  };
}

/** Mark what is pointed at and what is chosen, and write the labels. */
function drawMarks(context, view, { x, y }, tones, sides) {
  const rows = view.at ? [view.at.query] : litIndices(sides.rows, view.lit);
  const columns = view.at ? [view.at.key] : litIndices(sides.columns, view.lit);
  const { cell, left, top, width, height, chosen } = view;
  const thick = Math.max(cell, 1) - 1;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = tones.ink;
  context.globalAlpha = 0.55;
  for (const row of rows) context.strokeRect(left - 2, y + row * cell + 0.5, width + 4, thick);
  for (const column of columns) context.strokeRect(x + column * cell + 0.5, top - 2, thick, height + 4);
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = tones.c2;
  if (chosen) {
    const size = Math.max(cell, 6);
    context.strokeRect(x + chosen.key * cell + (cell - size) / 2, y + chosen.query * cell + (cell - size) / 2, size, size);
  }
  context.restore();
  setFont(context, tones);
  drawLabels(context, { pieces: sides.rows.pieces, marked: rows, cell, first: y, start: top, end: height, room: left, down: true }, tones);
  drawLabels(context, { pieces: sides.columns.pieces, marked: columns, cell, first: x, start: left, end: width, room: top, down: false }, tones);
}

/** The custom properties that are drawn with, which are slow to look up in each frame. */
function tonesOf(node) {
  const style = getComputedStyle(node);
  return Object.fromEntries(["ink", "soft", "lit", "c2", "mono"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
}

function moved(pressed, { query, key }, { rows, columns }) {
  const moves = {
    ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1],
    PageDown: [PAGE, 0], PageUp: [-PAGE, 0], Home: [0, -columns], End: [0, columns],
  };
  if (!(pressed in moves)) return null;
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  return { query: within(query + moves[pressed][0], rows), key: within(key + moves[pressed][1], columns) };
}

/** Scroll so that a cell can be seen. */
function reveal(frame, { cell, left, top, width, height }, { query, key }) {
  const along = (scroll, room, index) => Math.max(Math.min(scroll, index * cell), (index + 1) * cell - room);
  frame.scrollTo(along(frame.scrollLeft, width - left, key), along(frame.scrollTop, height - top, query));
}

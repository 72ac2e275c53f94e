// Maps of attention: their labels, their colours, and smaller ones of large ones.

import { tokenId } from "../tokens.js";

export const KINDS = {
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
  cross: "Cross-attention",
};

/** Return {kind, layer, index} of a name such as cross.1.3. */
export function parsed(head) {
  const [kind, layer, index] = head.split(".");
  return { kind, layer: Number(layer), index: Number(index) };
}

/** Return what the rows and the columns of a head stand for: each {side, pieces}, with the
 *  side as `tokens.js` has it. Rows of decoder and cross heads are the target as it is
 *  predicted; columns of decoder heads are the decoder input, one position later. */
export function sidesOf(found, head) {
  const { kind } = parsed(head);
  const source = { side: "source", pieces: found.source };
  if (kind === "encoder") return { rows: source, columns: source };
  const rows = { side: "target", pieces: found.target };
  return { rows, columns: kind === "cross" ? source : { side: "input", pieces: found.decoder_input } };
}

/** Return the indices of a side whose tokens are lit. */
export function litIndices({ side, pieces }, lit) {
  const indices = [...lit].map((id) => Number(id.split(":")[1]) + (side === "input" ? 1 : 0));
  return indices.filter((index) => index >= 0 && index < pieces.length && lit.has(tokenId(side, index)));
}

/** Make a map smaller by the greatest weight of each square of positions, so that a single
 *  strong weight stays visible. Returns {rows, columns, values}. */
export function maxPooled({ rows, columns, weights }, side) {
  const factor = Math.max(1, Math.ceil(Math.max(rows, columns) / side));
  if (factor === 1) return { rows, columns, values: weights };
  const [height, width] = [Math.ceil(rows / factor), Math.ceil(columns / factor)];
  const values = new Float32Array(height * width);
  for (let row = 0; row < rows; row++) {
    const to = Math.floor(row / factor) * width;
    const from = row * columns;
    for (let x = 0, column = 0; x < width; x++) {
      const end = Math.min(columns, (x + 1) * factor);
      let greatest = values[to + x];
      for (; column < end; column++) if (weights[from + column] > greatest) greatest = weights[from + column];
      values[to + x] = greatest;
    }
  }
  return { rows: height, columns: width, values };
}

/** Return the `count` greatest weights of a row as {index, weight}, greatest first. */
export function strongest({ columns, weights }, row, count) {
  const found = Array.from(weights.subarray(row * columns, (row + 1) * columns), (weight, index) => ({ index, weight }));
  return found.filter((each) => each.weight > 0).sort((a, b) => b.weight - a.weight).slice(0, count);
}

/** Draw values of 0 to `greatest` on a canvas of one pixel each. */
export function imageOf({ rows, columns, values }, shades, greatest = 1) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = greatest > 0 ? 1 / greatest : 0;
  for (let i = 0; i < pixels.length; i++) pixels[i] = shades[Math.min(255, Math.sqrt(values[i] * scale) * 255 + 0.5 | 0)];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Return the greatest weight of a map. */
export function greatestOf({ weights }) {
  let greatest = 0;
  for (const weight of weights) if (weight > greatest) greatest = weight;
  return greatest;
}

/** Return the 256 colours of weights from 0 to the greatest, by the square root of the weight: else
 *  all but the strongest ones would look alike. As pixels of `ImageData`. */
export function makeShades() {
  const [low, high] = [colour("--card"), colour("--heat")];
  return Uint32Array.from({ length: 256 }, (_, index) => {
    const part = 0.03 + 0.97 * index / 255;
    const [red, green, blue] = low.map((each, channel) => Math.round(each + (high[channel] - each) * part));
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
  });
}

/** Return red, green and blue of a custom property, which is written as #rrggbb. */
function colour(property) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(property).trim();
  return [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
}

/** Call `listener` when light becomes dark or dark light. Returns what ends it. */
export function onColourScheme(listener) {
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", listener);
  return () => query.removeEventListener("change", listener);
}

/** Run `draw` once before the next frame, however often it is asked for. */
export function oncePerFrame(draw) {
  let due = 0;
  return () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      draw();
    });
  };
}

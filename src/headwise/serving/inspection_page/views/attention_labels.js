// Tokens as text on a canvas: shortened to fit, in the direction of their script.

import { shown } from "../tokens.js";

const RIGHT_TO_LEFT = /^[\P{L}]*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Return `piece` as it is shown, with an ellipsis if it is wider than `width` pixels.
 *  What a reader sees as one letter is never cut in two. */
export function shortened(context, piece, width) {
  const text = shown(piece);
  if (context.measureText(text).width <= width) return text;
  const letters = Array.from(graphemes.segment(text), (each) => each.segment);
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${letters.slice(0, middle).join("")}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

/** Write a label that ends (align right) or begins (align left) at a point. */
export function writeLabel(context, text, x, y, align) {
  context.direction = RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
  context.textAlign = align;
  context.fillText(text, x, y);
}

/** Return the width that the labels of all pieces take, up to `most`. */
export function widest(context, pieces, most) {
  let found = 0;
  for (const piece of pieces) {
    if (found >= most) break;
    found = Math.max(found, context.measureText(shown(piece)).width);
  }
  return Math.ceil(Math.min(found, most));
}

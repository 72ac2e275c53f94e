// Tokens as text on a canvas: shortened to fit, in the direction of their script; and
// numbers where there is no room for tokens.

import { shown } from "../tokens.js";

export const LABELLED = 10; // pixels of the smallest cell whose token is written

const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export function setFont(context, { mono }) {
  context.font = `11px ${mono}`;
  context.textBaseline = "middle";
}

/** Return the width that the labels of all pieces take, up to `most`. */
export function widest(context, pieces, most) {
  let found = 0;
  for (const piece of pieces) {
    found = Math.max(found, context.measureText(shown(piece)).width);
    if (found >= most) return Math.floor(most);
  }
  return Math.ceil(found);
}

/** Label the rows (`down`) or columns that can be seen between `start` and `end`: index 0
 *  begins at `first`, and labels have `room` pixels. Those that are `marked` are lit. */
export function drawLabels(context, { pieces, marked, cell, first, start, end, room, down }, tones) {
  const step = cell >= LABELLED ? 1 : [10, 20, 50, 100, 200, 500, 1000].find((each) => each * cell >= 44) ?? 2000;
  const from = Math.max(0, Math.ceil((start - first) / cell - 0.5));
  const to = Math.min(pieces.length - 1, Math.floor((end - first) / cell - 0.5));
  const turned = step === 1 && !down;
  const write = (index, lit) => {
    const text = step === 1 ? shortened(context, pieces[index], room - 8) : String(index);
    const middle = first + (index + 0.5) * cell;
    context.save();
    context.translate(...(down ? [room - 5, middle] : [middle, room - (turned ? 5 : 10)]));
    if (turned) context.rotate(-Math.PI / 2);
    context.textAlign = turned ? "left" : down ? "right" : "center";
    if (lit) {
      const width = context.measureText(text).width + 6;
      context.fillStyle = tones.lit;
      context.fillRect({ left: -3, right: 3 - width, center: -width / 2 }[context.textAlign], -8, width, 16);
    }
    context.direction = RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr";
    context.fillStyle = step === 1 || lit ? tones.ink : tones.soft;
    context.fillText(text, 0, 0);
    context.restore();
  };
  for (let index = Math.ceil(from / step) * step; index <= to; index += step) write(index, false);
  for (const index of marked) if (index >= from && index <= to) write(index, true);
}

/** Return a piece as it is shown, with an ellipsis if it is wider than `width` pixels.
 *  What a reader sees as one letter is never cut in two. */
function shortened(context, piece, width) {
  const text = shown(piece);
  const fits = (each) => context.measureText(each).width <= width;
  if (fits(text)) return text;
  const letters = Array.from(graphemes.segment(text), (each) => each.segment);
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(`${letters.slice(0, middle).join("")}…`)) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

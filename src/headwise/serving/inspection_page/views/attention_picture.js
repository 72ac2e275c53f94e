// Where a query looks in a picture, if the source are its patches.

import { h } from "../dom.js";
import { note } from "../parts.js";
import { light, onHover } from "../tokens.js";
import { litIndices, onColourScheme, oncePerFrame } from "./attention_maps.js";

const [WIDEST, LARGEST] = [480, 40]; // the picture and its patches, in CSS pixels

/** Fill `place` with the picture of `patches`, {rows, columns, frames, first, image}, under
 *  the weights of a query. Returns {update(state), clean()}. */
export function makePicture(place, map, sides, { rows, columns, frames = 1, first = 0, image }) {
  const side = Math.min(LARGEST, Math.floor(WIDEST / (columns * frames)));
  const [width, height] = [side * columns * frames, side * rows];
  const canvas = h("canvas.patches", { width, height, role: "img", "aria-label": "The picture: the stronger the colour of a patch, the greater its weight. The table has the numbers." });
  const [context, picture] = [canvas.getContext("2d"), new Image()];
  let [query, lit] = [0, new Set()];
  const perFrame = rows * columns;
  const corner = (patch) => [(Math.floor(patch / perFrame) * columns + patch % columns) * side, Math.floor(patch % perFrame / columns) * side];
  const draw = () => {
    const tone = (name) => getComputedStyle(canvas).getPropertyValue(name);
    const weights = map.weights.subarray(query * map.columns + first, query * map.columns + first + perFrame * frames);
    const greatest = Math.max(...weights) || 1;
    context.globalAlpha = 1;
    context.drawImage(picture, 0, 0, width, height);
    context.fillStyle = tone("--card");
    context.globalAlpha = 0.5;
    context.fillRect(0, 0, width, height);
    context.fillStyle = tone("--heat");
    weights.forEach((weight, patch) => {
      context.globalAlpha = 0.85 * Math.sqrt(weight / greatest);
      context.fillRect(...corner(patch), side, side);
    });
    context.globalAlpha = 1;
    context.strokeStyle = tone("--c2");
    context.lineWidth = 2;
    for (const index of litIndices(sides.columns, lit)) if (index >= first) context.strokeRect(...corner(index - first), side, side);
  };
  const soon = oncePerFrame(draw);
  picture.addEventListener("load", soon);
  picture.src = image;
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const scale = width / canvas.clientWidth;
    const [x, y] = [Math.floor(offsetX * scale / side), Math.floor(offsetY * scale / side)];
    light(`source:${first + Math.floor(x / columns) * perFrame + y * columns + x % columns}`);
  });
  canvas.addEventListener("pointerleave", () => light());
  const about = note();
  place.replaceChildren(about, canvas);
  const ends = [onColourScheme(soon), onHover((ids) => {
    lit = ids;
    soon();
  })];
  return {
    update(state) {
      query = Math.min(state.query ?? 0, map.rows - 1);
      about.textContent = `Where query ${query} looks in the picture.`;
      soon();
    },
    clean: () => ends.forEach((end) => end()),
  };
}

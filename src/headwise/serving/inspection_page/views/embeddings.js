// The embeddings of a sentence in two dimensions, with their nearest neighbours.

import { h, svg } from "../dom.js";
import { percent, signed } from "../numbers.js";
import { bars, note, numbers, piece, rove } from "../parts.js";
import { base } from "../state.js";
import { light, shown, tokenId } from "../tokens.js";

const WIDE = 900;
const HIGH = 560;
const MARGIN = 34;
const LETTER = 7.4;
const LETTERS = 14;
const MOST_LABELS = 400;
const SIDES = ["source", "target", "neighbour"];

export const embeddings = {
  name: "embeddings",
  title: "Embeddings",
  about: "Pieces of the sentence and their nearest neighbours in the vocabulary, in the two directions in which they differ most.",
  view: "embeddings",
  request: base,
  render(place, found) {
    const chosen = h("div.card.chosen", { "aria-live": "polite" });
    const [x, y] = found.explained;
    place.append(
      h("p.tools", ...SIDES.map((side) => h("span.key", { class: side }, side))),
      h("div.beside-list", scatter(distinct(found.points), chosen), chosen),
      note(`Principal components: ${percent(x)} of the variance of these points from left to right, ${percent(y)} from bottom to top. The rest cannot be seen here, `,
        "so near in the picture need not be near: the list has the cosine similarity in all dimensions."),
      numbers("Numbers: all points", ["piece", "side", "position", "x", "y", "nearest, with cosine similarity"], found.points.length, (i) => row(found.points[i])));
  },
};

function row(point) {
  return [piece(point.piece), point.side, point.index ?? "", signed(point.x, 4), signed(point.y, 4),
    point.nearest.map((each) => `${shown(each.piece)} ${signed(each.cosine, 3)}`).join("  ")];
}

/** Return a point for each piece of a side, with all its positions; neighbours first, so
 *  that the sentence is drawn above them. */
function distinct(points) {
  const groups = Map.groupBy(points, ({ side, token }) => `${side} ${token}`);
  return [...groups.values()].map((each) => ({ ...each[0], indices: each.map(({ index }) => index).filter((index) => index !== null) }))
    .sort((one, other) => SIDES.indexOf(other.side) - SIDES.indexOf(one.side));
}

function scatter(points, chosen) {
  const scale = (name, from, to) => {
    const values = points.map((each) => each[name]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  };
  const [across, down] = [scale("x", MARGIN, WIDE - 3 * MARGIN), scale("y", HIGH - MARGIN, MARGIN)];
  for (const point of points) Object.assign(point, { left: across(point.x), top: down(point.y) });
  label(points);
  const marks = points.map(mark);
  const tell = (index) => {
    const { side, indices } = points[index];
    describe(chosen, points[index]);
    light(...indices.map((each) => tokenId(side, each)));
  };
  for (const type of ["focus", "pointerenter"]) marks.forEach((each, index) => each.addEventListener(type, () => tell(index)));
  const leftToRight = points.map((_, index) => index).sort((one, other) => points[one].left - points[other].left);
  const first = points.findLastIndex((each) => each.indices.includes(0));
  rove(leftToRight.map((index) => marks[index]), points.length, leftToRight.indexOf(first));
  describe(chosen, points[first]);
  return h("div.scroll", svg("svg", { class: "scatter", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": "Embeddings in two dimensions" }, ...marks));
}

function mark(point) {
  const { side, indices: [first], left, top } = point;
  const letters = [...new Intl.Segmenter().segment(shown(point.piece))].map((each) => each.segment);
  return svg("g", {
    class: `point ${side}`, tabindex: "-1", role: "img", "aria-label": `${shown(point.piece)}, ${side}`,
    "data-token": first === undefined ? null : tokenId(side, first), transform: `translate(${left.toFixed(1)} ${top.toFixed(1)})`,
  }, svg("title", {}, shown(point.piece)), svg("circle", { r: side === "neighbour" ? 3.5 : 6 }),
  svg("text", { x: 9, y: 4, class: point.isLabelled ? null : "on-focus" }, letters.length > LETTERS ? `${letters.slice(0, LETTERS - 1).join("")}…` : letters.join("")));
}

/** Label the points whose names overlap no other, those of the sentence first. */
function label(points) {
  const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
  const taken = points.filter((point) => point.side !== "neighbour").slice(-MOST_LABELS)
    .map(({ left, top }) => [left - 6, top - 6, left + 6, top + 6]);
  for (const point of [...points].reverse()) {
    const box = [point.left + 7, point.top - 9, point.left + 10 + LETTER * Math.min(LETTERS, point.piece.length), point.top + 9];
    point.isLabelled = taken.length < 2 * MOST_LABELS && !taken.some((other) => overlap(box, other));
    if (point.isLabelled) taken.push(box);
  }
}

function describe(chosen, { piece: name, side, indices, nearest }) {
  chosen.replaceChildren(
    h("h3", piece(name)), note(indices.length ? `${side}, position ${indices.join(", ")}` : "in the vocabulary"),
    ...(nearest.length ? [bars(nearest.map((each) => [each.cosine, {}, piece(each.piece), signed(each.cosine, 3)])), note("Nearest in all dimensions, by cosine similarity.")] : []));
}

// The embeddings of a sentence in two dimensions, with their nearest neighbours.

import { element, svg } from "../dom.js";
import { percent, signed } from "../numbers.js";
import { bar, note, numbers } from "../parts.js";
import { base } from "../state.js";
import { light, shown, tokenId } from "../tokens.js";

const WIDE = 900;
const HIGH = 560;
const MARGIN = 34;
const LETTER = 7.4;
const MOST_LABELS = 400;

export const embeddings = {
  name: "embeddings",
  title: "Embeddings",
  about: "Pieces of the sentence and their nearest neighbours in the vocabulary, in the two directions in which they differ most.",
  view: "embeddings",
  needs: "Write a text above.",
  request: base,
  render(place, found) {
    const chosen = element("div", { class: "card chosen", "aria-live": "polite" });
    const [x, y] = found.explained;
    place.append(
      element("p", { class: "line" }, ...["source", "target", "neighbour"].map((side) => element("span", { class: `key ${side}` }, side))),
      element("div", { class: "beside-list" }, scatter(found, chosen), chosen),
      note(`Principal components: ${percent(x)} of the variance of these points from left to right, ${percent(y)} from bottom to top. The rest cannot be seen here, `,
        "so near in the picture need not be near: the list has the cosine similarity in all dimensions."),
      numbers("Numbers: all points", ["piece", "side", "position", "x", "y", "nearest, with cosine similarity"], found.points.length, (i) => row(found.points[i])));
  },
};

function row(point) {
  return [element("bdi", { dir: "auto" }, shown(point.piece)), point.side, point.index ?? "", signed(point.x, 4), signed(point.y, 4),
    point.nearest.map((each) => `${shown(each.piece)} ${signed(each.cosine, 3)}`).join("  ")];
}

/** Return a point for each piece of a side, with all its positions. */
function distinct(points) {
  const found = new Map();
  for (const point of points) {
    const name = `${point.side} ${point.token}`;
    if (!found.has(name)) found.set(name, { ...point, indices: [] });
    if (point.index !== null) found.get(name).indices.push(point.index);
  }
  return [...found.values()].sort((one, another) => (another.side === "neighbour") - (one.side === "neighbour"));
}

function scatter(found, chosen) {
  const points = distinct(found.points);
  const scale = (name, from, to) => {
    const values = points.map((each) => each[name]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  };
  const [across, down] = [scale("x", MARGIN, WIDE - 3 * MARGIN), scale("y", HIGH - MARGIN, MARGIN)];
  for (const point of points) Object.assign(point, { left: across(point.x), top: down(point.y) });
  label(points);
  const marks = points.map((point) => mark(point));
  const tell = (index) => {
    describe(chosen, points[index]);
    light(...points[index].indices.map((each) => tokenId(points[index].side, each)));
    for (const other of marks) other.tabIndex = -1;
    marks[index].tabIndex = 0;
  };
  marks.forEach((each, index) => {
    each.addEventListener("focus", () => tell(index));
    each.addEventListener("pointerenter", () => tell(index));
    each.addEventListener("keydown", (event) => {
      const to = towards(points, index, event.key);
      if (to === null) return;
      event.preventDefault();
      marks[to].focus();
    });
  });
  if (points.length) tell(Math.max(0, points.findIndex((each) => each.indices.length)));
  light();
  return element("div", { class: "scroll" },
    svg("svg", { class: "scatter", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": "Embeddings in two dimensions" }, ...marks));
}

function mark(point) {
  const [first] = point.indices;
  return svg("g", {
    class: `point ${point.side}`, tabindex: "-1", role: "img", "aria-label": `${shown(point.piece)}, ${point.side}`,
    "data-token": first === undefined ? null : tokenId(point.side, first), transform: `translate(${point.left.toFixed(1)} ${point.top.toFixed(1)})`,
  }, svg("title", {}, shown(point.piece)), svg("circle", { r: point.side === "neighbour" ? 3.5 : 6 }),
  svg("text", { x: 9, y: 4, class: point.isLabelled ? null : "on-focus" }, cut(shown(point.piece))));
}

function cut(text) {
  const letters = [...new Intl.Segmenter().segment(text)].map((each) => each.segment);
  return letters.length > 14 ? `${letters.slice(0, 13).join("")}\u2026` : text;
}

/** Label the points whose names overlap no other, those of the sentence first. */
function label(points) {
  const overlap = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
  const own = points.filter((point) => point.side !== "neighbour").slice(-MOST_LABELS);
  const circles = own.map((point) => [point.left - 6, point.top - 6, point.left + 6, point.top + 6]);
  const boxes = [];
  for (const point of [...points].reverse()) {
    const box = [point.left + 7, point.top - 9, point.left + 10 + LETTER * Math.min(14, shown(point.piece).length), point.top + 9];
    point.isLabelled = boxes.length < MOST_LABELS && ![...boxes, ...circles].some((other) => overlap(box, other));
    if (point.isLabelled) boxes.push(box);
  }
}

/** Return the nearest point in the direction of an arrow key. */
function towards(points, index, key) {
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  if (!direction) return null;
  const from = points[index];
  let [best, least] = [index, Infinity];
  points.forEach((point, other) => {
    const [x, y] = [point.left - from.left, point.top - from.top];
    const along = x * direction[0] + y * direction[1];
    const aside = Math.abs(x * direction[1]) + Math.abs(y * direction[0]);
    const cost = along + 3 * aside;
    if (other !== index && along > 0 && cost < least) [best, least] = [other, cost];
  });
  return best;
}

function describe(chosen, point) {
  const where = point.indices.length ? `${point.side}, position ${point.indices.join(", ")}` : "in the vocabulary";
  chosen.replaceChildren(
    element("h2", {}, element("bdi", { dir: "auto" }, shown(point.piece))), note(where),
    element("ol", { class: "bars" }, ...point.nearest.map((each) => element("li", {}, bar(each.cosine, {},
      element("bdi", { dir: "auto" }, shown(each.piece)), element("span", { class: "p" }, signed(each.cosine, 3)))))),
    note("Nearest in all dimensions, by cosine similarity."));
}

// One position through one head and the rest of its block, with the model's own numbers:
// what the references work out by hand.

import { element } from "../dom.js";
import { channels, heatMap, nameAxis, strip, tokenAxis } from "../heat.js";
import { share, signed } from "../numbers.js";
import { bar, choice, formula, headTitle, matrixNumbers, note, numbers, rove } from "../parts.js";
import { base } from "../state.js";
import { shown, token } from "../tokens.js";

const ROW = 20;
const KINDS = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" };

export const word = {
  name: "word",
  title: "Word by word",
  about: "One word through one head and the rest of its layer, step by step, with the numbers that the model computes.",
  view: "word",
  needs: "Write a text above.",
  request: (state, model) => ({ ...base(state), heads: [state.head || model.heads[0]], position: state.query ?? 0 }),
  render(place, found, context) {
    const readout = element("p", { class: "readout sticky", "aria-live": "polite" }, "Point at a cell, or move through it by arrow keys, to read its number.");
    const kind = found.head.split(".")[0];
    const side = kind === "decoder" ? "input" : "source";
    const seen = { found, kind, side, readout, size: found.query.length, attended: tokenAxis(side, found.attended) };
    place.append(element("div", { class: "word-view" },
      controls(found, kind, context),
      element("ol", { class: "steps" },
        project(seen), score(seen), mask(seen), sum(seen), join(seen),
        ...found.sublayers.flatMap((each) => sublayer(each, readout))),
      readout,
      ...tables(seen)));
  },
};

function controls(found, kind, { state, set, model, ask, base: body }) {
  const ofRows = (name) => (name.startsWith("encoder") ? "source" : "input");
  const heads = choice("Head", model.heads.map((each) => [each, each]), found.head,
    (head) => set({ head, query: ofRows(head) === ofRows(found.head) ? found.position : 0, key: null }),
    { group: ([name]) => `${KINDS[name.split(".")[0]]}, layer ${name.split(".")[1]}`, id: "word-head" });
  const place = element("div", { class: "tokens scroll", role: "group", "aria-label": "Position" });
  const fill = (pieces) => place.replaceChildren(...rove(pieces.map((piece, index) => token(ofRows(found.head), index, piece, {
    id: `word-position-${index}`, pressed: String(index === found.position), title: `position ${index}: ${shown(piece)}`,
    onpress: () => set({ head: found.head, query: index, key: null }),
  })), pieces.length, Math.min(found.position, pieces.length - 1)));
  if (kind !== "cross") fill(found.attended);
  else {
    fill([found.piece]);
    place.firstChild.disabled = true;
    ask("output", { ...body(state), count: 6 })
      .then((output) => fill(["<s>", ...output.positions.slice(0, -1).map((each) => each.piece)]))
      .catch(() => {});
  }
  return element("div", { class: "controls" }, heads, element("div", { class: "field" }, element("span", {}, "Position"), place));
}

function step(title, symbols, about, ...children) {
  return element("li", { class: "step" }, element("h2", {}, title, symbols ? element("code", {}, ...formula(symbols)) : null), about ? note(about) : null, ...children);
}

function named(name, vector, readout, options) {
  const length = Math.hypot(...vector);
  return element("div", { class: "vector" }, element("span", { class: "name" }, name, element("span", { class: "p" }, `|\u00b7| ${length.toFixed(2)}`)),
    strip(name, vector, readout, options));
}

function project({ found, kind, readout, size }) {
  const whose = kind === "cross" ? "Keys and values are made of the output of the encoder." : "Keys and values are made of the same sequence.";
  return step("Query", "q = x W^Q", `What position ${found.position}, ${shown(found.piece)}, asks for: ${size} channels of ${headTitle(found.head)}. ${whose}`,
    found.query_before_rotation ? named("q before rotation", found.query_before_rotation, readout) : null,
    named("q", found.query, readout));
}

/** One row for each position that may be attended to: key, scores, weight, value. */
function score(seen) {
  const { found, size, attended } = seen;
  const wide = Math.max(2, Math.min(8, Math.floor(192 / size)));
  const matrix = (name, values, rows) => heatMap({
    label: `${name}: positions by channels`, rows, columns: channels(size), high: ROW, wide, readout: seen.readout,
    value: (k, c) => values[k][c], write: (k, c) => `${name} of ${attended.name(k)}, channel ${c}: ${signed(values[k][c], 4)}`,
  });
  const bare = { ...attended, label: null };
  const most = Math.max(...found.weights);
  const isMasked = !found.mask.every(Boolean);
  const column = (title, write) => element("div", { class: "column" }, element("span", { class: "head" }, title),
    ...found.attended.map((_, k) => write(k)));
  const number = (values) => (k) => element("span", { class: found.mask[k] ? "number" : "number masked" }, signed(values[k]));
  return step("Scores and weights", "softmax(q K\u1d40 / \u221ad_k)",
    `Each key is multiplied with the query, divided by \u221a${size} = ${Math.sqrt(size).toFixed(3)}; ${isMasked ? "what may not be attended to is masked; " : ""}softmax makes weights that sum to 1.`,
    element("div", { class: "scroll aligned" },
      element("div", { class: "column wide" }, element("span", { class: "head" }, ...formula("k = x W^K")), matrix("Key", found.keys, attended)),
      column("q\u00b7k", number(found.scores)),
      column(`\u00f7 \u221a${size}`, number(found.scaled_scores)),
      isMasked ? column("masked", number(found.masked_scores)) : null,
      column("weight", (k) => bar(found.weights[k] / (most || 1), { class: "number" }, share(found.weights[k]))),
      element("div", { class: "column wide" }, element("span", { class: "head" }, ...formula("v = x W^V")), matrix("Value", found.values, bare)),
      element("div", { class: "column wide" }, element("span", { class: "head" }, "weight \u00d7 v"), matrix("Weighted value", found.weighted_values, bare))));
}

/** The look-ahead mask, if that is what masks this row. */
function mask({ found, kind, attended, readout }) {
  if (kind !== "decoder" || !found.mask.every((may, k) => may === k <= found.position)) return null;
  return step("The look-ahead mask", "k \u2264 q", "Each row is a position of the output so far, and may attend to itself and what is before it: the future, grey, would be \u2212\u221e before softmax. "
    + `Row ${found.position} is the one above.`,
  heatMap({
    label: "Look-ahead mask: positions by positions", rows: attended, columns: attended, largest: 3, readout, from: [found.position, 0],
    value: (q, k) => (k > q ? null : q === found.position ? 3 : 1),
    write: (q, k) => `${attended.name(q)} ${k > q ? "may not" : "may"} attend to ${attended.name(k)}`,
  }));
}

function sum({ found, readout }) {
  return step("Sum of the weighted values", "z = \u03a3 p v", "The output of this head at this position.", named("z", found.head_output, readout));
}

function join({ found, readout }) {
  const head = Number(found.head.split(".")[2]);
  const width = found.head_output.length;
  return step("Concatenation of all heads", "Concat(z\u2080, z\u2081, \u2026) W^O",
    `Channels ${head * width} to ${(head + 1) * width - 1} are this head\u2019s. Times the output matrix, it is what the attention adds below.`,
    named("concatenation", found.concatenation, readout));
}

function sublayer(each, readout) {
  const [, , kind] = each.sublayer.split(".");
  const isPre = each.input.some((value, i) => value !== each.x[i]);
  const into = isPre ? "LayerNorm(x)" : "x";
  const title = each.sublayer.replaceAll("_", " ");
  const steps = [];
  if (kind === "feed_forward") {
    steps.push(step("Feed-forward", "W\u2082 activation(W\u2081 x + b\u2081) + b\u2082", title,
      isPre ? named(into, each.input, readout) : null,
      each.hidden ? named("W\u2081 x + b\u2081", each.hidden, readout) : null,
      each.activated ? named("activated", each.activated, readout) : null));
  }
  steps.push(step("Add & Norm", isPre ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))", title,
    named("x", each.x, readout), named("sublayer", each.output, readout), named("sum", each.sum, readout),
    isPre ? null : named("result", each.result, readout)));
  return steps;
}

function tables({ found, attended, size }) {
  const own = [["query", found.query], ...found.keys.map((each, k) => [`key of ${attended.name(k)}`, each]),
    ...found.values.map((each, k) => [`value of ${attended.name(k)}`, each]),
    ...found.weighted_values.map((each, k) => [`weighted value of ${attended.name(k)}`, each]), ["sum", found.head_output]];
  const wide = [["concatenation", found.concatenation], ...found.sublayers.flatMap((each) =>
    ["x", "input", "output", "sum", "result"].map((name) => [`${each.sublayer} ${name}`, each[name]]))];
  const inner = found.sublayers.filter((each) => each.hidden).flatMap((each) =>
    [[`${each.sublayer} hidden`, each.hidden], [`${each.sublayer} activated`, each.activated]]);
  const vectors = (summary, rows) => (rows.length ? matrixNumbers(summary, "vector", nameAxis(rows.map(([name]) => name)),
    channels(rows[0][1].length), (row, channel) => signed(rows[row][1][channel], 4)) : null);
  return [
    numbers("Numbers: scores and weights", ["attends to", "q\u00b7k", `\u00f7 \u221a${size}`, "masked", "weight"], found.attended.length, (k) =>
      [attended.name(k), signed(found.scores[k], 4), signed(found.scaled_scores[k], 4), signed(found.masked_scores[k], 4), share(found.weights[k])]),
    vectors("Numbers: vectors of the head", own), vectors("Numbers: vectors of the layer", wide), vectors("Numbers: inside feed-forward", inner),
  ].filter(Boolean);
}

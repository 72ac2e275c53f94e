// One position through one head and the rest of its layer, with the model's own numbers.

import { h } from "../dom.js";
import { channels, heatMap, limited, nameAxis, strip, tokenAxis } from "../heat.js";
import { share, signed } from "../numbers.js";
import { bar, choice, formula, matrixNumbers, note, numbers, rove } from "../parts.js";
import { base } from "../state.js";
import { shown, token } from "../tokens.js";
import { KINDS } from "./attention_maps.js";

const ROW = 20;

export const word = {
  name: "word",
  title: "Word by word",
  about: "One word through one head and the rest of its layer, step by step, with the numbers that the model computes.",
  view: "word",
  request: (state, model) => ({ ...base(state), heads: [state.head || model.heads[0]], position: state.query ?? 0 }),
  render(place, found, context) {
    const readout = h("p.readout.card", { "aria-live": "polite" }, "Point at a cell, or move through it by arrow keys, to read its number.");
    const [kind, layer, head] = found.head.split(".");
    const seen = {
      found, kind, layer, head: Number(head), readout, size: found.query.length,
      attended: tokenAxis(kind === "decoder" ? "input" : "source", found.attended),
      vector: (name, numbers) => (numbers ? vector(name, numbers, readout) : null),
    };
    place.append(controls(seen, context),
      h("ol.steps", query(seen), scores(seen), mask(seen), ...output(seen), ...found.sublayers.flatMap((each) => sublayer(each, seen))),
      readout, ...tables(seen));
  },
};

function controls({ found, kind }, { state, set, model, ask, base: body }) {
  const side = (name) => (name.startsWith("encoder") ? "source" : "input");
  const titleOf = (name) => `${KINDS[name.split(".")[0]]}, layer ${name.split(".")[1]}`;
  const heads = choice("Head", model.heads.map((each) => [each, each]), found.head,
    (head) => set({ head, query: side(head) === side(found.head) ? found.position : 0, key: null }), { group: titleOf, id: "word-head" });
  const place = h("div.tools.scroll", { role: "group", "aria-label": "Position" });
  const fill = (pieces) => place.replaceChildren(...rove(pieces.map((each, index) => token(side(found.head), index, each, {
    id: `word-position-${index}`, pressed: String(index === found.position), title: `position ${index}: ${shown(each)}`,
    onpress: () => set({ head: found.head, query: index, key: null }),
  })), pieces.length, found.position));
  if (kind !== "cross") fill(found.attended);
  else {
    place.append(token("input", found.position, found.piece));
    ask("output", { ...body(state), count: 6 }).then(({ positions }) => fill(["<s>", ...positions.slice(0, -1).map((each) => each.piece)])).catch(() => {});
  }
  return h("div.controls", heads, h("div.field", h("span", "Position"), place));
}

function step(title, symbols, about, ...children) {
  return h("li.step", h("h3", title, h("code", ...formula(symbols))), note(about), ...children);
}

function vector(name, numbers, readout) {
  return h("div.vector", h("span.name", name, h("span.p", `|·| ${Math.hypot(...numbers).toFixed(2)}`)), strip(name, numbers, readout));
}

function query({ found, kind, layer, head, size, vector }) {
  return step("Query", "q = x W^Q", `What position ${found.position}, ${shown(found.piece)}, asks for: ${size} channels of ${KINDS[kind].toLowerCase()}, layer ${layer}, head ${head}. `
    + `Keys and values are made of ${kind === "cross" ? "the output of the encoder" : "the same sequence"}.`,
  vector("q before rotation", found.query_before_rotation), vector("q", found.query));
}

/** One row for each position that may be attended to: key, scores, weight, value. */
function scores({ found, size, attended, readout }) {
  const isMasked = !found.mask.every(Boolean);
  const most = Math.max(...found.weights) || 1;
  const column = (title, write) => h("div.column", h("span.head", ...formula(title)), ...found.attended.map((_, k) => write(k)));
  const number = (values) => (k) => h("span.number", { class: found.mask[k] ? "" : "masked" }, signed(values[k]));
  const matrix = (title, name, values, rows) => h("div.column.wide", h("span.head", ...formula(title)), heatMap({
    label: `${name}: positions by channels`, rows, columns: channels(size), high: ROW, wide: limited(Math.floor(192 / size), 2, 8), readout,
    value: (k, c) => values[k][c], write: (k, c) => `${name} of ${attended.name(k)}, channel ${c}: ${signed(values[k][c], 4)}`,
  }));
  const bare = { ...attended, label: null };
  return step("Scores and weights", "softmax(q Kᵀ / √d_k)",
    `Each key is multiplied with the query, divided by √${size} = ${Math.sqrt(size).toFixed(3)}; ${isMasked ? "what may not be attended to is masked; " : ""}softmax makes weights that sum to 1.`,
    h("div.scroll.aligned",
      matrix("k = x W^K", "Key", found.keys, attended),
      column("q·k", number(found.scores)), column(`÷ √${size}`, number(found.scaled_scores)),
      isMasked ? column("masked", number(found.masked_scores)) : null,
      column("weight", (k) => bar(found.weights[k] / most, { class: "number" }, share(found.weights[k]))),
      matrix("v = x W^V", "Value", found.values, bare),
      matrix("weight × v", "Weighted value", found.weighted_values, bare)));
}

/** The look-ahead mask, if that is what masks this row. */
function mask({ found, kind, attended, readout }) {
  if (kind !== "decoder" || !found.mask.every((may, k) => may === k <= found.position)) return null;
  return step("The look-ahead mask", "k ≤ q", "Each row is a position of the output so far, and may attend to itself and what is before it: the future, grey, is −∞ before softmax. "
    + `Row ${found.position} is the one above.`,
  heatMap({
    label: "Look-ahead mask: positions by positions", rows: attended, columns: attended, largest: 3, readout,
    value: (q, k) => (k > q ? null : q === found.position ? 3 : 1),
    write: (q, k) => `${attended.name(q)} ${k > q ? "may not" : "may"} attend to ${attended.name(k)}`,
  }));
}

function output({ found, head, vector }) {
  const width = found.head_output.length;
  return [
    step("Sum of the weighted values", "z = Σ p v", "The output of this head at this position.", vector("z", found.head_output)),
    step("Concatenation of all heads", "Concat(z₀, z₁, …) W^O",
      `Channels ${head * width} to ${(head + 1) * width - 1} are this head’s. Times the output matrix, it is what the attention adds below.`,
      vector("concatenation", found.concatenation)),
  ];
}

function sublayer(each, { vector }) {
  const isPre = each.input.some((value, i) => value !== each.x[i]);
  const title = each.sublayer.replaceAll("_", " ");
  const inner = each.hidden ? [step("Feed-forward", "W₂ activation(W₁ x + b₁) + b₂", title,
    isPre ? vector("LayerNorm(x)", each.input) : null, vector("W₁ x + b₁", each.hidden), vector("activated", each.activated))] : [];
  return [...inner, step("Add & Norm", isPre ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))", title,
    vector("x", each.x), vector("sublayer", each.output), vector("sum", each.sum), isPre ? null : vector("result", each.result))];
}

function tables({ found, attended, size }) {
  const each = (name, rows) => rows.map((row, k) => [`${name} of ${attended.name(k)}`, row]);
  const named = (...names) => found.sublayers.flatMap((of) => names.filter((name) => of[name]).map((name) => [`${of.sublayer} ${name}`, of[name]]));
  const vectors = (summary, rows) => (rows.length ? [matrixNumbers(summary, "vector", nameAxis(rows.map(([name]) => name)),
    channels(rows[0][1].length), (row, channel) => signed(rows[row][1][channel], 4))] : []);
  return [
    numbers("Numbers: scores and weights", ["attends to", "q·k", `÷ √${size}`, "masked", "weight"], found.attended.length, (k) =>
      [attended.name(k), ...[found.scores, found.scaled_scores, found.masked_scores].map((values) => signed(values[k], 4)), share(found.weights[k])]),
    ...vectors("Numbers: vectors of the head", [["query", found.query], ...each("key", found.keys), ...each("value", found.values), ...each("weighted value", found.weighted_values), ["sum", found.head_output]]),
    ...vectors("Numbers: vectors of the layer", [["concatenation", found.concatenation], ...named("x", "input", "output", "sum", "result")]),
    ...vectors("Numbers: inside feed-forward", named("hidden", "activated")),
  ];
}

// One head as lines between tokens: the darker a line, the greater the weight.

import { h, svg } from "../dom.js";
import { note } from "../parts.js";
import { share } from "../numbers.js";
import { onHover, shown, token, tokenId } from "../tokens.js";
import { strongest } from "./attention_maps.js";

const HEIGHT = 26; // of a token, in CSS pixels
const WIDTH = 150; // between the tokens
const MOST_TOKENS = 60; // beyond these, the lines of one query are shown
const MOST_LINES = 500;
const KEYS_OF_ONE = 24;

/** Fill `place` with the lines of a head; `pick(query)` is called when a query is pressed.
 *  Returns {update(state), clean()}. */
export function makeLines(place, map, sides, { pick }) {
  const large = Math.max(map.rows, map.columns) > MOST_TOKENS;
  let drawn = null;
  const end = onHover((lit) => drawn?.light(lit));
  const draw = (query) => {
    const queries = large ? [query ?? 0] : [...sides.rows.pieces.keys()];
    const keys = large
      ? strongest(map, queries[0], KEYS_OF_ONE).map((each) => each.index).sort((a, b) => a - b)
      : [...sides.columns.pieces.keys()];
    drawn = picture(map, sides, queries, keys, query, pick);
    place.replaceChildren(note(large
      ? `The ${keys.length} positions that query ${queries[0]} attends to most, of ${map.columns.toLocaleString("en")}.`
      : "Queries on the left attend to keys on the right."), drawn.node);
  };
  return {
    update({ query }) {
      if (large || !drawn) draw(query);
      else drawn.press(query);
    },
    clean: end,
  };
}

function picture(map, sides, queries, keys, query, pick) {
  const height = HEIGHT * Math.max(queries.length, keys.length);
  // A query that is alone stands in the middle.
  const middle = (list, at) => (list.length === 1 ? height / 2 : HEIGHT * (at + 0.5));
  const one = queries.length === 1;
  const strong = linesOf(map, queries, keys);
  const most = one ? Math.max(...strong.map((each) => each.weight)) : 1;
  const lines = strong.map(({ query: from, key, weight }) => ({
    from: tokenId(sides.rows.side, queries[from]), to: tokenId(sides.columns.side, keys[key]),
    node: svg("line", {
      x1: 0, x2: WIDTH, y1: middle(queries, from), y2: middle(keys, key),
      "stroke-opacity": Math.max(0.05, weight / most).toFixed(2), "stroke-width": (0.8 + 2.2 * weight / most).toFixed(2),
    }),
  }));
  const drawing = svg("svg", { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines.map((each) => each.node));
  const name = ({ side, pieces }, index, more) => token(side, index, pieces[index], { title: shown(pieces[index]), ...more });
  const left = queries.map((index) => name(sides.rows, index, { onpress: () => pick(index), pressed: String(index === query) }));
  const weight = (key) => (one ? h("span.name", share(map.weights[queries[0] * map.columns + key])) : null);
  const node = h("div.token-lines",
    h("ul.token-list.queries", { "aria-label": "queries" }, ...left.map((each) => h("li", each))), drawing,
    h("ul.token-list.keys", { "aria-label": "keys" }, ...keys.map((key) => h("li", name(sides.columns, key), weight(key)))));
  return {
    node,
    light(lit) {
      // A query's own lines; only if no query is lit, the lines into a key.
      const asked = lines.some((each) => lit.has(each.from));
      for (const each of lines) each.node.classList.toggle("on", lit.has(asked ? each.from : each.to));
      drawing.classList.toggle("pointing", lines.some((each) => each.node.classList.contains("on")));
    },
    press(chosen) {
      left.forEach((each, index) => each.setAttribute("aria-pressed", String(queries[index] === chosen)));
    },
  };
}

/** Return the strongest weights between some queries and keys, weakest first, so that
 *  strong lines lie on top. */
function linesOf(map, queries, keys) {
  const found = [];
  queries.forEach((row, query) => {
    keys.forEach((column, key) => {
      const weight = map.weights[row * map.columns + column];
      if (weight >= 0.02 || queries.length === 1) found.push({ query, key, weight });
    });
  });
  return found.sort((a, b) => a.weight - b.weight).slice(-MOST_LINES);
}

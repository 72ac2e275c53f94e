// One cell: the product of a query and a key, channel by channel, and what softmax makes
// of it. Equation 1 of the paper with the numbers of the model.

import { behindPicture, element, svg, table } from "../dom.js";
import { share, signed } from "../numbers.js";
import { shown } from "../tokens.js";

const BAR = { width: 14, height: 110 }; // of a channel, in CSS pixels

/** Return the numbers of the cell at `key` of what the view `word` found. `predicted` is
 *  the piece that is predicted at the query's position, or null of an encoder. */
export function cellOf(found, key, predicted) {
  const channels = found.query.map((query, channel) => ({ query, key: found.keys[key][channel], product: query * found.keys[key][channel] }));
  const allowed = found.mask[key];
  const [asking, asked] = [piece(found.piece), piece(found.attended[key])];
  const count = found.mask.filter(Boolean).length;
  return element("div", { class: "cell-numbers" },
    element("h3", {}, "q·k of ", asking, " and ", asked, ` in ${found.head}`),
    predicted === null ? null : element("p", { class: "about" }, "The query is that of the last piece before: ", piece(predicted), " is what this position predicts."),
    element("div", { class: "score-steps" },
      sign(`${channels.length} products add up to`),
      number("q·k", signed(found.scores[key])),
      sign(`÷ √${channels.length} →`),
      number("score", signed(found.scaled_scores[key])),
      sign(allowed ? `softmax over ${count} →` : "masked: no position of the future →"),
      number("weight", share(found.weights[key]))),
    bars(channels),
    behindPicture("The product of each channel as a table", table(`${shown(found.piece)} · ${shown(found.attended[key])}`,
      ["Channel", "Query", "Key", "Product"],
      [
        ...channels.map((each, index) => [index, signed(each.query), signed(each.key), signed(each.product)]),
        ["Sum", "", "", signed(channels.reduce((sum, each) => sum + each.product, 0))],
      ])),
    whenOpened("All scores and weights of this query", () => table(`${shown(found.piece)} attends to`,
      ["Key", "q·k", "÷ √d_k", "Weight"],
      found.attended.map((each, index) => [piece(each), ...(found.mask[index]
        ? [signed(found.scores[index]), signed(found.scaled_scores[index]), share(found.weights[index])]
        : ["masked", "masked", "0"])]))));
}

/** A folded table that is made when it is opened first: of a long text it is large. */
export function whenOpened(summary, make) {
  const place = element("div");
  const behind = behindPicture(summary, place);
  behind.addEventListener("toggle", () => {
    if (behind.open && !place.firstChild) place.append(make());
  });
  return behind;
}

function piece(text) {
  return element("bdi", { class: "token", dir: "auto", title: shown(text) }, shown(text));
}

function number(name, value) {
  return element("div", { class: "named-number" }, element("span", { class: "name" }, name), element("strong", {}, value));
}

function sign(text) {
  return element("span", { class: "score-sign" }, text);
}

/** Draw the product of each channel as a bar, up where it adds to the score. */
function bars(channels) {
  const most = Math.max(...channels.map((each) => Math.abs(each.product)), 1e-9);
  const width = BAR.width * channels.length;
  const middle = BAR.height / 2;
  const drawn = channels.map(({ query, key, product }, index) => {
    const height = Math.abs(product) / most * (middle - 4);
    return svg("rect", {
      x: index * BAR.width + 2, y: product < 0 ? middle : middle - height, width: BAR.width - 4, height: Math.max(height, 0.5),
      class: product < 0 ? "less" : "more",
    }, svg("title", {}, `channel ${index}: ${signed(query)} × ${signed(key)} = ${signed(product)}`));
  });
  return element("div", { class: "scroll channel-bars", tabindex: "0", role: "region", "aria-label": "Products of the channels" },
    svg("svg", { width, height: BAR.height, viewBox: `0 0 ${width} ${BAR.height}`, role: "img", "aria-label": "Query times key of each channel: bars up add to the score, bars down take from it. The numbers are in the table below." },
      svg("line", { x1: 0, x2: width, y1: middle, y2: middle }), ...drawn));
}

// One cell: the product of a query and a key, channel by channel, and what softmax makes
// of it. Equation 1 of the paper with the numbers of the model.

import { h, svg } from "../dom.js";
import { share, signed } from "../numbers.js";
import { note, numbers, piece } from "../parts.js";

const [WIDTH, HEIGHT] = [14, 110]; // of a channel's bar, in CSS pixels

/** Return the numbers of the cell at `key` of what the view `word` found. `predicted` is
 *  the piece that is predicted at the query's position, or null of an encoder. */
export function cellOf(found, key, predicted) {
  const { attended, mask, weights } = found;
  const [scores, scaled] = [found.scores, found.scaled_scores];
  const products = found.query.map((each, channel) => each * found.keys[key][channel]);
  const number = (name, value) => h("div.named-number", h("span.name", name), h("strong", value));
  const sign = (text) => h("span.score-sign", text);
  return h("div.cell-numbers",
    h("h3", "q·k of ", piece(found.piece), " and ", piece(attended[key]), ` in ${found.head}`),
    predicted === null ? null : note("The query is that of the last piece before: ", piece(predicted), " is what this position predicts."),
    h("div.score-steps",
      sign(`${products.length} products add up to`), number("q·k", signed(scores[key])),
      sign(`÷ √${products.length} →`), number("score", signed(scaled[key])),
      sign(mask[key] ? `softmax over ${mask.filter(Boolean).length} →` : "masked: no position of the future →"), number("weight", share(weights[key]))),
    bars(products),
    numbers("The product of each channel", ["Channel", "Query", "Key", "Product"], products.length + 1, (row) => (row < products.length
      ? [row, signed(found.query[row]), signed(found.keys[key][row]), signed(products[row])]
      : ["Sum", "", "", signed(products.reduce((sum, each) => sum + each, 0))])),
    numbers("All scores and weights of this query", ["Key", "q·k", "÷ √d_k", "Weight"], attended.length, (row) => [piece(attended[row]),
      ...(mask[row] ? [signed(scores[row]), signed(scaled[row]), share(weights[row])] : ["masked", "masked", "0"])]));
}

/** Draw the product of each channel as a bar, up where it adds to the score. */
function bars(products) {
  const most = Math.max(...products.map(Math.abs), 1e-9);
  const [width, middle] = [WIDTH * products.length, HEIGHT / 2];
  const drawn = products.map((product, index) => {
    const height = Math.max(0.5, Math.abs(product) / most * (middle - 4));
    return svg("rect", { x: index * WIDTH + 2, y: product < 0 ? middle : middle - height, width: WIDTH - 4, height, class: product < 0 ? "less" : "more" },
      svg("title", {}, `channel ${index}: ${signed(product)}`));
  });
  return h("div.scroll.channel-bars", { tabindex: "0", role: "region", "aria-label": "Products of the channels" },
    svg("svg", { width, height: HEIGHT, role: "img", "aria-label": "A bar for each channel: up where query times key adds to the score. Its numbers are in the table below." },
      svg("line", { x1: 0, x2: width, y1: middle, y2: middle }), ...drawn));
}

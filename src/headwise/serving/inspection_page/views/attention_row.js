// Replacing one row of the weights of a head: where one query attends to.

import { h } from "../dom.js";
import { share } from "../numbers.js";
import { note, piece } from "../parts.js";
import { shown } from "../tokens.js";
import { parsed, strongest } from "./attention_maps.js";

const MOST = 30; // weights that can be typed at a time

/** Return the controls that replace the row of a query. `replace(weights)` is called with
 *  a list that sums to 1, or null to take the replacement back. */
export function rowEditor(map, sides, { query, key, replaced, replace }) {
  const last = parsed(map.head).kind === "decoder" ? query : map.columns - 1;
  const name = (index) => piece(sides.columns.pieces[index]);
  const alone = () => replace([...new Array(key).fill(0), 1]);
  return h("div.row-editor",
    h("h3", "Replace the row of ", piece(sides.rows.pieces[query]), ` (query ${query})`),
    replaced ? note("This row is replaced. The scores above are what the model would have made of it.") : null,
    h("div.tools",
      key <= last ? h("button", { id: "row-only", onclick: alone }, "Attend to ", name(key), " alone") : null,
      replaced ? h("button", { id: "row-back", onclick: () => replace(null) }, "Take the replaced row back") : null),
    typed(map, sides, { query, key, last, replace, name }));
}

/** A form with a weight for each key, or for the strongest ones of many. */
function typed(map, sides, { query, key, last, replace, name }) {
  const few = new Set([...strongest(map, query, MOST).map((each) => each.index), key]);
  for (let index = 0; index <= last && few.size < MOST; index++) few.add(index);
  const indices = [...few].filter((index) => index <= last).sort((a, b) => a - b);
  const inputs = indices.map((index) => h("input", {
    type: "number", min: "0", step: "any", id: `weight-${index}`, "aria-label": `Weight of key ${index}, ${shown(sides.columns.pieces[index])}`,
    value: share(map.weights[query * map.columns + index]),
  }));
  const problem = h("p.problem", { role: "alert" });
  const onsubmit = (event) => {
    event.preventDefault();
    const values = inputs.map((each) => Number(each.value));
    const sum = values.reduce((total, each) => total + each, 0);
    if (sum > 0) replace(normalised(indices, values.map((each) => each / sum)));
    else problem.textContent = "All weights are 0; one must be more.";
  };
  return h("details",
    h("summary", "Type the weights"),
    h("form", { onsubmit },
      note(indices.length > last ? "They are divided by their sum." : "They are divided by their sum; keys that are not listed get 0."),
      h("ul.typed-weights", ...indices.map((index, at) => h("li", name(index), inputs[at]))),
      problem,
      h("button.main", { type: "submit" }, "Replace the row")));
}

/** Return weights of all positions up to the last of `indices`, in four digits, which sum
 *  to 1: what rounding left over goes to the greatest. */
function normalised(indices, values) {
  const rounded = (value) => Math.round(value * 1e4) / 1e4;
  const weights = new Array(indices.at(-1) + 1).fill(0);
  indices.forEach((index, at) => { weights[index] = rounded(values[at]); });
  const greatest = weights.indexOf(Math.max(...weights));
  weights[greatest] = rounded(weights[greatest] + 1 - weights.reduce((sum, each) => sum + each, 0));
  return weights;
}

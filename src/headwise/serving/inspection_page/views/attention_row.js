// Replacing one row of the weights of a head: where one query attends to.

import { element } from "../dom.js";
import { share } from "../numbers.js";
import { shown } from "../tokens.js";
import { parsed, strongest } from "./attention_maps.js";

const MOST = 30; // weights that can be typed at a time

/** Return the controls that replace the row of a query. `replace(weights)` is called with
 *  a list that sums to 1, or null to take the replacement back. */
export function rowEditor(map, sides, { query, key, replaced, replace }) {
  const last = parsed(map.head).kind === "decoder" ? query : map.columns - 1;
  const alone = (index) => Array.from({ length: index + 1 }, (_, each) => (each === index ? 1 : 0));
  const bdi = (index) => element("bdi", { class: "token", dir: "auto" }, shown(sides.columns.pieces[index]));
  const only = key !== null && key <= last
    ? element("button", { type: "button", id: "row-only", onclick: () => replace(alone(key)) }, "Attend to ", bdi(key), " alone")
    : null;
  const back = replaced ? element("button", { type: "button", id: "row-back", onclick: () => replace(null) }, "Take the replaced row back") : null;
  return element("div", { class: "row-editor" },
    element("h3", {}, "Replace the row of ", element("bdi", { class: "token", dir: "auto" }, shown(sides.rows.pieces[query])), ` (query ${query})`),
    replaced ? element("p", { class: "about" }, "This row is replaced. The scores above are what the model would have made of it.") : null,
    element("div", { class: "tools" }, only, back),
    typed(map, sides, { query, key, last, replace }));
}

/** A form with a weight for each key, or for the strongest ones of many. */
function typed(map, sides, { query, key, last, replace }) {
  const few = new Set(strongest(map, query, MOST).map((each) => each.index));
  if (key !== null && key <= last) few.add(key);
  for (let index = 0; index <= last && few.size < MOST; index++) few.add(index);
  const indices = [...few].filter((index) => index <= last).sort((a, b) => a - b);
  const inputs = indices.map((index) => element("input", {
    type: "number", min: "0", step: "any", id: `weight-${index}`,
    value: share(map.weights[query * map.columns + index]), "aria-label": `Weight of key ${index}, ${shown(sides.columns.pieces[index])}`,
  }));
  const problem = element("p", { class: "problem", role: "alert" });
  const apply = (event) => {
    event.preventDefault();
    const values = inputs.map((each) => Number(each.value));
    const sum = values.reduce((total, each) => total + each, 0);
    problem.textContent = "";
    if (values.some((each) => !(each >= 0)) || sum <= 0) {
      problem.textContent = "Weights are numbers from 0 on, and not all of them 0.";
      return;
    }
    replace(normalised(indices, values.map((each) => each / sum)));
  };
  return element("details", {},
    element("summary", {}, "Type the weights"),
    element("form", { onsubmit: apply },
      element("p", { class: "about" }, indices.length > last ? "They are divided by their sum." : "They are divided by their sum; keys that are not listed get 0."),
      element("ul", { class: "typed-weights" }, ...indices.map((index, at) => element("li", {},
        element("bdi", { class: "token", dir: "auto" }, shown(sides.columns.pieces[index])), inputs[at]))),
      problem,
      element("button", { type: "submit", class: "main" }, "Replace the row")));
}

/** Return weights of all positions up to the last of `indices`, in four digits, which sum
 *  to 1: what rounding left over goes to the greatest. */
export function normalised(indices, values) {
  const weights = new Array(Math.max(...indices) + 1).fill(0);
  indices.forEach((index, at) => { weights[index] = Math.round(values[at] * 1e4) / 1e4; });
  const greatest = weights.indexOf(Math.max(...weights));
  const rest = 1 - weights.reduce((sum, each) => sum + each, 0);
  weights[greatest] = Math.round((weights[greatest] + rest) * 1e4) / 1e4;
  return weights;
}

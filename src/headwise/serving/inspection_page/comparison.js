// The output of the model, and if it is changed, the outputs before and after.

import { h } from "./dom.js";
import { signed } from "./numbers.js";
import { base, changes } from "./state.js";
import { wordDifference } from "./word_difference.js";

/** Return the view and the request of what is shown above the tabs, or null if this model
 *  writes no text. */
export function comparisonRequest(state, model) {
  const { target, ...body } = base(state);
  if (model.views.includes("compare") && (changes(state).length || state.prefix)) {
    return { view: "compare", request: body };
  }
  return model.views.includes("output") ? { view: "output", request: { ...base(state), count: 5 } } : null;
}

/** Return the output, or both outputs with their differences marked, as elements. */
export function comparisonOf(view, found, state) {
  if (view === "output") {
    const name = state.target ? "Given output" : "Output";
    return [line(name, [{ text: found.text, same: true }], found.log_probability)];
  }
  const [before, after] = [found.before[0], found.after[0]];
  const [left, right] = wordDifference(before.text, after.text);
  const same = before.text === after.text;
  return [
    line("Before", left, before.log_probability, "del"),
    line("After", right, after.log_probability, "ins"),
    h("p.about",
      same ? "The same words. " : "",
      `ln p of the output before: ${signed(before.log_probability)}, and ${signed(found.before_changed)} as the changed model sees it.`,
      state.target ? " Below, the given output is looked at, not this one." : ""),
  ];
}

function line(name, parts, logProbability, mark = "del") {
  const texts = parts.flatMap(({ text, same }) => {
    if (same) return [text];
    const word = text.trimEnd();
    return [h(mark, word), text.slice(word.length)];
  });
  return h("div.written",
    h("span.name", name),
    h("bdi.text", { dir: "auto", tabindex: "0", role: "group", "aria-label": name }, ...texts),
    h("span.score", `ln p ${signed(logProbability)}`));
}

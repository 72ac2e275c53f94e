// What is changed in the model at present, and how each change is taken back.

import { h } from "./dom.js";
import { shown } from "./tokens.js";

/** Fill `place` with a chip for each change, with a button that takes it back. */
export function showChanges(place, { state, set }) {
  const button = (id, text, onclick, more) => h("button", { id, onclick, ...more }, text);
  const chips = chipsOf(state);
  place.replaceChildren(
    ...(chips.length ? [h("ul.chips", { "aria-label": "Changes" }, ...chips.map(([name, back], index) =>
      h("li.chip", h("bdi", { dir: "auto" }, name),
        button(`chip-${index}`, "×", () => set(back), { class: "plain", "aria-label": `Take back: ${name}` }))))] : []),
    ...(chips.length > 1 ? [button("all-back", "Take all back", () => set({ off: [], noResidual: [], rows: [], prefix: "" }))] : []),
    button("to-model", "Switch parts of the model off …", () => set({ view: "model", level: "stacks" }), { class: "link" }));
}

/** Return [text, what takes it back] of each change. */
function chipsOf(state) {
  const without = (key, name) => ({ [key]: state[key].filter((each) => each !== name) });
  return [
    ...state.off.map((name) => [`${name} off`, without("off", name)]),
    ...state.noResidual.map((name) => [`${name} without residual connection`, without("noResidual", name)]),
    ...state.rows.map((row) => [`${row.head}, row ${row.position} replaced`, without("rows", row)]),
    ...(state.prefix ? [[`output starts with “${shown(state.prefix)}”`, { prefix: "" }]] : []),
  ];
}

// What is changed in the model at present, and the switches of sublayers.

import { element } from "./dom.js";
import { shown } from "./tokens.js";
import { switched } from "./state.js";

/** Fill `place` with a chip for each change, each with a button that takes it back, and
 *  with the switches of sublayers and residual connections. */
export function showChanges(place, { state, set, model }) {
  const open = place.querySelector("details.switches")?.open ?? false;
  const chips = chipsOf(state);
  place.replaceChildren(
    element("ul", { class: "chips", "aria-label": "Changes" },
      ...chips.map(([name, back], index) => element("li", { class: "chip" }, element("bdi", { dir: "auto" }, name),
        element("button", { type: "button", class: "plain", id: `chip-${index}`, "aria-label": `Take back: ${name}`, onclick: () => set(back) }, "×")))),
    chips.length > 1
      ? element("button", { type: "button", id: "all-back", onclick: () => set({ off: [], noResidual: [], rows: [], prefix: "" }) }, "Take all back")
      : null ?? "",
    switches(open, { state, set, model }),
  );
}

/** Return [text, what undoes it] of each change. */
export function chipsOf(state) {
  const without = (list, name) => list.filter((each) => each !== name);
  return [
    ...state.off.map((name) => [`${name} off`, { off: without(state.off, name) }]),
    ...state.noResidual.map((name) => [
      `${name} without residual connection`, { noResidual: without(state.noResidual, name) }]),
    ...state.rows.map((row) => [
      `${row.head}, row ${row.position} replaced`, { rows: without(state.rows, row) }]),
    ...(state.prefix ? [[`output starts with “${shown(state.prefix)}”`, { prefix: "" }]] : []),
  ];
}

function switches(open, { state, set, model }) {
  const row = (name) => {
    const on = !state.off.includes(name);
    const residual = !state.noResidual.includes(name);
    const others = state.noResidual.filter((each) => each !== name);
    return element("tr", {},
      element("th", { scope: "row" }, name),
      element("td", {}, toggle(`off-${name}`, on, `${name} on`, () => set(switched(state, name)))),
      element("td", {}, toggle(`residual-${name}`, residual, `residual connection around ${name} on`,
        () => set({ noResidual: residual ? [...others, name] : others }))));
  };
  return element("details", { class: "switches", open },
    element("summary", {}, "Change the model"),
    element("p", { class: "about" },
      "A sublayer that is off adds nothing to what goes around it; without its residual connection, nothing goes around it. " +
      "Heads are switched off, and rows of weights replaced, under Attention; the field above forces how the output starts."),
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sublayers" },
      element("table", {},
        element("caption", { class: "hidden" }, "Sublayers of the model"),
        element("thead", {}, element("tr", {}, ...["Sublayer", "On", "Residual connection"].map((each) => element("th", { scope: "col" }, each)))),
        element("tbody", {}, ...model.sublayers.map(row)))));
}

function toggle(id, checked, label, onchange) {
  return element("input", { type: "checkbox", class: "switch", role: "switch", id, checked, "aria-label": label, onchange });
}

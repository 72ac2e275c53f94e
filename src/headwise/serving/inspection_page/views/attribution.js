// What each output token owes to each source token: two answers, side by side.

import { element } from "../dom.js";
import { heatMap, tokenAxis } from "../heat.js";
import { share, signed } from "../numbers.js";
import { matrixNumbers, note, panel } from "../parts.js";
import { base } from "../state.js";

export const attribution = {
  name: "attribution",
  title: "Attribution",
  about: "How much the probability of each output token owes to each source token: rows are the output, columns the source.",
  view: "attribution",
  needs: "Write a text above.",
  request: base,
  render(place, found, context) {
    const axes = {
      rows: tokenAxis("target", found.positions.map((t) => found.target[t]), found.positions),
      columns: tokenAxis(context.model.heads.every((each) => each.startsWith("decoder")) ? "input" : "source", found.source),
    };
    const unit = found.unit ?? "nats";
    const beside = element("div", { class: "beside" });
    place.append(
      element("div", { class: "panels" },
        matrix("Leave one out", `By how much ln p falls if nothing attends to the source token${unit ? `, in ${unit}` : ""}. Orange: it rises.`, found.leave_one_out, unit, axes),
        matrix("Gradient \u00d7 input", "The slope of ln p along the embedding of the source token: a first-order estimate of the same.", found.gradient_input, unit, axes),
        beside),
      ...attentionBeside(context, found, axes, beside));
  },
};

function matrix(title, about, values, unit, axes) {
  const cell = (t, s) => `${axes.rows.name(t)} \u2190 ${axes.columns.name(s)}: ${signed(values[t][s])} ${unit}`;
  return panel(title, about,
    heatMap({ label: `${title}: output by source tokens`, ...axes, value: (t, s) => values[t][s], write: cell }),
    matrixNumbers(`Numbers: ${title.toLowerCase()}`, "output", axes.rows, axes.columns, (t, s) => signed(values[t][s], 4)));
}

function attentionBeside({ state, set, model, ask, base: body }, found, axes, place) {
  const cross = model.heads.filter((name) => name.startsWith("cross."));
  if (!cross.length) return [];
  const last = Math.max(...cross.map((name) => Number(name.split(".")[1])));
  const heads = cross.filter((name) => name.startsWith(`cross.${last}.`));
  const asked = state.beside === "attention";
  if (asked) {
    place.append(note("Asking for the attention weights \u2026"));
    ask("attention", { ...body(state), heads, kinds: ["cross"] })
      .then((answer) => place.replaceChildren(meanAttention(answer, heads, last, found, axes)))
      .catch((error) => place.replaceChildren(note(error.message)));
  }
  return [element("p", {}, element("label", { class: "check" },
    element("input", { type: "checkbox", id: "beside-attention", checked: asked, onchange: (event) => set({ beside: event.target.checked ? "attention" : null }) }),
    ` Attention beside them: the mean of the ${heads.length} cross-attention heads of layer ${last}`)),
  note("Attention weights are not explanations: a head may look at a token that changes nothing, and a token can matter through other heads and layers.")];
}

function meanAttention(answer, heads, last, found, axes) {
  const maps = answer.maps.filter((each) => heads.includes(each.head));
  const mean = found.positions.map((t) => found.source.map((_, s) =>
    maps.reduce((sum, each) => sum + each.weights[t * each.columns + s], 0) / maps.length));
  return panel("Mean attention", `Of the cross-attention heads of layer ${last}: where they look while they write the token.`,
    heatMap({
      label: "Mean attention: output by source tokens", ...axes, value: (t, s) => mean[t][s],
      write: (t, s) => `${axes.rows.name(t)} \u2192 ${axes.columns.name(s)}: ${share(mean[t][s])}`, tone: "--c4",
    }),
    matrixNumbers("Numbers: mean attention", "output", axes.rows, axes.columns, (t, s) => share(mean[t][s])));
}

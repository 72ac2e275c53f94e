// What each output token owes to each source token: two answers, side by side.

import { h } from "../dom.js";
import { heatMap, tokenAxis } from "../heat.js";
import { share, signed } from "../numbers.js";
import { matrixNumbers, note, panel } from "../parts.js";
import { base } from "../state.js";

export const attribution = {
  name: "attribution",
  title: "Attribution",
  about: "How much the probability of each output token owes to each source token: rows are the output, columns the source.",
  view: "attribution",
  request: base,
  render(place, found, context) {
    const isDecoder = context.model.heads.every((each) => each.startsWith("decoder"));
    const axes = {
      rows: tokenAxis("target", found.positions.map((t) => found.target[t]), found.positions),
      columns: tokenAxis(isDecoder ? "input" : "source", found.source),
    };
    const unit = found.unit ?? "nats";
    const owed = (value, digits) => `${signed(value, digits)}${digits ? "" : ` ${unit}`}`;
    const beside = h("div.beside");
    place.append(
      h("div.panels",
        matrix("Leave one out", `By how much ${unit ? "ln p" : "the number"} falls if nothing attends to the source token${unit ? `, in ${unit}` : ""}. Orange: it rises.`, found.leave_one_out, owed, axes),
        matrix("Gradient × input", "The slope along the embedding of the source token: a first-order estimate of the same.", found.gradient_input, owed, axes),
        beside),
      ...attentionBeside(context, found, axes, beside));
  },
};

function matrix(title, about, values, write, axes, tone = undefined) {
  const { rows, columns } = axes;
  return panel(title, about,
    heatMap({
      label: `${title}: output by source tokens`, rows, columns, tone, value: (t, s) => values[t][s],
      write: (t, s) => `${rows.name(t)} ← ${columns.name(s)}: ${write(values[t][s])}`,
    }),
    matrixNumbers(`Numbers: ${title.toLowerCase()}`, "output", rows, columns, (t, s) => write(values[t][s], 4)));
}

function attentionBeside({ state, set, model, ask, base: body }, found, axes, place) {
  const cross = model.heads.filter((name) => name.startsWith("cross."));
  if (!cross.length) return [];
  const last = cross.at(-1).split(".")[1];
  const heads = cross.filter((name) => name.startsWith(`cross.${last}.`));
  const asked = state.beside === "attention";
  if (asked) {
    place.append(note("Asking for the attention weights …"));
    ask("attention", { ...body(state), heads, kinds: ["cross"] })
      .then(({ maps }) => place.replaceChildren(meanAttention(maps.filter((each) => heads.includes(each.head)), last, found, axes)))
      .catch((error) => place.replaceChildren(note(error.message)));
  }
  return [
    h("p", h("label.check",
      h("input", { type: "checkbox", id: "beside-attention", checked: asked, onchange: (event) => set({ beside: event.target.checked ? "attention" : null }) }),
      ` Attention beside them: the mean of the ${heads.length} cross-attention heads of layer ${last}`)),
    note("Attention weights are not explanations: a head may look at a token that changes nothing, and a token can matter through other heads and layers."),
  ];
}

function meanAttention(maps, last, found, axes) {
  const mean = found.positions.map((t) => found.source.map((_, s) =>
    maps.reduce((sum, each) => sum + each.weights[t * each.columns + s], 0) / maps.length));
  return matrix("Mean attention", `Of the cross-attention heads of layer ${last}: where they look while they write the token.`, mean, share, axes, "--c4");
}

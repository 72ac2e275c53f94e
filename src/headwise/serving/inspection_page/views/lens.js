// The logit lens: what each layer of the decoder would say if it were the last.

import { h } from "../dom.js";
import { setProperties } from "../heat.js";
import { share } from "../numbers.js";
import { bars, note, numbers, piece, rove } from "../parts.js";
import { base } from "../state.js";
import { light, shown, token, tokenId } from "../tokens.js";

export const lens = {
  name: "lens",
  title: "Logit lens",
  about: "The output matrix applied after each layer of the decoder, as if it were the last: when does the model know what to write?",
  view: "lens",
  request: (state) => ({ ...base(state), count: 5 }),
  render(place, found) {
    const chosen = h("div.card.chosen", { "aria-live": "polite" });
    const across = found.layers.length;
    const cells = rove(found.target.flatMap((written, t) => found.layers.map((layer) => cell(layer, t, written, chosen))), across, across - 1);
    const rows = found.target.map((written, t) => h("tr",
      h("th", { scope: "row" }, token("target", t, written, { title: shown(written) })),
      ...cells.slice(t * across, (t + 1) * across).map((each) => h("td", each))));
    const columns = ["written", ...found.layers.map(layerName)].map((name) => h("th", { scope: "col" }, name));
    describe(chosen, found.layers.at(-1), 0, found.target[0]);
    place.append(
      note("Each cell is the most probable token there; the stronger its colour, the more probable. A framed cell is the token that was written."),
      h("div.beside-list",
        h("div.scroll", h("table", h("caption", "Best token after each layer"), h("thead", h("tr", ...columns)), h("tbody", ...rows))),
        chosen),
      numbers("All numbers of the logit lens", ["position", "written", "layer", "best", "p of best", "p of written", "rank of written", "entropy, nats"],
        cells.length, (i) => row(found, Math.floor(i / across), i % across)));
  },
};

const layerName = ({ layer }) => (layer === null ? "input" : `layer ${layer}`);

function cell(layer, t, written, chosen) {
  const { rank, alternatives: [best] } = layer.positions[t];
  const tell = () => {
    describe(chosen, layer, t, written);
    light(tokenId("target", t));
  };
  return setProperties(h("button.cell", {
    class: rank === 1 ? "right" : "", onpointerenter: tell, onfocus: tell,
    "aria-label": `${layerName(layer)}, position ${t}: ${shown(best.piece)}, ${share(best.probability)}`,
  }, piece(best.piece), h("span.p", best.probability.toFixed(2))), { share: best.probability });
}

function describe(chosen, layer, t, written) {
  const { token: own, alternatives, log_probability: p, rank, entropy } = layer.positions[t];
  chosen.replaceChildren(
    h("h3", `${layer.layer === null ? "Before the first layer" : `After ${layerName(layer)}`}, position ${t}`),
    bars(alternatives.map((each) => [each.probability, { class: each.token === own ? "own" : "" }, piece(each.piece), share(each.probability)])),
    note("Written: ", piece(written), `, p = ${share(Math.exp(p))}, rank ${rank}. Entropy ${entropy.toFixed(2)} nats.`));
}

function row(found, t, at) {
  const { alternatives: [best], log_probability: p, rank, entropy } = found.layers[at].positions[t];
  return [t, token("target", t, found.target[t]), layerName(found.layers[at]), piece(best.piece), share(best.probability), share(Math.exp(p)), rank, entropy.toFixed(4)];
}

// The logit lens: what each layer of the decoder would say if it were the last.

import { element } from "../dom.js";
import { share } from "../numbers.js";
import { bar, note, numbers, rove } from "../parts.js";
import { base } from "../state.js";
import { light, shown, token, tokenId } from "../tokens.js";

export const lens = {
  name: "lens",
  title: "Logit lens",
  about: "The output matrix applied after each layer of the decoder, as if it were the last: when does the model know what to write?",
  view: "lens",
  needs: "Write a text above.",
  request: (state) => ({ ...base(state), count: 5 }),
  render(place, found) {
    const chosen = element("div", { class: "card chosen", "aria-live": "polite" });
    const cells = found.target.flatMap((piece, t) => found.layers.map((layer) => cell(layer, t, piece, chosen)));
    const across = found.layers.length;
    rove(cells, across, across - 1);
    const rows = found.target.map((piece, t) => element("tr", {},
      element("th", { scope: "row" }, token("target", t, piece, { title: shown(piece) })),
      ...cells.slice(t * across, (t + 1) * across).map((each) => element("td", {}, each))));
    const heads = found.layers.map((layer) => element("th", { scope: "col" }, layerName(layer)));
    describe(chosen, found.layers[across - 1], 0, found.target[0]);
    place.append(
      note("Each cell is the most probable token there; the stronger its colour, the more probable. A framed cell is the token that was written."),
      element("div", { class: "beside-list" },
        element("div", { class: "scroll" }, element("table", {},
          element("caption", {}, "Best token after each layer"),
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "written"), ...heads)),
          element("tbody", {}, ...rows))),
        chosen),
      numbers("All numbers of the logit lens", ["position", "written", "layer", "best", "p of best", "p of written", "rank of written", "entropy, nats"],
        cells.length, (i) => row(found, Math.floor(i / across), i % across)));
  },
};

const layerName = (layer) => (layer.layer === null ? "input" : `layer ${layer.layer}`);

function cell(layer, t, piece, chosen) {
  const each = layer.positions[t];
  const [best] = each.alternatives;
  const tell = () => {
    describe(chosen, layer, t, piece);
    light(tokenId("target", t));
  };
  const found = element("button", {
    type: "button", class: each.rank === 1 ? "cell right" : "cell", onpointerenter: tell, onfocus: tell,
    "aria-label": `${layerName(layer)}, position ${t}: ${shown(best.piece)}, ${share(best.probability)}`,
  }, element("bdi", { dir: "auto" }, shown(best.piece)), element("span", { class: "p" }, best.probability.toFixed(2)));
  found.style.setProperty("--share", best.probability);
  return found;
}

function describe(chosen, layer, t, piece) {
  const each = layer.positions[t];
  const own = Math.exp(each.log_probability);
  chosen.replaceChildren(
    element("h2", {}, `${layerName(layer) === "input" ? "Before the first layer" : `After ${layerName(layer)}`}, position ${t}`),
    element("ol", { class: "bars" }, ...each.alternatives.map((other) => element("li", {},
      bar(other.probability, { class: other.token === each.token ? "own" : "" },
        element("bdi", { dir: "auto" }, shown(other.piece)), element("span", { class: "p" }, share(other.probability)))))),
    note("Written: ", element("bdi", { dir: "auto" }, shown(piece)), `, p = ${share(own)}, rank ${each.rank}. Entropy ${each.entropy.toFixed(2)} nats.`));
}

function row(found, t, at) {
  const each = found.layers[at].positions[t];
  const [best] = each.alternatives;
  return [t, token("target", t, found.target[t]), layerName(found.layers[at]), element("bdi", { dir: "auto" }, shown(best.piece)), share(best.probability),
    share(Math.exp(each.log_probability)), each.rank, each.entropy.toFixed(4)];
}

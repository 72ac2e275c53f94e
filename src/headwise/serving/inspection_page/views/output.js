// Each token of an output with its probability, and what else might have stood there.

import { isSnapshot } from "../api.js";
import { h } from "../dom.js";
import { percent, share, signed } from "../numbers.js";
import { bar, note, numbers, piece } from "../parts.js";
import { base } from "../state.js";
import { shown, token, tokenId } from "../tokens.js";
import { drawTree } from "../tree.js";

const SPACE = "\u2581";

export const output = {
  name: "output",
  title: "Output",
  about: "Each token that the model writes, with its probability given all before it, and the most probable alternatives.",
  view: "output",
  request: (state) => ({ ...base(state), count: 6 }),
  render(place, found, context) {
    const writes = !isSnapshot && context.model.views.includes("beam");
    place.append(
      h("div.card", h("p.said", { dir: "auto" }, found.text), total(found)),
      found.tree ? tree(found) : "",
      writes ? note("Press an alternative to force it: the output is kept up to there, and the model writes the rest anew. Above, any other output can be looked at.") : "",
      h("ol.card.positions-of-output", { start: "0" }, ...found.positions.map((each, t) => position(found, each, t, writes ? context.set : null))),
      numbers("All numbers of this output", ["position", "token", "p", "ln p", "rank", "entropy, nats", "alternatives"],
        found.positions.length, (t) => row(found.positions[t], t)));
  },
};

/** Draw the tree of a parse; its words are tokens of the source if there are as many. */
function tree({ tree: brackets, source }) {
  const linked = brackets.match(/[^()\s]\)/g).length === source.length - 1;
  const drawn = drawTree(brackets, (index) => linked ? { "data-token": tokenId("source", index), class: "token" } : {});
  return h("div.card.scroll", { tabindex: "0", role: "region", "aria-label": `Tree over ${source.length - 1} tokens` }, drawn);
}

function total({ log_probability: all, positions }) {
  return all === null ? null : note(`ln p = ${signed(all)}, ${signed(all / positions.length)} per token`);
}

function position(found, each, t, set) {
  const p = probability(each);
  const others = each.alternatives.filter((other) => other.token !== each.token);
  return h("li.position", { class: each.rank > 1 ? "surprising" : "" },
    h("span.p", { "aria-hidden": "true" }, t),
    h("span.pieces", about(found, each), token("target", t, each.piece, { title: shown(each.piece) })),
    bar(p ?? 0, { class: "own", title: "probability" }, p === null ? "" : share(p)),
    h("span.p.rank", each.rank === 1 ? "" : `rank ${each.rank}`),
    h("span.alternatives", ...others.map((other, index) => alternative(found, other, t, set, `force-${t}-${index}`))));
}

function probability({ log_probability: each }) {
  return each === null ? null : Math.exp(each);
}

/** The source token that a label is about, of models that write none of their own. */
function about(found, each) {
  const index = each.source_position ?? null;
  return index === null ? null : token("source", index, found.source[index], { title: shown(found.source[index]) });
}

function alternative(found, other, t, set, id) {
  const forced = set ? beginning(found, t, other.piece) : null;
  const attributes = forced === null ? {} : {
    id, title: `Force: ${forced}`, "aria-label": `${shown(other.piece)}, ${share(other.probability)}: force it as token ${t}`,
    onclick: () => set({ prefix: forced, target: null }),
  };
  return bar(other.probability, { ...attributes, class: "alternative" }, piece(other.piece), h("span.p", share(other.probability)));
}

function row(each, t) {
  const p = probability(each);
  return [t, token("target", t, each.piece), p === null ? "" : percent(p), p === null ? "" : signed(each.log_probability, 4), each.rank, each.entropy.toFixed(4),
    each.alternatives.map((other) => `${shown(other.piece)} ${share(other.probability)}`).join("  ")];
}

/** Return the text that begins as the output does up to token `t`, and goes on with
 *  `next`; null if no text says that, as of the end symbol. */
export function beginning(found, t, next) {
  const isSymbol = (each) => /^(<.*>|\[.*\])$/s.test(each);
  const pieces = found.positions.map((each) => each.piece);
  const wanted = [...pieces.slice(0, t), next];
  return wanted.some(isSymbol) ? null : joined(wanted, pieces.filter((each) => !isSymbol(each)), found.text);
}

/** Join pieces in the way that makes the whole text of the whole of them. */
function joined(pieces, whole, text) {
  const ways = [(these) => these.join("").replaceAll(SPACE, " ").trimStart(), (these) => these.join(" ")];
  const way = ways.find((each) => each(whole) === text) ?? ways[whole.some((each) => each.includes(SPACE)) ? 0 : 1];
  return way(pieces);
}

// Each token of an output with its probability, and what else might have stood there.

import { element } from "../dom.js";
import { percent, share, signed } from "../numbers.js";
import { bar, field, note, numbers } from "../parts.js";
import { base } from "../state.js";
import { shown, token } from "../tokens.js";

const SPACE = "\u2581";

export const output = {
  name: "output",
  title: "Output",
  about: "Each token that the model writes, with its probability given all before it, and the most probable alternatives.",
  view: "output",
  needs: "Write a text above.",
  request: (state) => ({ ...base(state), count: 6 }),
  render(place, found, context) {
    const writes = context.model.views.includes("beam");
    place.append(sentence(found), ...(writes ? [otherOutput(context),
      note("Press an alternative to force it: the output is kept up to there, and the model writes the rest anew.")] : []),
      element("ol", { class: "token-list", start: "0" }, ...found.positions.map((each, t) => position(found, each, t, writes ? context.set : null))),
      numbers("All numbers of this output", ["position", "token", "p", "ln p", "rank", "entropy, nats", "alternatives"],
        found.positions.length, (t) => row(found.positions[t], t)));
  },
};

function sentence(found) {
  const total = found.log_probability;
  const mean = total === null || !found.positions.length ? null : total / found.positions.length;
  return element("div", { class: "card" },
    element("p", { class: "said", dir: "auto" }, found.text),
    total === null ? null : note(`ln p = ${signed(total)}`, mean === null ? "" : `, ${signed(mean)} per token`));
}

function otherOutput({ state, set }) {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("target").trim();
    set({ target: text || null, prefix: null });
  };
  return element("form", { class: "line", onsubmit: submit },
    field("What would it cost to write something else?", "target", state.target, { placeholder: "another output" }),
    element("button", { type: "submit" }, "Look at this output"),
    state.target || state.prefix
      ? element("button", { type: "button", class: "plain", onclick: () => set({ target: null, prefix: null }) }, "Back to the model\u2019s own")
      : null);
}

function position(found, each, t, set) {
  const p = each.log_probability === null ? null : Math.exp(each.log_probability);
  const others = each.alternatives.filter((other) => other.token !== each.token);
  return element("li", { class: each.rank > 1 ? "position surprising" : "position" },
    element("span", { class: "number", "aria-hidden": "true" }, t),
    element("span", { class: "pieces" }, about(found, each), token("target", t, each.piece, { title: shown(each.piece) })),
    bar(p ?? 0, { class: "own", title: "probability" }, p === null ? "" : share(p)),
    element("span", { class: "rank" }, each.rank === 1 ? "" : `rank ${each.rank}`),
    element("span", { class: "alternatives" }, ...others.map((other, index) => alternative(found, other, t, set, `force-${t}-${index}`))));
}

/** The source token that a label is about, of models that write none of their own. */
function about(found, each) {
  const index = each.source_position ?? null;
  return index === null ? null : token("source", index, found.source[index], { title: shown(found.source[index]) });
}

function alternative(found, other, t, set, id) {
  const content = [element("bdi", { class: "token", dir: "auto" }, shown(other.piece)),
    element("span", { class: "p" }, share(other.probability))];
  const forced = set ? beginning(found, t, other.piece) : null;
  if (forced === null) return bar(other.probability, { class: "alternative" }, ...content);
  return bar(other.probability, {
    tag: "button", type: "button", id, class: "alternative", title: `Force: ${forced}`,
    "aria-label": `${shown(other.piece)}, ${share(other.probability)}: force it as token ${t}`,
    onclick: () => set({ prefix: forced, target: null }),
  }, ...content);
}

function row(each, t) {
  const p = each.log_probability;
  return [t, token("target", t, each.piece), p === null ? "" : percent(Math.exp(p)), p === null ? "" : signed(p, 4), each.rank, each.entropy.toFixed(4),
    each.alternatives.map((other) => `${shown(other.piece)} ${share(other.probability)}`).join("  ")];
}

/** Return the text that begins as the output does up to token `t`, and goes on with
 *  `piece`; null if no text says that, as of the end symbol. */
export function beginning(found, t, piece) {
  const isSymbol = (each) => /^(<.*>|\[.*\])$/s.test(each);
  const pieces = found.positions.map((each) => each.piece);
  const before = pieces.slice(0, t);
  if (isSymbol(piece) || before.some(isSymbol)) return null;
  const whole = pieces.filter((each) => !isSymbol(each));
  return joined([...before, piece], whole, found.text);
}

/** Join pieces in the way that makes the whole text of the whole of them. */
function joined(pieces, whole, text) {
  const ways = [
    (these) => these.join("").replaceAll(SPACE, " ").trimStart(),
    (these) => these.join(" "),
  ];
  const way = ways.find((each) => each(whole) === text) ?? ways[whole.some((each) => each.includes(SPACE)) ? 0 : 1];
  return way(pieces);
}

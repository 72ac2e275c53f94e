// The model at four levels, from a black box down to its heads, with its real sizes.

import { isSnapshot } from "../api.js";
import { h } from "../dom.js";
import { formula, note, numbers } from "../parts.js";
import { base, switched } from "../state.js";

const SUBLAYERS = { self_attention: "Self-attention", cross_attention: "Cross-attention", feed_forward: "Feed-forward" };

export const model = {
  name: "model",
  title: "Model",
  about: "What the model is made of. Press a part to look inside it; switch parts off, and every view shows the changed model.",
  view: null,
  request: () => ({}),
  render(place, found, context) {
    const parts = partsOf(context.model);
    const [draw, chosen] = levelOf(context.state.level, parts);
    place.append(path(chosen?.name ?? draw.name, parts, context), draw(parts, context, chosen),
      numbers("All parts of the model", ["part", "size", "is", "residual connection"], parts.list.length, (i) => row(parts.list[i], context.state, parts.sizes)));
  },
};

/** Sort names into stacks of layers of sublayers, each attention with its heads. */
function partsOf({ config, sublayers, heads }) {
  const all = sublayers.map((name) => {
    const [stack, layer, kind] = name.split(".");
    const prefix = kind === "cross_attention" ? `cross.${layer}.` : `${stack}.${layer}.`;
    return { name, stack, layer: `${stack}.${layer}`, kind, heads: kind === "feed_forward" ? [] : heads.filter((each) => each.startsWith(prefix)) };
  });
  const layers = [...Map.groupBy(all, ({ layer }) => layer)].map(([name, members]) => ({ name, stack: members[0].stack, sublayers: members, names: members.flatMap(namesIn) }));
  return { all, layers, list: all.flatMap((each) => namesIn(each).map((name) => ({ ...each, name }))), sizes: config };
}

const namesIn = (sublayer) => [sublayer.name, ...sublayer.heads];

/** Return the function that draws the level that the state names, and what it is of. */
function levelOf(text, parts) {
  const sublayer = parts.all.find((each) => each.name === text);
  if (sublayer) return [sublayer.kind === "feed_forward" ? inFeedForward : inAttention, sublayer];
  const layer = parts.layers.find((each) => each.name === text);
  if (layer) return [inLayer, layer];
  return [text === "stacks" && parts.all.length ? stacks : box];
}

/** The levels above the current one, and the first of what is below it. */
function path(current, { layers, all }, { set }) {
  const layer = layers.find((each) => current.startsWith(each.name)) ?? layers[0];
  const sublayer = all.find((each) => each.name === current) ?? layer?.sublayers[0];
  const levels = [["box", "Black box"]];
  if (layer) levels.push(["stacks", "Stacks"], [layer.name, `${capital(layer.stack)} ${nameOf(layer)}`], [sublayer.name, SUBLAYERS[sublayer.kind]]);
  return h("nav", { "aria-label": "Levels" }, h("ol.path", ...levels.map(([name, text]) => h("li",
    h("button", { "aria-current": name === current ? "step" : null, id: `level-${name}`, onclick: () => set({ level: name }) }, text)))));
}

const nameOf = (layer) => `layer ${layer.name.split(".")[1]}`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** A box with its sizes; with `to` it leads a level down, where the keyboard goes too. */
function part(title, facts, { to = null, off = "", kind = "plain", set = null } = {}) {
  const enter = () => {
    set({ level: to });
    document.getElementById(`level-${to}`)?.focus();
  };
  return h(to ? "button.part" : "div.part", { class: kind, onclick: to ? enter : null },
    h("strong", ...formula(title)), ...facts.filter(Boolean).map((each) => h("span.p", each)), off ? h("span.is-off", off) : null);
}

const arrow = (text = "↑") => h("div.arrow", { "aria-hidden": "true" }, text);

/** Boxes one above the other, with arrows that lead upwards. */
function column(...boxes) {
  return h("div.picture.column-of-parts", ...boxes.flatMap((each, i) => (i ? [arrow(), each] : [each])));
}

/** Say how much is changed among these parts. */
function off(names, { off, noResidual }) {
  const count = [...off, ...noResidual].filter((each) => names.includes(each)).length;
  return count ? `${count} changed` : "";
}

function box(parts, { state, model: { name, parameters, task, views }, ask, set }) {
  const output = h("bdi", { dir: "auto" }, "…");
  if (views.includes("output")) {
    ask("output", { ...base(state), count: 6 }).then((answer) => answer.text, (error) => error.message).then((text) => output.replaceChildren(text));
  }
  return h("div.picture", part("Input", [h("bdi", { dir: "auto" }, state.text)]), arrow("→"),
    part(name, [task, `${parameters.toLocaleString("en")} parameters`], { to: parts.all.length ? "stacks" : null, off: off(parts.list.map((each) => each.name), state), set, kind: "black" }),
    arrow("→"), part("Output", [output]));
}

function stacks({ layers, sizes }, { state, set }) {
  const columns = [...Map.groupBy(layers, ({ stack }) => stack)].map(([stack, members]) => column(
    ...(stack === "decoder" ? [part("Linear and softmax", [`${sizes.d_model} → ${sizes.vocab_size ?? "vocabulary"}`])] : []),
    h("div.layers", h("h3", `${capital(stack)}: ${members.length} ${members.length === 1 ? "layer" : "layers"}`),
      ...[...members].reverse().map((each) => part(capital(nameOf(each)), [each.sublayers.map(({ kind }) => SUBLAYERS[kind].toLowerCase()).join(", ")],
        { to: each.name, off: off(each.names, state), set, kind: "" }))),
    part("Embedding + positions", [`d_model = ${sizes.d_model}`, sizes.positions])));
  if (columns.length === 2) columns.splice(1, 0, h("div.between", arrow("→"), note("keys and values for every cross-attention")));
  return h("div.picture.stacks", ...columns);
}

function inLayer({ sizes }, context, { sublayers }) {
  const { state, set } = context;
  const groups = [...sublayers].reverse().map((each) => h("div.sublayer", { class: state.noResidual.includes(each.name) ? "bare" : "", role: "group", "aria-label": each.name },
    column(
      part("Add & Norm", [sizes.norm === "pre" ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))"], { kind: "norm" }),
      part(SUBLAYERS[each.kind], sublayerFacts(each, sizes), { to: each.name, off: state.off.includes(each.name) ? "off" : off(each.heads, state), set, kind: each.kind }),
      ""),
    h("div.residual", { title: "residual connection" }),
    h("div.switches", onOff(each.name, context), residual(each.name, context))));
  return h("div.picture.column-of-parts", note("to the layer above"), ...groups, note(`from below: one vector of d_model = ${sizes.d_model} channels for each position`));
}

function sublayerFacts({ kind, heads }, { d_model: width, d_k, d_ff, activation }) {
  return kind === "feed_forward" ? [`${width} → ${d_ff} → ${width}, ${activation}`]
    : [`${heads.length} heads, d_k = ${d_k}`, kind === "cross_attention" ? "queries from here, keys and values from the encoder" : null];
}

function flip(id, label, text, checked, change) {
  return h("label.check", h("input.switch", { type: "checkbox", role: "switch", id, checked, disabled: isSnapshot, "aria-label": label, onchange: change }), h("span", text));
}

function onOff(name, { state, set }) {
  return flip(`model-part-${name}`, `${name} is on`, "on", !state.off.includes(name), () => set(switched(state, name)));
}

function residual(name, { state, set }) {
  const others = state.noResidual.filter((each) => each !== name);
  const isThere = others.length === state.noResidual.length;
  return flip(`model-residual-${name}`, `${name} has its residual connection`, "residual", isThere, () => set({ noResidual: isThere ? [...others, name] : others }));
}

function inAttention({ sizes: { d_model: width, d_k, d_v = d_k } }, context, { name: ofAll, kind, stack, heads }) {
  const { state, set } = context;
  const boxes = heads.map((name) => h("div.part", { class: state.off.includes(name) ? "off" : kind, role: "group", "aria-label": name },
    h("strong", `Head ${name.split(".")[2]}`),
    h("span.p", "softmax(q Kᵀ / √d_k) V"),
    h("span.p", ...formula(`W^Q, W^K: ${width} × ${d_k}; W^V: ${width} × ${d_v}`)),
    onOff(name, context),
    h("span.tools",
      h("button", { "aria-label": `Attention of ${name}`, onclick: () => set({ view: "attention", head: name }) }, "Attention"),
      h("button", { "aria-label": `${name} step by step`, onclick: () => set({ view: "word", head: name, query: 0 }) }, "Step by step"))));
  return column(part("Linear, W^O", [`${heads.length * d_v} × ${width}`]), part("Concatenation", [`${heads.length} heads × ${d_v} = ${heads.length * d_v} channels`]),
    h("div.heads", ...boxes),
    note(kind === "cross_attention" ? "Queries come from the decoder, keys and values from the top of the encoder." : "Queries, keys and values are all made of the same sequence.",
      stack === "decoder" && kind === "self_attention" ? " What lies ahead is masked." : ""),
    h("div.tools", `All of ${ofAll}:`, onOff(ofAll, context)));
}

function inFeedForward({ sizes: { d_model: width, d_ff, activation } }, context, { name }) {
  return column(part("Linear, W₂", [`${d_ff} × ${width}`]), part(`Activation: ${activation}`, [`${d_ff} channels`]), part("Linear, W₁", [`${width} × ${d_ff}`]),
    note("Each position by itself: no word sees another here."), h("div.tools", `${name}:`, onOff(name, context)));
}

function row({ name, kind, heads }, { off, noResidual }, { d_k, d_ff }) {
  const isHead = heads.includes(name);
  const is = (list) => (list.includes(name) ? "off" : "on");
  return [name, isHead ? `d_k = ${d_k}` : kind === "feed_forward" ? `d_ff = ${d_ff}` : `${heads.length} heads`, is(off), isHead ? "" : is(noResidual)];
}

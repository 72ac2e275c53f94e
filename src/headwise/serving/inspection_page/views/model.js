// The model at four levels, from a black box down to its heads, with its real sizes.

import { element } from "../dom.js";
import { formula, note, numbers } from "../parts.js";
import { base, switched } from "../state.js";

const ATTENTION = { self_attention: "Self-attention", cross_attention: "Cross-attention", feed_forward: "Feed-forward" };

export const model = {
  name: "model",
  title: "Model",
  about: "What the model is made of. Press a part to look inside it; switch parts off, and every view shows the changed model.",
  view: null,
  needs: "Write a text above.",
  request: () => ({}),
  render(place, found, context) {
    const parts = partsOf(context.model);
    const level = levelOf(context.state.level, parts);
    place.append(element("div", { class: "model-view" },
      path(level, parts, context), LEVELS[level.name](level, parts, context), changed(context),
      numbers("All parts of the model", ["part", "size", "is", "residual connection"], parts.list.length, (i) => row(parts.list[i], context))));
  },
};

const LEVELS = { box, stacks, layer: inLayer, attention: inAttention, feed_forward: inFeedForward };

/** Sort names into stacks of layers of sublayers, each attention with its heads. */
function partsOf({ config, sublayers, heads }) {
  const stacks = new Map();
  for (const name of sublayers) {
    const [stack, layer, kind] = name.split(".");
    if (!stacks.has(stack)) stacks.set(stack, []);
    const layers = stacks.get(stack);
    layers[layer] ??= { name: `${stack}.${layer}`, sublayers: [] };
    const prefix = kind === "cross_attention" ? `cross.${layer}.` : `${stack}.${layer}.`;
    layers[layer].sublayers.push({ name, kind, heads: kind === "feed_forward" ? [] : heads.filter((each) => each.startsWith(prefix)) });
  }
  const all = [...stacks.values()].flat().flatMap((each) => each.sublayers);
  const list = all.flatMap((each) => [each, ...each.heads.map((name) => ({ name, kind: "head", heads: [] }))]);
  return { stacks, all, list, sizes: { ...config, d_k: config.d_k ?? config.d_model / config.num_heads } };
}

/** Return the level that the state names, or the first. */
function levelOf(text, parts) {
  const sublayer = parts.all.find((each) => each.name === text);
  if (sublayer) return { name: sublayer.kind === "feed_forward" ? "feed_forward" : "attention", sublayer };
  const layer = [...parts.stacks.values()].flat().find((each) => each.name === text);
  if (layer) return { name: "layer", layer };
  return { name: text === "stacks" && parts.all.length ? "stacks" : "box" };
}

function path(level, parts, { set }) {
  const name = level.sublayer?.name ?? level.layer?.name ?? "";
  const [stack, number, kind] = name.split(".");
  const crumbs = [["box", "Black box"]];
  if (parts.all.length) crumbs.push(["stacks", "Stacks"]);
  const to = stack ? `${stack}.${number}` : firstLayer(parts);
  if (to) crumbs.push([to, `${capital(to.split(".")[0])} layer ${to.split(".")[1]}`]);
  const inner = kind ? name : `${to}.self_attention`;
  if (parts.all.some((each) => each.name === inner)) crumbs.push([inner, ATTENTION[inner.split(".")[2]]]);
  const current = name || level.name;
  return element("nav", { class: "path", "aria-label": "Levels" }, element("ol", {}, ...crumbs.map(([target, text]) => element("li", {},
    element("button", { type: "button", "aria-current": target === current ? "step" : null, id: `level-${target}`, onclick: () => set({ level: target }) }, text)))));
}

/** Go to a level, and leave the keyboard at its name. */
function enter(level, set) {
  set({ level });
  document.getElementById(`level-${level}`)?.focus();
}

function firstLayer(parts) {
  return [...parts.stacks.values()][0]?.[0]?.name ?? null;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** A box that leads one level down, with its sizes and what is off inside it. */
function part(title, facts, { to = null, off = 0, name = "", set = null }) {
  const content = [element("strong", {}, ...formula(title)), ...facts.filter(Boolean).map((each) => element("span", { class: "fact" }, each)),
    off ? element("span", { class: "is-off" }, off === true ? "off" : `${off} changed`) : null];
  return to
    ? element("button", { type: "button", class: `part ${name}`, onclick: () => enter(to, set) }, ...content)
    : element("div", { class: `part ${name}` }, ...content);
}

function arrow(text = "") {
  return element("div", { class: "arrow" }, text);
}

function count(names, { state }) {
  return names.filter((each) => state.off.includes(each)).length + names.filter((each) => state.noResidual.includes(each)).length;
}

const namesIn = (sublayer) => [sublayer.name, ...sublayer.heads];

function box(level, parts, context) {
  const { state, model: { name, parameters, task, views }, ask, set } = context;
  const output = element("bdi", { dir: "auto" }, "\u2026");
  if (state.text && views.includes("output")) {
    ask("output", { ...base(state), count: 6 }).then((answer) => output.replaceChildren(answer.text)).catch((error) => output.replaceChildren(error.message));
  }
  return element("div", { class: "picture across" },
    part("Input", [element("bdi", { dir: "auto" }, state.text)], { name: "words" }), arrow(),
    part(name, [task, `${parameters.toLocaleString("en")} parameters`], { to: parts.all.length ? "stacks" : null, off: count(parts.list.map((each) => each.name), context), set, name: "black" }), arrow(),
    part("Output", [output], { name: "words" }));
}

function stacks(level, parts, context) {
  const { sizes } = parts;
  const columns = [...parts.stacks].map(([stack, layers]) => element("div", { class: `stack ${stack}`, role: "group", "aria-label": stack },
    stack === "decoder" ? part("Linear and softmax", [`${sizes.d_model} \u2192 ${sizes.vocab_size ?? "vocabulary"}`], { name: "plain" }) : null,
    stack === "decoder" ? arrow("\u2191") : null,
    element("div", { class: "layers" }, element("h2", {}, `${capital(stack)}: ${layers.length} ${layers.length === 1 ? "layer" : "layers"}`),
      ...[...layers].reverse().map((each) => part(`Layer ${each.name.split(".")[1]}`, [each.sublayers.map((sublayer) => ATTENTION[sublayer.kind].toLowerCase()).join(", ")],
        { to: each.name, off: count(each.sublayers.flatMap(namesIn), context), set: context.set }))),
    arrow("\u2191"),
    part("Embedding + positions", [`d_model = ${sizes.d_model}`, sizes.positions], { name: "plain" })));
  if (columns.length === 2) columns.splice(1, 0, element("div", { class: "between" }, arrow("\u2192"), note("keys and values for every cross-attention")));
  return element("div", { class: "picture stacks" }, ...columns);
}

function inLayer({ layer }, parts, context) {
  const { sizes } = parts;
  const groups = [...layer.sublayers].reverse().map((each) => {
    const isBare = context.state.noResidual.includes(each.name);
    return element("div", { class: isBare ? "sublayer bare" : "sublayer", role: "group", "aria-label": each.name },
      part("Add & Norm", [sizes.norm === "pre" ? "x + Sublayer(LayerNorm(x))" : "LayerNorm(x + Sublayer(x))"], { name: "norm" }),
      arrow("\u2191"),
      part(ATTENTION[each.kind], sublayerFacts(each, sizes), { to: each.name, off: context.state.off.includes(each.name) || count(each.heads, context), set: context.set, name: each.kind }),
      arrow("\u2191"),
      element("div", { class: "residual", title: "residual connection" }),
      element("div", { class: "switches-of" }, onOff(each.name, "on", context), residualSwitch(each.name, context)));
  });
  return element("div", { class: "picture layer" }, note("to the layer above"), ...groups, note("from below: one vector of d_model = ", sizes.d_model, " channels for each position"));
}

function sublayerFacts(each, { d_model: width, d_k, d_ff, activation }) {
  return each.kind === "feed_forward" ? [`${width} \u2192 ${d_ff} \u2192 ${width}, ${activation}`] : [`${each.heads.length} heads, d_k = ${d_k}`,
    each.kind === "cross_attention" ? "queries from here, keys and values from the encoder" : null];
}

function onOff(name, text, { state, set }) {
  return element("label", { class: "switch-of" }, element("input", {
    type: "checkbox", role: "switch", class: "switch", id: `part-${name}`, checked: !state.off.includes(name), "aria-label": `${name} is on`, onchange: () => set(switched(state, name)),
  }), element("span", {}, text));
}

function residualSwitch(name, { state, set }) {
  const others = state.noResidual.filter((each) => each !== name);
  const isThere = others.length === state.noResidual.length;
  return element("label", { class: "switch-of" }, element("input", {
    type: "checkbox", role: "switch", class: "switch", id: `residual-${name}`, checked: isThere, "aria-label": `${name} has its residual connection`,
    onchange: () => set({ noResidual: isThere ? [...others, name] : others }),
  }), element("span", {}, "residual"));
}

function inAttention({ sublayer }, parts, context) {
  const { d_model: width, d_k } = parts.sizes;
  const heads = sublayer.heads.map((name) => element("div", { class: context.state.off.includes(name) ? "part head off" : "part head", role: "group", "aria-label": name },
    element("strong", {}, `Head ${name.split(".")[2]}`),
    element("span", { class: "fact" }, "softmax(q K\u1d40 / \u221ad_k) V"),
    element("span", { class: "fact" }, ...formula(`W^Q, W^K, W^V: ${width} \u00d7 ${d_k} each`)),
    onOff(name, "on", context),
    element("span", { class: "line" },
      element("button", { type: "button", "aria-label": `Attention of ${name}`, onclick: () => context.set({ view: "attention", head: name }) }, "Attention"),
      element("button", { type: "button", "aria-label": `${name} step by step`, onclick: () => context.set({ view: "word", head: name, query: 0 }) }, "Step by step"))));
  return element("div", { class: "picture layer" }, part("Linear, W^O", [`${width} \u00d7 ${width}`], { name: "plain" }), arrow("\u2191"),
    part("Concatenation", [`${heads.length} heads \u00d7 ${d_k} = ${heads.length * d_k} channels`], { name: "plain" }), arrow("\u2191"),
    element("div", { class: "heads" }, ...heads), arrow("\u2191"),
    note(sublayer.kind === "cross_attention" ? "Queries come from the decoder, keys and values from the top of the encoder." : "Queries, keys and values are all made of the same sequence.",
      sublayer.name.startsWith("decoder") && sublayer.kind === "self_attention" ? " What lies ahead is masked." : ""));
}

function inFeedForward({ sublayer }, parts, context) {
  const { d_model: width, d_ff, activation } = parts.sizes;
  return element("div", { class: "picture layer" }, part("Linear, W\u2082", [`${d_ff} \u00d7 ${width}`], { name: "plain" }), arrow("\u2191"),
    part(`Activation: ${activation}`, [`${d_ff} channels`], { name: "plain" }), arrow("\u2191"),
    part("Linear, W\u2081", [`${width} \u00d7 ${d_ff}`], { name: "plain" }), arrow("\u2191"),
    note("Each position by itself: no word sees another here."), onOff(sublayer.name, `${sublayer.name} is on`, context));
}

/** Say what is off at present. */
function changed({ state, set }) {
  const names = [...state.off.map((each) => `${each} off`), ...state.noResidual.map((each) => `${each} without residual connection`)];
  if (!names.length) return note("Everything is on.");
  return element("p", { class: "line" }, `Changed: ${names.join(", ")}.`,
    element("button", { type: "button", id: "everything-on", onclick: () => set({ off: [], noResidual: [] }) }, "Everything on again"));
}

function row(each, { state, model: { config } }) {
  const size = each.kind === "head" ? `d_k = ${config.d_k ?? config.d_model / config.num_heads}` : each.kind === "feed_forward" ? `d_ff = ${config.d_ff}` : `${each.heads.length} heads`;
  return [each.name, size, state.off.includes(each.name) ? "off" : "on", each.kind === "head" ? "" : state.noResidual.includes(each.name) ? "off" : "on"];
}

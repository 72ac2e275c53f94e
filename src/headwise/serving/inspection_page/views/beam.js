// The beam search as a tree: what was kept at each step, what was dropped, and why.

import { h, svg } from "../dom.js";
import { setProperties } from "../heat.js";
import { signed } from "../numbers.js";
import { note, numbers, piece } from "../parts.js";
import { base } from "../state.js";
import { light, shown, tokenId } from "../tokens.js";

const WIDTH = 128;
const HEIGHT = 34;
const EDGE = 26;
const KINDS = { pruned: "dropped", "ended below the beam": "dropped", ended: "completed", "cut off": "completed" };
const LEGEND = { kept: "kept", completed: "completed", dropped: "dropped", stopped: "in the beam at the end", best: "path of the best result" };

export const beam = {
  name: "beam",
  title: "Beam search",
  about: "The search step by step, from left to right: which continuations it kept, which it dropped, and how it ended.",
  view: "beam",
  request: base,
  render(place, found, { state, set }) {
    const hides = state.hideDropped === "1";
    const told = h("div.card.chosen", { "aria-live": "polite" });
    const tree = makeTree(found, hides, (node) => told.replaceChildren(...description(found, node)));
    place.append(
      note(`A beam of ${found.beam}; the search ended by ${found.ended_by}. Arrow keys follow the tree.`),
      h("p.tools",
        h("label.check", h("input", { type: "checkbox", id: "hide-dropped", checked: hides, onchange: (event) => set({ hideDropped: event.target.checked ? "1" : null }) }), " Hide what was dropped"),
        ...Object.entries(LEGEND).map(([name, text]) => h("span.key", { class: name }, text))),
      tree, told,
      h("ol.results", ...found.results.map((each) => h("li", h("bdi", { dir: "auto" }, each.text),
        note(`score ${signed(each.score, 4)}, ln p ${signed(each.log_probability)}${each.finished ? "" : ", cut off"}`)))),
      numbers("All hypotheses of the search", ["step", "rank", "token", "after", "ln p of token", "total", "score", "status"],
        found.nodes.length, (i) => row(found, found.nodes[i])));
  },
};

const kindOf = (node) => KINDS[node.status] ?? node.status;

function pathTo(found, node) {
  const path = [node];
  while (path[0].parent !== null) path.unshift(found.nodes[path[0].parent]);
  return path;
}

function row(found, node) {
  return [node.step, node.rank, piece(node.piece), pathTo(found, node).slice(0, -1).map((each) => shown(each.piece)).join(" "),
    signed(node.token_score, 4), signed(node.total, 4), node.score === null ? "" : signed(node.score, 4), node.status];
}

function description(found, node) {
  const facts = {
    status: `${node.status}: ${found.reasons[node.status]}`,
    "step and rank": `step ${node.step}, rank ${node.rank}`,
    "ln p of the token": signed(node.token_score),
    total: signed(node.total),
    score: node.score === null ? null : signed(node.score, 4),
    "in the result": node.result === null ? null : `place ${node.result}`,
  };
  return [h("p.said", ...pathTo(found, node).map((each) => piece(each.piece))),
    h("dl", ...Object.entries(facts).filter(([, value]) => value !== null).flatMap(([name, value]) => [h("dt", name), h("dd", value)]))];
}

/** Make the tree: a button for each node, and one path for the edges of each kind. */
function makeTree(found, hides, tell) {
  const tree = layOut(found, hides);
  const { steps, best } = tree;
  const seen = steps.flat();
  const [width, height] = [steps.length * WIDTH, Math.max(...steps.map((each) => each.length)) * HEIGHT + 8];
  const edges = Map.groupBy(seen.filter((node) => node.parent !== null), (node) => `${kindOf(node)} ${best.get(node.id) ?? ""}`);
  const buttons = new Map(seen.map((node) => [node.id, button(tree, node)]));
  let at = pathTo(found, found.nodes[found.results[0]?.node ?? 0])[0];
  const choose = (node) => {
    buttons.get(at.id).tabIndex = -1;
    at = node;
    buttons.get(at.id).tabIndex = 0;
    tell(at);
  };
  for (const node of seen) {
    for (const type of ["focus", "pointerenter"]) {
      buttons.get(node.id).addEventListener(type, () => {
        choose(node);
        light(...(best.get(node.id) === "best" ? [tokenId("target", node.step - 1)] : []));
      });
    }
  }
  choose(at);
  const keydown = (event) => {
    const to = neighbour(tree, at, event.key);
    if (!to) return;
    event.preventDefault();
    buttons.get(to.id).focus();
  };
  return h("div.scroll.card.tree-view", setProperties(h("div.tree", { role: "group", "aria-label": "Tree of the beam search", onkeydown: keydown },
    svg("svg", { "aria-hidden": "true", width, height }, ...[...edges].sort(([one], [other]) => one.endsWith("best") - other.endsWith("best")).map(([name, nodes]) => svg("path", { class: name, d: nodes.map((node) => edge(tree, node)).join("") }))),
    ...buttons.values()), { width: `${width}px`, height: `${height}px` }));
}

/** Sort nodes into steps, each in a lane, and mark the paths of the results. */
function layOut(found, hides) {
  const steps = Array.from({ length: found.nodes.at(-1).step }, () => []);
  for (const node of found.nodes) if (!hides || kindOf(node) !== "dropped") steps[node.step - 1].push(node);
  const laneOf = new Map(steps.flatMap((each) => each.map((node, lane) => [node.id, lane])));
  const best = new Map();
  for (const result of [...found.results].reverse()) {
    for (const node of pathTo(found, found.nodes[result.node])) best.set(node.id, result === found.results[0] ? "best" : "second");
  }
  return { found, steps, laneOf, best };
}

function neighbour({ found, steps, laneOf, best }, node, key) {
  const step = steps[node.step - 1];
  const next = steps[node.step] ?? [];
  const children = next.filter((each) => each.parent === node.id);
  const lane = laneOf.get(node.id);
  const isBest = (each) => best.get(each.id) === "best";
  return {
    ArrowLeft: found.nodes[node.parent],
    ArrowRight: children.find(isBest) ?? children[0] ?? next[0],
    ArrowUp: step[lane - 1],
    ArrowDown: step[lane + 1],
    Home: pathTo(found, node)[0],
    End: steps.at(-1).find(isBest) ?? steps.at(-1)[0],
  }[key];
}

function button({ laneOf, best }, node) {
  const kind = kindOf(node);
  return setProperties(h("button.node", {
    class: `${kind} ${best.get(node.id) ?? ""}`, "data-node": node.id, tabindex: "-1",
    "aria-label": `${shown(node.piece)}, ${kind}, step ${node.step}, rank ${node.rank}, total ${signed(node.total, 2)}`,
  }, piece(node.piece), h("span.p", signed(node.score ?? node.total, 2))),
  { left: `${(node.step - 1) * WIDTH}px`, top: `${laneOf.get(node.id) * HEIGHT + 4}px` });
}

function edge({ found, laneOf }, node) {
  const to = (node.step - 1) * WIDTH;
  const from = to - EDGE;
  const [above, below] = [found.nodes[node.parent], node].map((each) => laneOf.get(each.id) * HEIGHT + HEIGHT / 2 + 1);
  return `M${from} ${above}C${from + 14} ${above} ${to - 14} ${below} ${to} ${below}`;
}

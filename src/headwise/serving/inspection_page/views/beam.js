// The beam search as a tree: what was kept at each step, what was dropped, and why.

import { element, svg } from "../dom.js";
import { signed } from "../numbers.js";
import { note, numbers } from "../parts.js";
import { base } from "../state.js";
import { light, shown, tokenId } from "../tokens.js";

const WIDTH = 128;
const HEIGHT = 34;
const EDGE = 26;
const AHEAD = 6;
const DROPPED = new Set(["pruned", "ended below the beam"]);
const COMPLETED = new Set(["ended", "cut off"]);
const LEGEND = [["kept", "kept"], ["completed", "completed"], ["dropped", "dropped"], ["stopped", "in the beam at the end"], ["best", "path of the best result"]];

export const beam = {
  name: "beam",
  title: "Beam search",
  about: "The search step by step, from left to right: which continuations it kept, which it dropped, and how it ended.",
  view: "beam",
  needs: "Write a text above.",
  request: base,
  render(place, found, context) {
    const hides = context.state.hideDropped === "1";
    const told = element("div", { class: "card chosen", "aria-live": "polite" });
    const tree = drawTree(found, hides, (node) => told.replaceChildren(...description(found, node)));
    place.append(
      note(`A beam of ${found.beam}; the search ended by ${found.ended_by}. Arrow keys follow the tree.`),
      element("p", { class: "line" },
        element("label", { class: "check" }, element("input", {
          type: "checkbox", id: "hide-dropped", checked: hides, onchange: (event) => context.set({ hideDropped: event.target.checked ? "1" : null }),
        }), " Hide what was dropped"),
        ...LEGEND.map(([name, text]) => element("span", { class: `key ${name}` }, text))),
      tree, told,
      element("ol", { class: "results" }, ...found.results.map((each) => element("li", {},
        element("bdi", { dir: "auto" }, each.text), note(`score ${signed(each.score, 4)}, ln p ${signed(each.log_probability)}${each.finished ? "" : ", cut off"}`)))),
      numbers("All hypotheses of the search", ["step", "rank", "token", "after", "ln p of token", "total", "score", "status"],
        found.nodes.length, (i) => row(found, found.nodes[i])));
    tree.dispatchEvent(new Event("shown"));
  },
};

function kindOf(node) {
  if (COMPLETED.has(node.status)) return "completed";
  return DROPPED.has(node.status) ? "dropped" : node.status;
}

function pathTo(found, node) {
  const path = [];
  for (let at = node; at; at = at.parent === null ? null : found.nodes[at.parent]) path.unshift(at);
  return path;
}

function row(found, node) {
  return [node.step, node.rank, piece(node), pathTo(found, node).slice(0, -1).map((each) => shown(each.piece)).join(" "),
    signed(node.token_score, 4), signed(node.total, 4), node.score === null ? "" : signed(node.score, 4), node.status];
}

function piece(node) {
  return element("bdi", { class: "piece", dir: "auto" }, shown(node.piece));
}

function description(found, node) {
  const facts = [
    ["status", `${node.status}: ${found.reasons[node.status]}`],
    ["step and rank", `step ${node.step}, rank ${node.rank}`],
    ["ln p of the token", signed(node.token_score)],
    ["total", signed(node.total)],
    ["score", node.score === null ? null : signed(node.score, 4)],
    ["in the result", node.result === null ? null : `place ${node.result}`],
  ];
  return [
    element("p", { class: "said" }, ...pathTo(found, node).flatMap((each) => [piece(each), " "])),
    element("dl", {}, ...facts.filter(([, value]) => value !== null).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
  ];
}

/** Draw the steps that can be seen, and a few on either side: long outputs have tens of
 *  thousands of nodes. */
function drawTree(found, hides, tell) {
  const steps = Array.from({ length: found.nodes.at(-1).step }, () => []);
  for (const node of found.nodes) if (!hides || !DROPPED.has(node.status)) steps[node.step - 1].push(node);
  const lanes = Math.max(...steps.map((each) => each.length));
  const laneOf = new Map(steps.flatMap((each) => each.map((node, lane) => [node.id, lane])));
  const best = new Map();
  for (const result of [...found.results].reverse()) {
    for (const node of pathTo(found, found.nodes[result.node])) best.set(node.id, result === found.results[0] ? "best" : "second");
  }
  const parts = { steps, laneOf, best, found };
  const edges = svg("svg", { "aria-hidden": "true", width: steps.length * WIDTH, height: lanes * HEIGHT + 8 });
  const nodes = element("div", { class: "nodes" });
  const canvas = element("div", { class: "tree", role: "group", "aria-label": "Tree of the beam search" }, edges, nodes);
  canvas.style.setProperty("inline-size", `${steps.length * WIDTH}px`);
  canvas.style.setProperty("block-size", `${lanes * HEIGHT + 8}px`);
  const window = element("div", { class: "scroll tree-window" }, canvas);
  let at = found.nodes[found.results[0]?.node ?? 0];
  at = pathTo(found, at)[0];
  let range = [-1, -1];

  const draw = () => {
    const first = Math.max(0, Math.floor(window.scrollLeft / WIDTH) - AHEAD);
    const last = Math.min(steps.length, first + Math.ceil(window.clientWidth / WIDTH) + 2 * AHEAD);
    if (first === range[0] && last === range[1]) return;
    const hadFocus = nodes.contains(document.activeElement);
    range = [first, last];
    const seen = steps.slice(first, last).flat();
    edges.replaceChildren(...seen.filter((node) => node.parent !== null).map((node) => edge(parts, node)));
    nodes.replaceChildren(...seen.map((node) => button(parts, node, node === at, choose)));
    if (!nodes.querySelector("[tabindex='0']")) nodes.firstChild?.setAttribute("tabindex", "0");
    if (hadFocus) nodes.querySelector(`[data-node="${at.id}"]`)?.focus({ preventScroll: true });
  };
  const choose = (node) => {
    nodes.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    at = node;
    nodes.querySelector(`[data-node="${node.id}"]`)?.setAttribute("tabindex", "0");
    tell(node);
    light(...(best.get(node.id) === "best" ? [tokenId("target", node.step - 1)] : []));
  };
  window.addEventListener("scroll", draw);
  canvas.addEventListener("keydown", (event) => {
    const to = neighbour(parts, at, event.key);
    if (!to) return;
    event.preventDefault();
    at = to;
    const left = (to.step - 1) * WIDTH;
    if (left < window.scrollLeft || left + WIDTH > window.scrollLeft + window.clientWidth) {
      window.scrollLeft = left - (window.clientWidth - WIDTH) / 2;
    }
    range = [-1, -1];
    draw();
    nodes.querySelector(`[data-node="${at.id}"]`)?.focus({ preventScroll: true });
  });
  window.addEventListener("shown", () => {
    draw();
    tell(at);
  });
  return window;
}

function neighbour({ steps, laneOf, best, found }, node, key) {
  const step = steps[node.step - 1];
  const lane = laneOf.get(node.id);
  const children = (steps[node.step] ?? []).filter((each) => each.parent === node.id);
  const child = children.find((each) => best.get(each.id) === "best") ?? children[0];
  const last = steps.at(-1);
  return {
    ArrowLeft: node.parent === null ? null : found.nodes[node.parent],
    ArrowRight: child ?? steps[node.step]?.[0],
    ArrowUp: step[lane - 1],
    ArrowDown: step[lane + 1],
    Home: pathTo(found, node)[0],
    End: last.find((each) => best.get(each.id) === "best") ?? last[0],
  }[key] ?? null;
}

function button({ laneOf, best }, node, isChosen, choose) {
  const tell = () => choose(node);
  const found = element("button", {
    type: "button", class: `node ${kindOf(node)} ${best.get(node.id) ?? ""}`, "data-node": node.id, title: shown(node.piece),
    tabindex: isChosen ? "0" : "-1", onfocus: tell, onpointerenter: tell,
    "aria-label": `${shown(node.piece)}, ${kindOf(node)}, step ${node.step}, rank ${node.rank}, total ${signed(node.total, 2)}`,
  }, piece(node), element("span", { class: "p" }, signed(node.score ?? node.total, 2)));
  found.style.setProperty("inset-inline-start", `${(node.step - 1) * WIDTH}px`);
  found.style.setProperty("inset-block-start", `${laneOf.get(node.id) * HEIGHT + 4}px`);
  return found;
}

function edge({ laneOf, best, found }, node) {
  const parent = found.nodes[node.parent];
  const from = (node.step - 1) * WIDTH - EDGE;
  const to = (node.step - 1) * WIDTH;
  const [above, below] = [parent, node].map((each) => laneOf.get(each.id) * HEIGHT + HEIGHT / 2 + 3);
  return svg("path", {
    class: `${kindOf(node)} ${best.get(node.id) ?? ""}`,
    d: `M${from} ${above}C${from + 14} ${above} ${to - 14} ${below} ${to} ${below}`,
  });
}

// A constituency tree as it is usually drawn: the root on top, words in a line below.

import { svg } from "./dom.js";

const [LETTER, GAP, STEP] = [8, 18, 40]; // CSS pixels

/** Draw a tree in brackets. `word(index)` gives the attributes of a word's text. */
export function drawTree(brackets, word) {
  const words = [];
  const root = read(brackets.match(/[()]|[^()\s]+/g), words);
  const bottom = 20 + STEP * depth(root);
  let width = GAP;
  const drawn = [];
  const draw = (node, level) => {
    const [label, wide] = [node.label ?? node.word, LETTER * (node.label ?? node.word).length];
    const y = node.word ? bottom : 20 + STEP * level;
    const below = (node.children ?? []).map((child) => draw(child, level + 1));
    const x = node.word ? width + wide / 2 : (below[0].x + below.at(-1).x) / 2;
    if (node.word) width += wide + GAP;
    drawn.push(...below.map((each) => svg("path", { d: `M${x} ${y + 5}L${each.x} ${each.y - 14}` })),
      svg("text", { x, y, "text-anchor": "middle", ...(node.word ? word(words.indexOf(node)) : {}) }, label));
    return { x, y };
  };
  draw(root, 0);
  return svg("svg", { class: "syntax", role: "img", "aria-label": brackets, width, height: bottom + 12 }, ...drawn);
}

/** Read the tree at the start of `parts`; a word stands for its part of speech too. */
function read(parts, words) {
  parts.shift();
  const node = { label: parts.shift(), children: [] };
  while (parts[0] !== ")") {
    if (parts[0] === "(") node.children.push(read(parts, words));
    else words.push(node.leaf = { word: parts.shift() });
  }
  parts.shift();
  return node.leaf && node.children.length === 0 ? node.leaf : node;
}

function depth(node) {
  return node.word ? 0 : 1 + Math.max(...node.children.map(depth));
}

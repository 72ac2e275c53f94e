// All heads as small multiples: one grid for each kind of attention, a row for each layer.

import { element } from "../dom.js";
import { onHover } from "../tokens.js";
import { KINDS, imageOf, litIndices, makeShades, maxPooled, onColourScheme, oncePerFrame, parsed, sidesOf } from "./attention_maps.js";

const SIDE = 70; // of a tile, in CSS pixels

/** Fill `place`. `open(head)` and `turn(head)` are called to show a head and to switch it
 *  off or on. Returns {choose(head), clean()}. */
export function makeOverview(place, found, { off, open, turn }) {
  const tiles = found.maps.map((map) => makeTile(map, found, { off: off.includes(map.head), open, turn }));
  const kinds = Object.keys(KINDS).filter((kind) => tiles.some((tile) => tile.kind === kind));
  place.append(...kinds.map((kind) => gridOf(kind, tiles.filter((tile) => tile.kind === kind))));
  let shades = makeShades();
  let lit = new Set();
  const draw = () => tiles.forEach((tile) => tile.draw(lit));
  const prepare = () => {
    shades = makeShades();
    tiles.forEach((tile) => tile.prepare(shades));
    draw();
  };
  prepare();
  const soon = oncePerFrame(draw);
  const ends = [onColourScheme(prepare), onHover((ids) => {
    lit = ids;
    soon();
  })];
  place.onkeydown = (event) => move(event, tiles, turn);
  return {
    choose(head) {
      for (const tile of tiles) tile.choose(tile.head === head);
    },
    clean: () => ends.forEach((end) => end()),
  };
}

function makeTile(map, found, { off, open, turn }) {
  const { head } = map;
  const { kind, layer, index } = parsed(head);
  const sides = sidesOf(found, head);
  const size = SIDE * Math.min(2, window.devicePixelRatio || 1);
  const canvas = element("canvas", { width: size, height: size, "aria-hidden": "true" });
  const button = element("button", {
    type: "button", class: "tile-button", id: `head-${head}`, "aria-pressed": "false", tabindex: "-1",
    "aria-label": off ? `${head}, off` : head, "data-head": head, title: head, onclick: () => open(head),
  }, canvas);
  const power = element("button", {
    type: "button", class: "power", id: `power-${head}`, role: "switch", "aria-checked": String(!off), tabindex: "-1",
    "aria-label": `${head} on`, title: off ? "Switch on (o)" : "Switch off (o)", "data-head": head, onclick: () => turn(head),
  });
  const node = element("div", { role: "gridcell", class: off ? "tile off" : "tile" }, button,
    element("span", { class: "foot" }, element("span", { class: "name" }, off ? "off" : String(index)), power));
  let image = null;
  return {
    head, kind, layer, index, node, button, power,
    prepare(shades) {
      image = imageOf(maxPooled(map, size), shades);
    },
    draw(lit) {
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(image, 0, 0, size, size);
      context.fillStyle = getComputedStyle(canvas).color;
      const thin = Math.max(1, size / SIDE);
      for (const row of litIndices(sides.rows, lit)) {
        const height = Math.max(thin, size / sides.rows.pieces.length);
        frame(context, 0, (row / sides.rows.pieces.length) * size, size, height, thin);
      }
      for (const column of litIndices(sides.columns, lit)) {
        const width = Math.max(thin, size / sides.columns.pieces.length);
        frame(context, (column / sides.columns.pieces.length) * size, 0, width, size, thin);
      }
    },
    choose(chosen) {
      button.setAttribute("aria-pressed", String(chosen));
      for (const each of [button, power]) each.tabIndex = chosen ? 0 : -1;
    },
  };
}

function frame(context, x, y, width, height, line) {
  context.globalAlpha = 0.75;
  context.fillRect(x, y, width, Math.min(line, height));
  context.fillRect(x, y + height - line, width, Math.min(line, height));
  context.fillRect(x, y, Math.min(line, width), height);
  context.fillRect(x + width - line, y, Math.min(line, width), height);
  context.globalAlpha = 1;
}

function gridOf(kind, tiles) {
  const layers = [...new Set(tiles.map((tile) => tile.layer))];
  const rows = layers.map((layer) => element("div", { role: "row", class: "layer-row" },
    element("span", { role: "rowheader", class: "name" }, element("span", { class: "hidden" }, "layer "), String(layer)),
    ...tiles.filter((tile) => tile.layer === layer).map((tile) => tile.node)));
  return element("section", { class: "card heads-kind" },
    element("h3", {}, KINDS[kind]),
    element("p", { class: "about" }, "layers down, heads across"),
    element("div", { class: "scroll" },
      element("div", { role: "grid", "aria-label": `Heads of ${KINDS[kind].toLowerCase()}` }, ...rows)));
}

/** Arrow keys move between heads, over all grids; o switches one off or on. */
function move(event, tiles, turn) {
  const { head } = event.target.dataset;
  const at = tiles.findIndex((tile) => tile.head === head);
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const ofLayer = tiles.filter((tile) => tile.kind === tiles[at].kind && tile.layer === tiles[at].layer).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: ofLayer, ArrowUp: -ofLayer };
  if (event.key === "o") turn(head);
  else if (event.key === "Home") focus(tiles, 0, event);
  else if (event.key === "End") focus(tiles, tiles.length - 1, event);
  else if (event.key in steps && tiles[at + steps[event.key]]) focus(tiles, at + steps[event.key], event);
  else return;
  event.preventDefault();
}

function focus(tiles, index, event) {
  const part = event.target.classList.contains("power") ? "power" : "button";
  tiles.forEach((tile, each) => {
    for (const node of [tile.button, tile.power]) node.tabIndex = each === index ? 0 : -1;
  });
  tiles[index][part].focus();
}

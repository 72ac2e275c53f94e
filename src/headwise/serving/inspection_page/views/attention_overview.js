// All heads as small multiples: one grid for each kind of attention, a row for each layer.

import { h } from "../dom.js";
import { note } from "../parts.js";
import { onHover } from "../tokens.js";
import { KINDS, imageOf, litIndices, makeShades, maxPooled, onColourScheme, oncePerFrame, parsed, sidesOf } from "./attention_maps.js";

const SIDE = 70; // of a tile, in CSS pixels

/** Fill `place`. `open(head)` and `turn(head)` are called to show a head and to switch it
 *  off or on. Returns {choose(head), clean()}. */
export function makeOverview(place, found, { off, open, turn }) {
  const tiles = found.maps.map((map) => makeTile(map, found, { off: off.includes(map.head), open, turn }));
  const kinds = Object.keys(KINDS).filter((kind) => tiles.some((tile) => tile.kind === kind));
  place.append(...kinds.map((kind) => gridOf(kind, tiles.filter((tile) => tile.kind === kind))));
  let lit = new Set();
  let tone = "";
  const draw = () => tiles.forEach((tile) => tile.draw(lit, tone));
  const prepare = () => {
    const shades = makeShades();
    tone = getComputedStyle(place).getPropertyValue("--c2");
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
  const attributes = { tabindex: "-1", "data-head": head };
  const size = SIDE * Math.min(2, window.devicePixelRatio || 1);
  const canvas = h("canvas", { width: size, height: size, "aria-hidden": "true" });
  const button = h("button.tile-button", { id: `head-${head}`, "aria-label": off ? `${head}, off` : head, title: head, onclick: () => open(head), ...attributes }, canvas);
  const power = h("button.power", {
    id: `power-${head}`, role: "switch", "aria-checked": String(!off), "aria-label": `${head} on`,
    title: off ? "Switch on (o)" : "Switch off (o)", onclick: () => turn(head), ...attributes,
  });
  const node = h(off ? "div.tile.off" : "div.tile", { role: "gridcell" }, button, h("span.foot", h("span.name", off ? "off" : index), power));
  let image = null;
  return {
    head, kind, layer, index, node, button, power,
    prepare(shades) {
      image = imageOf(maxPooled(map, size), shades);
    },
    draw(lit, tone) {
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(image, 0, 0, size, size);
      context.fillStyle = context.strokeStyle = tone;
      context.globalAlpha = 0.75;
      const [height, width] = [size / sides.rows.pieces.length, size / sides.columns.pieces.length];
      for (const row of litIndices(sides.rows, lit)) frame(context, 0, row * height, size, height);
      for (const column of litIndices(sides.columns, lit)) frame(context, column * width, 0, width, size);
      context.globalAlpha = 1;
    },
    choose(chosen) {
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = power.tabIndex = chosen ? 0 : -1;
    },
  };
}

/** Draw the edges of a row or column, or all of it if it is as thin as they are. */
function frame(context, x, y, width, height) {
  if (Math.min(width, height) < 3) context.fillRect(x, y, Math.max(1, width), Math.max(1, height));
  else context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

function gridOf(kind, tiles) {
  const layers = [...new Set(tiles.map((tile) => tile.layer))];
  const rows = layers.map((layer) => h("div.layer-row", { role: "row" },
    h("span.name", { role: "rowheader" }, h("span.hidden", "layer "), layer), ...tiles.filter((tile) => tile.layer === layer).map((tile) => tile.node)));
  return h("section.card.heads-kind", h("h3", KINDS[kind]), note("layers down, heads across"),
    h("div.scroll", h("div", { role: "grid", "aria-label": `Heads of ${KINDS[kind].toLowerCase()}` }, ...rows)));
}

/** Arrow keys move between heads, over all grids; o switches one off or on. */
function move(event, tiles, turn) {
  const { head } = event.target.dataset;
  const at = tiles.findIndex((tile) => tile.head === head);
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const ofLayer = tiles.filter((tile) => tile.kind === tiles[at].kind && tile.layer === tiles[at].layer).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: ofLayer, ArrowUp: -ofLayer };
  const next = { Home: 0, End: tiles.length - 1 }[event.key] ?? at + (steps[event.key] ?? NaN);
  if (event.key === "o") turn(head);
  else if (tiles[next]) {
    for (const tile of tiles) tile.button.tabIndex = tile.power.tabIndex = tile === tiles[next] ? 0 : -1;
    tiles[next][event.target.classList.contains("power") ? "power" : "button"].focus();
  } else return;
  event.preventDefault();
}

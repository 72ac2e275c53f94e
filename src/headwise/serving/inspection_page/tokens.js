// Tokens as they are shown, and the one that is pointed at: wherever it stands in the
// page, it is lit.

import { h } from "./dom.js";

const lit = new Set();
const listeners = new Set();

/** Name a token: `side` is source or target. Position t of the decoder input is token
 *  t - 1 of the target, and position 0 the start symbol, target:-1. */
export function tokenId(side, index) {
  return side === "input" ? `target:${index - 1}` : `${side}:${index}`;
}

/** Write a piece so that its spaces can be seen. */
export function shown(piece) {
  return piece.replaceAll("\u2581", "\u00b7");
}

/** Make a token that lights up, and is pressed by pointer or key if `onpress` is given. */
export function token(side, index, piece, { onpress = null, pressed = null, ...attributes } = {}) {
  const id = tokenId(side, index);
  const shared = { "data-token": id, class: "token", dir: "auto", ...attributes };
  if (!onpress) return h("bdi", shared, shown(piece));
  return h("button", { "aria-pressed": pressed, onclick: onpress, ...shared }, shown(piece));
}

/** Call `listener(Set of token ids)` whenever other tokens are pointed at. Returns a
 *  function that ends it. */
export function onHover(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Light these tokens, and no others, wherever they stand. */
export function light(...ids) {
  if (ids.length === lit.size && ids.every((each) => lit.has(each))) return;
  for (const each of document.querySelectorAll(".token.lit")) each.classList.remove("lit");
  lit.clear();
  for (const id of ids) {
    lit.add(id);
    for (const each of document.querySelectorAll(`[data-token="${CSS.escape(id)}"]`)) each.classList.add("lit");
  }
  for (const listener of listeners) listener(lit);
}

/** Follow the pointer and the keyboard over all tokens of the page. */
export function followPointer(root = document) {
  const point = (event) => {
    const found = event.target instanceof Element && event.target.closest("[data-token]");
    if (found) light(found.dataset.token);
    else if (lit.size && event.type === "pointerover" && !event.target.closest("canvas")) light();
  };
  root.addEventListener("pointerover", point);
  root.addEventListener("focusin", point);
}

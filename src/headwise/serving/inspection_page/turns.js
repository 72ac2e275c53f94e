// Answers that take a while: the last question is the one that is answered.

import { h } from "./dom.js";

/** Show what `find` returns by `show`, or its error in `place`, unless `owner` took another
 *  turn of this name meanwhile. The old result stays, dimmed. Returns whether it was
 *  found, and null if it came too late. */
export async function inTurn(owner, name, place, find, show) {
  const turn = (owner[name] ?? 0) + 1;
  owner[name] = turn;
  place.classList.add("busy");
  place.setAttribute("aria-busy", "true");
  let [found, error] = [null, null];
  try {
    found = await find();
  } catch (caught) {
    error = caught;
  }
  if (turn !== owner[name]) return null;
  endTurn(owner, name, place);
  if (error) showProblem(place, error);
  else show(found);
  return error === null;
}

/** Let no answer come that is still under way. */
export function endTurn(owner, name, place) {
  owner[name] = (owner[name] ?? 0) + 1;
  place.classList.remove("busy");
  place.removeAttribute("aria-busy");
}

export function showProblem(place, error) {
  if (error.name !== "Error") console.error(error); // a mistake of the page
  place.replaceChildren(h("p.problem", { role: "alert" }, error.message));
}

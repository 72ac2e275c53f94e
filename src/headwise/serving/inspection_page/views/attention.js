// Attention: all heads, one head, one cell.

import { element } from "../dom.js";

export const attention = {
  name: "attention",
  title: "Attention",
  about: "What each position attends to: all heads, one head, one cell.",
  view: "attention",
  request: (state) => ({ text: state.text, target: state.target || null, max_side: 128 }),
  render(place, found) {
    place.append(element("p", {}, `${found.maps.length} heads`));
  },
};

// Attention: all heads as small multiples, one head as a matrix and as lines, one cell in
// numbers.

import { h } from "../dom.js";
import { share } from "../numbers.js";
import { note, numbers, piece } from "../parts.js";
import { base, switched } from "../state.js";
import { endTurn, inTurn } from "../turns.js";
import { cellOf } from "./attention_cell.js";
import { makeLines } from "./attention_lines.js";
import { KINDS, parsed, sidesOf, strongest } from "./attention_maps.js";
import { makeMatrix } from "./attention_matrix.js";
import { makeOverview } from "./attention_overview.js";
import { makePicture } from "./attention_picture.js";
import { rowEditor } from "./attention_row.js";

const OVERVIEW_SIDE = 128; // the most rows and columns of a map that is drawn small
const HEAD_SIDE = 4096; // and of one that is drawn large
const MOST_COLUMNS = 24; // of the table that has all weights

export const attention = {
  name: "attention",
  title: "Attention",
  about: "Where each head looks. Pick a head to see it large; the round switch below it, or the key o, switches it off.",
  view: "attention",
  local: ["head", "query", "key"],
  request: (state) => ({ ...base(state), max_side: OVERVIEW_SIDE }),
  saved: (state) => ({ ...base(state), ...(state.head ? { heads: [state.head] } : {}) }),
  render(place, found, context) {
    const screen = new Screen(place, found, context);
    screen.update(context.state);
    return { update: (state) => screen.update(state), clean: () => screen.clean() };
  },
};

/** The parts of the view, each of which is shown anew when what it shows changes. */
class Screen {
  constructor(place, found, context) {
    Object.assign(this, { found, context, state: context.state, head: null, map: null, parts: [] });
    const overview = h("div.overview");
    this.largePlace = h("section.large-head", { "aria-label": "One head" });
    this.cellPlace = h("section.card", { "aria-label": "One cell" });
    place.append(caution(context), overview, this.largePlace, this.cellPlace);
    this.turnHead = (head) => context.set(switched(this.state, head));
    this.overview = makeOverview(overview, found, { off: this.state.off, open: (head) => context.set({ head }), turn: this.turnHead });
  }

  update(state) {
    const before = this.state;
    this.state = state;
    const { maps } = this.found;
    const chosen = maps.find((map) => map.head === state.head) ?? maps.find((map) => parsed(map.head).kind === "cross") ?? maps[0];
    if (chosen.head !== this.head) {
      this.showHead(chosen);
      return;
    }
    this.updateParts();
    if (this.map && (before.query !== state.query || before.key !== state.key)) this.showCell();
  }

  showHead(small) {
    this.head = small.head;
    this.map = null;
    this.overview.choose(this.head);
    inTurn(this, "headTurn", this.largePlace, () => this.wholeMap(small), (map) => {
      this.map = map;
      this.drawHead();
    });
  }

  /** Return the map of a head without pooling, which the server is asked for if need be. */
  async wholeMap(small) {
    if (small.rowFactor * small.columnFactor === 1) return small;
    const found = await this.context.ask("attention", { ...base(this.state), heads: [small.head], max_side: HEAD_SIDE });
    return found.maps[0];
  }

  drawHead() {
    this.cleanParts();
    const { map, head, state, found, context } = this;
    const sides = sidesOf(found, head);
    const { kind, layer, index } = parsed(head);
    const ofPicture = found.patches && sides.columns.side === "source";
    const [matrix, lines, picture] = ["div.card", "div.card", "div.card"].map((each) => h(each));
    this.largePlace.replaceChildren(
      h("div.tools.title", h("h3", head), h("span.about", `${KINDS[kind]}, layer ${layer}, head ${index}`),
        h("button", { id: "turn-head", onclick: () => this.turnHead(head) }, state.off.includes(head) ? "Switch this head on" : "Switch this head off")),
      h("div.head-pair", matrix, h("div", lines, ofPicture ? picture : null)),
      weightNumbers(map, sides, head));
    // A query of the lines is chosen with the key that it attends to most.
    const pick = (query, key = strongest(map, query, 1)[0]?.index ?? 0) => context.set({ head, query, key });
    this.parts = [
      makeMatrix(matrix, map, sides, { pick, turn: () => this.turnHead(head) }),
      makeLines(lines, map, sides, { pick }),
      ...(ofPicture ? [makePicture(picture, map, sides, found.patches)] : []),
    ];
    this.updateParts();
    this.showCell();
  }

  showCell() {
    const { state: { query, key }, map, head, context } = this;
    if (query === null || key === null || query >= map.rows || key >= map.columns) {
      endTurn(this, "cellTurn", this.cellPlace);
      this.cellPlace.replaceChildren(note("Choose a cell of the matrix, or a query of the lines, to see its q·k in numbers, and to replace its row."));
      return;
    }
    const predicted = parsed(head).kind === "encoder" ? null : this.found.target[query];
    const ask = () => context.ask("word", { ...base(this.state), heads: [head], position: query });
    inTurn(this, "cellTurn", this.cellPlace, ask, (found) => {
      this.cellPlace.replaceChildren(cellOf(found, key, predicted), this.editor(query, key));
    });
  }

  editor(query, key) {
    const { map, head, state: { rows }, context } = this;
    const same = (row) => row.head === head && row.position === query;
    const replace = (weights) =>
      context.set({ rows: [...rows.filter((row) => !same(row)), ...(weights ? [{ head, position: query, weights }] : [])] });
    return rowEditor(map, sidesOf(this.found, head), { query, key, replaced: rows.some(same), replace });
  }

  clean() {
    endTurn(this, "headTurn", this.largePlace);
    endTurn(this, "cellTurn", this.cellPlace);
    this.cleanParts();
    this.overview.clean();
  }

  updateParts() {
    for (const part of this.parts) part.update(this.state);
  }

  cleanParts() {
    for (const part of this.parts) part.clean();
  }
}

function caution({ model, set }) {
  const more = model.views.includes("attribution")
    ? [" What the output owes to each word is under ", h("button.link", { onclick: () => set({ view: "attribution" }) }, "Attribution"), "."]
    : [];
  return h("p.caution", "Attention weights are not explanations: a head can look at a word that nothing then depends on.", ...more);
}

/** The weights as a table: all of few, the strongest of many. */
function weightNumbers(map, sides, head) {
  const name = (side, index) => piece(side.pieces[index]);
  if (map.columns <= MOST_COLUMNS) {
    const header = sides.columns.pieces.map((_, index) => name(sides.columns, index));
    return numbers(`The weights of ${head}`, ["query", ...header], map.rows, (row) =>
      [name(sides.rows, row), ...Array.from(map.weights.subarray(row * map.columns, (row + 1) * map.columns), share)]);
  }
  return numbers(`The greatest weights of ${head}`, ["query", "first", "second", "third"], map.rows, (row) =>
    [name(sides.rows, row), ...strongest(map, row, 3).map(({ index, weight }) => h("span", name(sides.columns, index), ` ${share(weight)}`))]);
}

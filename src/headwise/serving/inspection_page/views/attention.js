// Attention: all heads as small multiples, one head as a matrix and as lines, one cell in
// numbers.

import { element, table } from "../dom.js";
import { share } from "../numbers.js";
import { base, switched } from "../state.js";
import { shown } from "../tokens.js";
import { cellOf, whenOpened } from "./attention_cell.js";
import { makeLines } from "./attention_lines.js";
import { KINDS, parsed, sidesOf, strongest } from "./attention_maps.js";
import { makeMatrix } from "./attention_matrix.js";
import { makeOverview } from "./attention_overview.js";
import { rowEditor } from "./attention_row.js";

const OVERVIEW_SIDE = 128; // the most rows and columns of a map that is drawn small
const HEAD_SIDE = 4096; // and of one that is drawn large
const WHOLE_TABLE = 24; // the most rows and columns that the table has in full

export const attention = {
  name: "attention",
  title: "Attention",
  about: "Where each head looks: all heads, one of them, one of its weights. Pick a head to see it large; the round switch below it, or the key o, switches it off.",
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
    Object.assign(this, { found, context, state: context.state, head: null, map: null, turn: 0, cellTurn: 0 });
    const overview = element("div", { class: "overview" });
    this.largePlace = element("section", { class: "large-head", "aria-label": "One head" });
    this.cellPlace = element("section", { class: "card", "aria-label": "One cell", hidden: true });
    place.append(caution(context), overview, this.largePlace, this.cellPlace);
    this.overview = makeOverview(overview, found, {
      off: context.state.off,
      open: (head) => context.set({ head }),
      turn: (head) => context.set(switched(this.state, head)),
    });
  }

  update(state) {
    const before = this.state;
    this.state = state;
    const head = this.found.maps.some((map) => map.head === state.head) ? state.head : this.first();
    if (head !== this.head) {
      this.showHead(head);
      return;
    }
    this.lines?.update(state.query);
    this.matrix?.update(state);
    if (this.map && (before.query !== state.query || before.key !== state.key)) this.showCell();
  }

  /** The head that is shown if none was chosen. */
  first() {
    const { maps } = this.found;
    return (maps.find((map) => parsed(map.head).kind === "cross") ?? maps[0]).head;
  }

  async showHead(head) {
    this.head = head;
    this.overview.choose(head);
    const turn = ++this.turn;
    this.largePlace.classList.add("busy");
    try {
      const map = await this.wholeMap(head);
      if (turn !== this.turn) return;
      this.map = map;
      this.drawHead();
    } catch (error) {
      if (turn === this.turn) this.largePlace.replaceChildren(problem(error));
    } finally {
      if (turn === this.turn) this.largePlace.classList.remove("busy");
    }
  }

  /** Return the map of a head without pooling, which the server is asked for if need be. */
  async wholeMap(head) {
    const small = this.found.maps.find((map) => map.head === head);
    if (small.rowFactor * small.columnFactor === 1) return small;
    const body = { ...base(this.state), heads: [head], max_side: HEAD_SIDE };
    return (await this.context.ask("attention", body)).maps[0];
  }

  drawHead() {
    this.cleanHead();
    const { map, head, state, context } = this;
    const sides = sidesOf(this.found, head);
    const { kind, layer, index } = parsed(head);
    const off = state.off.includes(head);
    const [matrix, lines] = [element("div", { class: "card matrix-card" }), element("div", { class: "card" })];
    this.largePlace.replaceChildren(
      element("div", { class: "tools title" },
        element("h3", {}, head),
        element("span", { class: "about" }, `${KINDS[kind]}, layer ${layer}, head ${index}`),
        element("button", { type: "button", id: "turn-head", onclick: () => context.set(switched(this.state, head)) },
          off ? "Switch this head on" : "Switch this head off")),
      element("div", { class: "head-pair" }, matrix, lines),
      tableBehind(map, sides, head));
    this.matrix = makeMatrix(matrix, map, sides, { name: head, pick: (query, key) => context.set({ head, query, key }) });
    this.lines = makeLines(lines, map, sides, { pick: (query) => this.pickQuery(query) });
    matrix.addEventListener("keydown", (event) => {
      if (event.key === "o" && !event.ctrlKey && !event.metaKey && !event.altKey) context.set(switched(this.state, head));
    });
    this.lines.update(state.query);
    this.matrix.update(state);
    this.showCell();
  }

  /** Choose a query, with the key that it attends to most. */
  pickQuery(query) {
    const [best] = strongest(this.map, query, 1);
    this.context.set({ head: this.head, query, key: best?.index ?? 0 });
  }

  async showCell() {
    const { state, map, head, context } = this;
    const { query, key } = state;
    const turn = ++this.cellTurn;
    this.cellPlace.hidden = false;
    if (query === null || key === null || query >= map.rows || key >= map.columns) {
      this.cellPlace.replaceChildren(element("p", { class: "about" },
        "Choose a cell of the matrix, or a query of the lines, to see its q·k in numbers, and to replace its row."));
      return;
    }
    this.cellPlace.classList.add("busy");
    const parts = [];
    try {
      if (context.model.views.includes("word")) {
        const body = { ...base(state), heads: [head], position: query };
        const predicted = parsed(head).kind === "encoder" ? null : this.found.target[query];
        parts.push(cellOf(await context.ask("word", body), key, predicted));
      }
    } catch (error) {
      parts.push(problem(error));
    }
    if (turn !== this.cellTurn) return;
    this.cellPlace.classList.remove("busy");
    this.cellPlace.replaceChildren(...parts, this.editor(query, key));
  }

  editor(query, key) {
    const same = (row) => row.head === this.head && row.position === query;
    return rowEditor(this.map, sidesOf(this.found, this.head), {
      query, key, replaced: this.state.rows.some(same),
      replace: (weights) => {
        const others = this.state.rows.filter((row) => !same(row));
        const added = weights ? [{ head: this.head, position: query, weights }] : [];
        this.context.set({ rows: [...others, ...added] });
      },
    });
  }

  cleanHead() {
    this.matrix?.clean();
    this.lines?.clean();
  }

  clean() {
    this.turn += 1;
    this.cellTurn += 1;
    this.cleanHead();
    this.overview.clean();
  }
}

function caution({ model, set }) {
  const more = model.views.includes("attribution")
    ? [" What the output owes to each word is under ", element("button", { type: "button", class: "link", onclick: () => set({ view: "attribution" }) }, "Attribution"), "."]
    : [];
  return element("p", { class: "caution" }, "Attention weights are not explanations: a head can look at a word that nothing then depends on.", ...more);
}

function problem(error) {
  return element("p", { class: "problem", role: "alert" }, error.message);
}

/** The weights as a table: all of few, the strongest of many. */
function tableBehind(map, sides, head) {
  const whole = map.rows <= WHOLE_TABLE && map.columns <= WHOLE_TABLE;
  const piece = (side, index) => element("bdi", { dir: "auto" }, shown(side.pieces[index]));
  const row = (query) => (whole
    ? Array.from(map.weights.subarray(query * map.columns, (query + 1) * map.columns), share)
    : strongest(map, query, 3).map(({ index, weight }) => element("span", {}, piece(sides.columns, index), ` ${share(weight)}`)));
  return whenOpened(whole ? "The weights as a table" : "The three greatest weights of each query as a table", () => {
    const header = whole ? sides.columns.pieces.map((_, index) => piece(sides.columns, index)) : ["first", "second", "third"];
    const rows = Array.from({ length: map.rows }, (_, query) => [piece(sides.rows, query), ...row(query)]);
    return table(`Weights of ${head}`, ["query", ...header], rows);
  });
}

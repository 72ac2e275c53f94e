// Activation patching: which heads and layers carry the difference of two sentences.

import { h } from "../dom.js";
import { heatMap, nameAxis, tokenAxis } from "../heat.js";
import { percent, signed } from "../numbers.js";
import { bars, matrixNumbers, note, numbers, panel, piece } from "../parts.js";
import { changes } from "../state.js";
import { shown, token } from "../tokens.js";

const FIELDS = {
  text: "Text",
  donor: "Donor: the same sentence but for a word",
  target: "Output up to the word in question, as the donor has it",
  other: "The same with the other word",
};
const NAMES = Object.keys(FIELDS);

export const patch = {
  name: "patch",
  title: "Patching",
  about: "Activations of the run on one sentence are put into the run on another, one at a time: how much of the difference does each carry?",
  view: "patch",
  needs: "Fill in two texts that differ in a word, and the two outputs that fit them.",
  request: (state) => (NAMES.every((name) => state[name]) ? { ...chosen(state), changes: changes(state) } : null),
  form,
  render(place, found, context) {
    const best = everyPatch(found);
    place.append(
      form(context),
      h("div.card", h("p.said", ...verdict(found, best[0])),
        note("ln p(", piece(found.answers[0]), ") − ln p(", piece(found.answers[1]),
          `) is ${signed(found.source_difference, 2)} of the text and ${signed(found.donor_difference, 2)} of the donor. A head that carries 100% moves it all the way from the text to the donor by itself.`)),
      h("div.panels", map("Encoder", found, "encoder", sourceAxis(found)), map("Decoder", found, "decoder", tokenAxis("input", found.decoder_input)), bestList(best.slice(0, 12), found, context)),
      numbers("Every patch of a head, the largest first", ["head", "position", "token", "carries"], best.length, (i) =>
        [best[i].head, best[i].position, tokenOf(found, best[i]), percent(best[i].carried)]));
  },
};

const chosen = (values) => Object.fromEntries(NAMES.map((name) => [name, String(values[name] ?? "").trim()]));

function form({ state, set, model }) {
  const submit = (event) => {
    event.preventDefault();
    set(chosen(Object.fromEntries(new FormData(event.target))));
  };
  const examples = (model.examples ?? []).filter((each) => NAMES.every((name) => each[name]));
  return h("form.fields", { onsubmit: submit },
    ...NAMES.map((name) => h("label.field", h("span", FIELDS[name]), h("input", { name, value: state[name], dir: "auto", required: true }))),
    h("p.tools", h("button", { type: "submit", id: "patch-run" }, "Patch"),
      ...examples.map((each, index) => h("button.plain", { onclick: () => set(chosen(each)), title: each.text }, `Example ${index + 1}`))),
    note("Both texts need the same number of tokens, and both outputs are the same up to one word: the one in question."));
}

/** Return every patch of a head as an object, the one that carries most first. */
function everyPatch(found) {
  return found.heads.flatMap(({ head, carried }) => carried.map((each, position) => ({ head, position, carried: each })))
    .sort((one, other) => other.carried - one.carried);
}

function verdict(found, best) {
  const where = [`${best.head} at position ${best.position}, `, tokenOf(found, best)];
  return best.carried > 0.5
    ? ["One head carries most of it: ", ...where, `, ${percent(best.carried)} by itself.`]
    : ["No single head carries it: the best, ", ...where, `, carries ${percent(best.carried)}.`];
}

const stackOf = (head) => (head.startsWith("encoder") ? "encoder" : "decoder");

function tokenOf(found, { head, position }) {
  return stackOf(head) === "encoder" ? token("source", position, found.source[position]) : token("input", position, found.decoder_input[position]);
}

/** The source; where the sentences differ, both tokens are written. */
function sourceAxis(found) {
  const label = (s) => {
    const [ours, theirs] = [found.source[s], found.donor[s]];
    return ours === theirs ? token("source", s, ours) : token("source", s, `${ours}/${theirs}`, { class: "token differs", title: `${shown(ours)}/${shown(theirs)}` });
  };
  return { ...tokenAxis("source", found.source), label };
}

function map(title, found, stack, columns) {
  const rows = [
    ...found.heads.filter((each) => stackOf(each.head) === stack).map((each) => [each.head, each.carried]),
    ...found.layers.filter((each) => each.stack === stack).map((each) => [`whole layer ${each.layer}`, each.carried]),
  ];
  const axis = nameAxis(rows.map(([name]) => name));
  const carried = (row, at) => percent(rows[row][1][at]);
  return panel(`${title}: heads and whole layers`, `What each carries at each position of the ${stack === "encoder" ? "source" : "decoder input"}. Orange works against it.`,
    heatMap({
      label: `${title}: share carried by head and position`, rows: axis, columns, largest: 1, value: (row, at) => rows[row][1][at],
      write: (row, at) => `${axis.name(row)} at ${columns.name(at)}: ${carried(row, at)}`,
    }),
    matrixNumbers(`Numbers: ${title.toLowerCase()}`, "patched", axis, columns, carried));
}

function bestList(best, found, { set }) {
  return panel("The heads that carry most", "Press one to see what it attends to.", bars(best.map((each) => [each.carried, {
    "aria-label": `${each.head} at position ${each.position} carries ${percent(each.carried)}: show its attention`,
    onclick: () => set({ view: "attention", head: each.head, query: each.position }),
  }, [h("span", each.head), tokenOf(found, each)], percent(each.carried)])));
}

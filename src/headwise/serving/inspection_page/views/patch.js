// Activation patching: which heads and layers carry the difference of two sentences.

import { element } from "../dom.js";
import { heatMap, nameAxis, tokenAxis } from "../heat.js";
import { percent, signed } from "../numbers.js";
import { bar, field, matrixNumbers, note, numbers, panel } from "../parts.js";
import { changes } from "../state.js";
import { shown, token } from "../tokens.js";

const FIELDS = [
  ["text", "Text"],
  ["donor", "Donor: the same sentence but for a word"],
  ["target", "Output up to the word in question, as the donor has it"],
  ["other", "The same with the other word"],
];

export const patch = {
  name: "patch",
  title: "Patching",
  about: "Activations of the run on one sentence are put into the run on another, one at a time: how much of the difference does each carry?",
  view: "patch",
  needs: "Fill in two texts that differ in a word, and the two outputs that fit them.",
  request: (state) => (FIELDS.every(([name]) => state[name])
    ? { text: state.text, donor: state.donor, target: state.target, other: state.other, changes: changes(state) } : null),
  form: patchForm,
  render(place, found, context) {
    const [ours, theirs] = found.answers.map(shown);
    const best = everyPatch(found);
    place.append(
      patchForm(context),
      element("div", { class: "card" },
        element("p", { class: "said" }, verdict(best[0])),
        note("ln p(", bdi(ours), ") \u2212 ln p(", bdi(theirs), `) is ${signed(found.source_difference, 2)} of the text and ${signed(found.donor_difference, 2)} of the donor. `,
          "A head that carries 100% moves it all the way from the text to the donor by itself.")),
      element("div", { class: "panels" }, ...headMaps(found), bestList(best.slice(0, 12), found, context)),
      numbers("Every patch of a head, the largest first", ["head", "position", "token", "carries"], best.length, (i) => {
        const { name, position, carried } = best[i];
        return [name, position, pieceAt(found, name, position), percent(carried)];
      }));
  },
};

function bdi(text) {
  return element("bdi", { dir: "auto" }, text);
}

function verdict({ name, position, piece, carried }) {
  const where = [`${name} at position ${position}, `, bdi(shown(piece))];
  return carried > 0.5
    ? element("span", {}, "One head carries most of it: ", ...where, `, ${percent(carried)} by itself.`)
    : element("span", {}, "No single head carries it: the best, ", ...where, `, carries ${percent(carried)}.`);
}

export function patchForm({ state, set, model }) {
  const fill = (values) => set(Object.fromEntries(FIELDS.map(([name]) => [name, String(values[name] ?? "").trim() || null])));
  const submit = (event) => {
    event.preventDefault();
    fill(Object.fromEntries(new FormData(event.target)));
  };
  const examples = (model.examples ?? []).filter((each) => FIELDS.every(([name]) => each[name]));
  return element("form", { class: "fields", onsubmit: submit },
    ...FIELDS.map(([name, label]) => field(label, name, state[name], { required: true })),
    element("p", { class: "line" }, element("button", { type: "submit", id: "patch-run" }, "Patch"),
      ...examples.map((each, index) => element("button", { type: "button", class: "plain", onclick: () => fill(each), title: each.text },
        examples.length > 1 ? `Example ${index + 1}` : "Fill in the example"))),
    note("Both texts need the same number of tokens, and both outputs are the same up to one word: the one in question."));
}

/** Return every patch of a head as an object, the one that carries most first. */
function everyPatch(found) {
  return found.heads.flatMap(({ head, carried }) => carried.map((each, position) =>
    ({ name: head, position, carried: each, piece: pieces(found, head)[position] })))
    .sort((one, another) => another.carried - one.carried);
}

const isOfEncoder = (name) => name.startsWith("encoder");
const pieces = (found, name) => (isOfEncoder(name) ? found.source : found.decoder_input);
const pieceAt = (found, name, position) => token(isOfEncoder(name) ? "source" : "input", position, pieces(found, name)[position]);

function headMaps(found) {
  const source = tokenAxis("source", found.source);
  source.label = (s) => sourceLabel(found, s);
  const stacks = [
    ["Encoder", source, isOfEncoder, "encoder"],
    ["Decoder", tokenAxis("input", found.decoder_input), (name) => !isOfEncoder(name), "decoder"],
  ];
  return stacks.map(([title, columns, belongs, stack]) => {
    const rows = [
      ...found.heads.filter((each) => belongs(each.head)).map((each) => [each.head, each.carried]),
      ...found.layers.filter((each) => each.stack === stack).map((each) => [`whole layer ${each.layer}`, each.carried]),
    ];
    if (!rows.length) return null;
    const axis = nameAxis(rows.map(([name]) => name));
    return panel(`${title}: heads and whole layers`, `What each carries at each position ${stack === "encoder" ? "of the source" : "of the decoder input"}. Orange works against it.`,
      heatMap({
        label: `${title}: share carried by head and position`, rows: axis, columns, largest: 1, value: (row, at) => rows[row][1][at],
        write: (row, at) => `${axis.name(row)} at ${columns.name(at)}: ${percent(rows[row][1][at])}`,
      }),
      matrixNumbers(`Numbers: ${title.toLowerCase()}`, "patched", axis, columns, (row, at) => percent(rows[row][1][at])));
  });
}

/** Where the sentences differ, both tokens are written. */
function sourceLabel(found, s) {
  const [ours, theirs] = [found.source[s], found.donor[s]];
  const differs = ours !== theirs;
  return token("source", s, differs ? `${ours}/${theirs}` : ours, { title: shown(ours), class: differs ? "token differs" : "token" });
}

function bestList(best, found, { set }) {
  return panel("The heads that carry most", "Press one to see what it attends to.",
    element("ol", { class: "bars" }, ...best.map(({ name, position, carried }) => element("li", {},
      bar(carried, {
        tag: "button", type: "button", "aria-label": `${name} at position ${position} carries ${percent(carried)}: show its attention`,
        onclick: () => set({ view: "attention", head: name, query: position }),
      }, element("span", {}, name), pieceAt(found, name, position), element("span", { class: "p" }, percent(carried)))))));
}

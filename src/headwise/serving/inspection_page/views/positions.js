// Positional encodings as a picture, beside the binary counter that they resemble.

import { element } from "../dom.js";
import { channels, heatMap, nameAxis, tokenAxis } from "../heat.js";
import { signed } from "../numbers.js";
import { choice, matrixNumbers, note, numbers, panel } from "../parts.js";
import { base } from "../state.js";

const WIDTH = 768;

const KINDS = {
  sinusoidal: "sine and cosine in turn",
  sinusoidal_halves: "sines, then cosines",
  learned: "learned",
  rotary: "sines and cosines of the angles by which queries and keys are rotated",
};

export const positions = {
  name: "positions",
  title: "Positions",
  about: "What is added to the embedding at each position, so that the model can tell the order of words.",
  view: "positions",
  needs: "Write a text above.",
  request: base,
  render(place, found, context) {
    const { encodings, wavelengths } = found;
    if (!encodings.length) {
      place.append(note("This model adds no positional encodings."));
      return;
    }
    const side = context.state.beside === "target" && found.decoder_input.length ? "input" : "source";
    const pieces = side === "source" && found.source.length ? found.source : found.decoder_input;
    const rows = rowsOf(side, pieces, encodings.length);
    const columns = channels(encodings[0].length);
    const write = (at, channel) => `${rows.name(at)}, channel ${channel}: ${signed(encodings[at][channel], 4)}${wavelengths ? `, wavelength ${period(wavelengths[channel])}` : ""}`;
    place.append(element("div", { class: "positions-view" },
      found.source.length && found.decoder_input.length
        ? choice("Tokens beside the positions", [["source", "source"], ["target", "decoder input"]], side === "source" ? "source" : "target", (beside) => context.set({ beside }))
        : null,
      element("div", { class: "panels" },
        panel(`Encodings: ${KINDS[found.kind] ?? found.kind}`, "Rows are positions, columns channels. Blue is above 0, orange below.",
          heatMap({
            label: "Positional encodings: positions by channels", rows, columns, write,
            value: (at, channel) => encodings[at][channel], wide: Math.max(2, Math.min(18, Math.floor(WIDTH / columns.count))),
          }),
          matrixNumbers("Numbers: encodings", "position", rows, columns, (at, channel) => signed(encodings[at][channel], 4))),
        counter(rows, found.binary)),
      wavelengths ? waves(wavelengths) : note("These encodings were learned: there are no wavelengths.")));
  },
};

/** Rows are tokens as far as there are any, and then bare positions. */
function rowsOf(side, pieces, count) {
  const axis = tokenAxis(side, pieces);
  const isToken = (at) => at < pieces.length;
  return {
    count,
    id: (at) => (isToken(at) ? axis.id(at) : null),
    name: (at) => (isToken(at) ? axis.name(at) : `position ${at}`),
    label: (at) => (isToken(at) ? axis.label(at) : element("span", {}, at)),
  };
}

function counter(rows, binary) {
  const bit = (at, column) => binary[at][column];
  const columns = nameAxis(binary[0].map((_, column) => String(2 ** column)));
  return panel("A binary counter", "The same positions as binary numbers, the lowest bit first: it changes at every position, the next at every second, and so on. Sines do the same smoothly.",
    heatMap({
      label: "Binary counter: positions by bits", rows, columns, value: bit, largest: 1, tone: "--c4",
      write: (at, column) => `position ${at}, bit of ${2 ** column}: ${bit(at, column)}`,
    }),
    matrixNumbers("Numbers: binary counter", "position", rows, columns, bit));
}

function period(length) {
  return length >= 1000 ? Math.round(length).toLocaleString("en") : length.toFixed(1);
}

function waves(wavelengths) {
  const every = wavelengths.map((length, channel) => [channel, length]).filter((_, channel) => channel % 2 === 0);
  const [shortest, longest] = [every[0][1], every.at(-1)[1]];
  return element("div", {},
    note(`Wavelengths grow from ${period(shortest)} positions in the first pair of channels (a sine and a cosine) to ${period(longest)} in the last.`),
    numbers("Wavelengths", ["channels", "wavelength, in positions"], every.length, (i) => [`${every[i][0]} and ${every[i][0] + 1}`, period(every[i][1])]));
}

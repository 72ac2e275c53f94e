// Positional encodings as a picture, beside the binary counter that they resemble.

import { h } from "../dom.js";
import { channels, heatMap, limited, nameAxis, tokenAxis } from "../heat.js";
import { signed } from "../numbers.js";
import { choice, matrixNumbers, note, numbers, panel } from "../parts.js";
import { base } from "../state.js";

const WIDTH = 768;

const KINDS = {
  sinusoidal: "sine and cosine in turn",
  sinusoidal_halves: "sines, then cosines",
  rotary: "sines and cosines of the angles by which queries and keys are rotated",
};

export const positions = {
  name: "positions",
  title: "Positions",
  about: "What tells the model the order of words: a vector for each position.",
  view: "positions",
  request: base,
  render(place, found, context) {
    const isTarget = found.decoder_input.length > 0 && (context.state.beside === "target" || !found.source.length);
    const encodings = (isTarget && found.decoder_encodings) || found.encodings;
    if (!encodings.length) {
      place.append(note("This model has no positional encodings."));
      return;
    }
    const rows = isTarget ? rowsOf("input", found.decoder_input, encodings) : rowsOf("source", found.source, encodings);
    place.append(
      found.source.length && found.decoder_input.length
        ? choice("Tokens beside the positions", [["source", "source"], ["target", "decoder input"]], isTarget ? "target" : "source", (beside) => context.set({ beside }))
        : "",
      h("div.panels", picture(found, encodings, rows), counter(found.binary, rows)),
      ...waves(found.wavelengths));
  },
};

function picture({ kind, wavelengths }, encodings, rows) {
  const columns = channels(encodings[0].length);
  const wave = (channel) => (wavelengths ? `, wavelength ${period(wavelengths[channel])}` : "");
  return panel(`Encodings: ${KINDS[kind] ?? kind}`, "Rows are positions, columns channels. Blue is above 0, orange below.",
    heatMap({
      label: "Positional encodings: positions by channels", rows, columns, value: (at, channel) => encodings[at][channel],
      write: (at, channel) => `${rows.name(at)}, channel ${channel}: ${signed(encodings[at][channel], 4)}${wave(channel)}`, wide: limited(Math.floor(WIDTH / columns.count), 2, 18),
    }),
    matrixNumbers("Numbers: encodings", "position", rows, columns, (at, channel) => signed(encodings[at][channel], 4)));
}

/** Rows are tokens as far as there are any, and then bare positions. */
function rowsOf(side, pieces, encodings) {
  const axis = tokenAxis(side, pieces);
  const either = (token, other) => (at) => (at < pieces.length ? token(at) : other(at));
  return {
    count: encodings.length,
    id: either(axis.id, () => null),
    name: either(axis.name, (at) => `position ${at}`),
    label: either(axis.label, (at) => h("span", at)),
  };
}

function counter(binary, rows) {
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
  if (!wavelengths) return [note("These encodings were learned: there are no wavelengths.")];
  const [shortest, longest] = [Math.min(...wavelengths), Math.max(...wavelengths)].map(period);
  return [note(`Wavelengths grow from ${shortest} positions to ${longest}; each is that of two channels, a sine and a cosine.`),
    numbers("Wavelengths", ["channel", "wavelength, in positions"], wavelengths.length, (channel) => [channel, period(wavelengths[channel])])];
}

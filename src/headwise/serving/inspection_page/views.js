// The views of the page, in the order of their tabs. A new view is one module and one
// line.

import { attention } from "./views/attention.js";
import { attribution } from "./views/attribution.js";
import { beam } from "./views/beam.js";
import { embeddings } from "./views/embeddings.js";
import { lens } from "./views/lens.js";
import { model } from "./views/model.js";
import { output } from "./views/output.js";
import { patch } from "./views/patch.js";
import { positions } from "./views/positions.js";
import { word } from "./views/word.js";

export const VIEWS = [attention, output, attribution, beam, word, lens, patch, model, positions, embeddings];

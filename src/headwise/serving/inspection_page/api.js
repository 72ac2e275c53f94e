// Questions to the server that serves this page, and their answers; of a page that was
// saved, the answers that were saved with it.

const MAX_KEPT_BYTES = 200 * 2 ** 20;

const NOT_RECORDED = "This saved page has no answer to that. Serve the model with headwise inspect FOLDER --serve to ask.";

const embedded = document.getElementById("snapshot");
const snapshot = embedded ? JSON.parse(embedded.textContent) : null;

/** Whether this page was saved, so that there is no server to ask. */
export const isSnapshot = snapshot !== null;

/** The state that a saved page begins with. */
export const savedState = snapshot ? snapshot.state : {};

const kept = new Map(); // the last one used is the last
const inUse = new Map();
const recorded = snapshot ? snapshot.answers : [];

/** What a request may leave out of an answer; of attention alone, heads. */
const AMOUNTS = ["count", "norms", "rollout", "kinds", "max_side"];

/** Return what is known of the model. */
export async function model() {
  if (snapshot) return snapshot.model;
  return (await fetched("model")).json();
}

/** Whether an answer will come without the server: always, unless this page was saved. */
export function canAnswer(view, request) {
  return !isSnapshot || recordedAnswer(view, request) !== null;
}

/** Return the answer of a view to a request; of attention, what `decodeAttention` returns.
 *  Throws an `Error` whose message is for people. */
export async function ask(view, request) {
  const key = keyOf(view, request);
  inUse.set(key, { view, request });
  const old = kept.get(key);
  if (old) {
    kept.delete(key);
    kept.set(key, old);
    return old.answer;
  }
  const entry = { answer: null, bytes: 0 };
  entry.answer = answerOf(view, request, entry);
  kept.set(key, entry);
  try {
    return await entry.answer;
  } catch (error) {
    kept.delete(key); // it may be answered another time
    inUse.delete(key);
    throw error;
  }
}

/** Forget which answers are shown: a page that is saved has those asked for since. */
export function forgetShown() {
  inUse.clear();
}

/** Save the answer to a request as a file: json, svg or png; or the page as html. */
export async function download(view, request, format, { state = {}, name = "headwise" } = {}) {
  const file = `${name}-${view}.${format}`;
  if (format === "json") {
    const answer = await ask(view, request);
    const content = view === "attention" ? attentionAsLists(answer) : answer;
    save(new Blob([JSON.stringify(content)], { type: "application/json" }), file);
    return;
  }
  if (isSnapshot) throw new Error(NOT_RECORDED);
  const response = format === "html"
    ? await post("snapshot", { requests: [...inUse.values()], state })
    : await post(`${view}.${format}`, request);
  save(await response.blob(), file);
}

/** Hand a file to the browser, to be saved. */
export function save(blob, file) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Decode attention: the length of a header as uint32, the header as JSON, then float32.
 *  Returns the header and `maps`, a list of {head, rows, columns, rowFactor, columnFactor,
 *  weights, norms?}, whose numbers are row after row. Factors are how many positions each
 *  row or column stands for. */
function decodeAttention(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const maps = new Map();
  for (const { head, what, rows, columns, offset, row_factor = 1, column_factor = 1 } of header.arrays) {
    if (head === null) continue; // the rollout, which belongs to no head
    const found = maps.get(head) ?? { head, rows, columns, rowFactor: row_factor, columnFactor: column_factor };
    found[what] = new Float32Array(buffer, 4 + length + 4 * offset, rows * columns);
    maps.set(head, found);
  }
  const { arrays, ...texts } = header;
  return { ...texts, maps: [...maps.values()] };
}

async function answerOf(view, request, entry) {
  if (isSnapshot) {
    const found = recordedAnswer(view, request);
    if (!found) throw new Error(NOT_RECORDED);
    return view === "attention" ? mapsAsked(decodeAttention(bytesOf(found.base64)), request) : found;
  }
  const response = await post(view, request);
  if (view === "attention") {
    const buffer = await response.arrayBuffer();
    remember(entry, buffer.byteLength);
    return decodeAttention(buffer);
  }
  const content = await response.text();
  remember(entry, 2 * content.length);
  return JSON.parse(content);
}

/** Return what was recorded of a request, or of one that is the same but for how much it
 *  asks for; null if there is nothing. */
function recordedAnswer(view, request) {
  const left = view === "attention" ? [...AMOUNTS, "heads"] : AMOUNTS;
  const question = (body) => keyOf(view, Object.fromEntries(Object.entries(body).filter(([key]) => !left.includes(key))));
  const like = (name) => recorded.find((each) => each.view === view && name(each.request) === name(request));
  return (like((body) => keyOf(view, body)) ?? like(question))?.answer ?? null;
}

/** Keep the maps of the heads that were asked for, all of which must be there. */
function mapsAsked(found, { heads }) {
  if (!heads) return found;
  const maps = found.maps.filter((map) => heads.includes(map.head));
  if (maps.length < heads.length) throw new Error(NOT_RECORDED);
  return { ...found, maps };
}

/** Count what an answer takes, and drop the oldest ones beyond the limit. */
function remember(entry, bytes) {
  entry.bytes = bytes;
  let sum = [...kept.values()].reduce((total, each) => total + each.bytes, 0);
  for (const [key, each] of kept) {
    if (sum <= MAX_KEPT_BYTES) return;
    if (each !== entry) kept.delete(key);
    sum -= each.bytes;
  }
}

function post(path, body) {
  return fetched(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function fetched(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new Error("The server does not answer. Is headwise inspect --serve still running?");
  }
  if (response.ok) return response;
  const content = await response.json().catch(() => null);
  throw new Error(content?.error?.message ?? `The server answered ${response.status} ${response.statusText}.`);
}

/** Name a request: keys sorted, and without what is a default anyway. */
function keyOf(view, request) {
  return `${view} ${JSON.stringify(canonical(request))}`;
}

function canonical(value) {
  if (Array.isArray(value)) return value.map(canonical);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(([, each]) => !isDefault(each));
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, each]) => [key, canonical(each)]));
}

function isDefault(value) {
  return value === undefined || ["null", '""', "false", "[]", "{}"].includes(JSON.stringify(value));
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (each) => each.charCodeAt(0)).buffer;
}

function attentionAsLists({ maps, ...texts }) {
  const lists = ({ rows, columns, weights }) =>
    Array.from({ length: rows }, (_, row) => [...weights.subarray(row * columns, (row + 1) * columns)]);
  return { ...texts, maps: maps.map((map) => ({ head: map.head, weights: lists(map) })) };
}

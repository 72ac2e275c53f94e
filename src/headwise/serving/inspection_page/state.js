// What is looked at, and how the model is changed. All of it stands in the address of the
// page, so that a link restores it.

const text = { empty: "", read: (value) => value, write: (value) => value };
const number = { empty: null, read: (value) => (/^\d+$/.test(value) ? Number(value) : null), write: String };
const list = { empty: [], read: (value) => [...new Set(value.split(",").filter(Boolean))], write: (value) => value.join(",") };
const rows = { empty: [], read: readRows, write: writeRows };

/** The keys of the state, in the order in which an address has them. A view may add its
 *  own; a key of an address that is not here is ignored. */
export const KEYS = {
  text, target: text, prefix: text, view: text, head: text, query: number, key: number,
  off: list, noResidual: list, rows, donor: text, other: text, kind: text, level: text,
  position: number, count: number, beam: number, beside: text, hideDropped: text,
};

/** Keys that say a place in a text, and mean nothing in another. */
const PLACES = ["query", "key", "position", "rows"];

/** Keys that make no entry in the history of the browser. */
const FLEETING = new Set(["query", "key", "kind", "level"]);

const listeners = new Set();
let state = empty();

export function get() {
  return state;
}

/** Change some keys; undefined or null resets one. Listeners hear which are different. */
export function set(changes) {
  const next = { ...state };
  if ((changes.text ?? state.text) !== state.text) for (const key of PLACES) next[key] = KEYS[key].empty;
  for (const [key, value] of Object.entries(changes)) {
    if (!(key in KEYS)) throw new Error(`the state has no key ${key}; add it to KEYS`);
    next[key] = value ?? KEYS[key].empty;
  }
  const different = differing(state, next);
  if (different.length === 0) return;
  state = next;
  const address = `#${toAddress(state)}`;
  if (different.every((key) => FLEETING.has(key))) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  tell(different);
}

/** Call `listener(state, names of the keys that changed)`. Returns a function that ends it. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Take the state of the address, or `otherwise` if the address has none, and follow the
 *  address from then on. */
export function start(otherwise = {}) {
  const given = location.hash.length > 1 ? fromAddress(location.hash) : otherwise;
  state = { ...empty(), ...given };
  window.addEventListener("popstate", () => {
    const next = fromAddress(location.hash);
    const different = differing(state, next);
    state = next;
    if (different.length) tell(different);
  });
}

/** The changes of the model, as the server takes them. */
export function changes(of) {
  return [
    ...of.off.map((name) => ({ off: name })),
    ...of.noResidual.map((name) => ({ no_residual: name })),
    ...of.rows.map((row) => ({ row })),
  ];
}

/** What every question to the server has: the text, its target, and the changes. */
export function base(of) {
  const body = { text: of.text, target: of.target, prefix: of.prefix, changes: changes(of) };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value.length));
}

/** Switch a head or a sublayer off, or on again. */
export function switched(of, name) {
  const others = of.off.filter((each) => each !== name);
  return { off: others.length < of.off.length ? others : [...others, name] };
}

function toAddress(of) {
  const given = Object.entries(KEYS).filter(([key]) => of[key] !== null && of[key].length !== 0);
  return new URLSearchParams(given.map(([key, kind]) => [key, kind.write(of[key])])).toString();
}

function fromAddress(hash) {
  const found = empty();
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (Object.hasOwn(KEYS, key)) found[key] = KEYS[key].read(value);
  }
  return found;
}

function empty() {
  return Object.fromEntries(Object.entries(KEYS).map(([key, kind]) => [key, kind.empty]));
}

function differing(one, other) {
  return Object.keys(KEYS).filter((key) => JSON.stringify(one[key]) !== JSON.stringify(other[key]));
}

function tell(different) {
  for (const listener of [...listeners]) listener(state, different);
}

/** Read rows of weights, each HEAD@POSITION=INDEX:WEIGHT,INDEX:WEIGHT and without its
 *  zeros; what is no such row is left out. */
function readRows(value) {
  return value.split(";").flatMap((each) => {
    const found = /^([a-z]+\.\d+\.\d+)@(\d+)=(.+)$/.exec(each);
    if (!found) return [];
    const pairs = found[3].split(",").map((pair) => pair.split(":").map(Number));
    const sound = ([index, weight]) => Number.isInteger(index) && index >= 0 && index < 100_000 && weight >= 0;
    if (!pairs.every(sound)) return [];
    const weights = new Array(Math.max(...pairs.map(([index]) => index)) + 1).fill(0);
    for (const [index, weight] of pairs) weights[index] = weight;
    return [{ head: found[1], position: Number(found[2]), weights }];
  });
}

function writeRows(value) {
  return value.map(({ head, position, weights }) => {
    const pairs = weights.flatMap((weight, index) => (weight > 0 ? [`${index}:${weight}`] : []));
    return `${head}@${position}=${pairs.join(",")}`;
  }).join(";");
}

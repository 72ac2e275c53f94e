// Numbers as they are shown.

/** A probability or weight: 0.93, 0.0012, exactly 0 as 0. */
export function share(value) {
  if (value === 0) return "0";
  return value >= 0.01 ? value.toFixed(3) : value.toPrecision(2);
}

/** A logarithm, a score or a component of a vector; null is the -inf of a masked one. */
export function signed(value, digits = 3) {
  return value === null ? "\u2212\u221e" : value.toFixed(digits).replace("-", "\u2212");
}

export function percent(value) {
  return `${(100 * value).toFixed(1)}%`.replace("-", "\u2212");
}

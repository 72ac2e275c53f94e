// Two texts word by word: what both have, and what only one of them has.

const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** Return two lists of words as {text, same}, of the one text and of the other. Words are
 *  those of Unicode, so that texts without spaces have some too; spaces go with the word
 *  before. */
export function wordDifference(one, other) {
  const [left, right] = [words(one), words(other)];
  const shared = sharedWords(...[left, right].map((list) => list.map((word) => word.trim())));
  const marked = (list, side) => {
    const same = new Set(shared.map((pair) => pair[side]));
    return list.map((text, index) => ({ text, same: same.has(index) }));
  };
  return [marked(left, 0), marked(right, 1)];
}

function words(text) {
  const found = [];
  for (const { segment } of segmenter.segment(text)) {
    if (segment.trim() === "" && found.length) found[found.length - 1] += segment;
    else found.push(segment);
  }
  return found;
}

/** Return pairs of indices of a longest common subsequence. */
function sharedWords(left, right) {
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      const skip = Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      lengths[i * width + j] = left[i] === right[j] ? lengths[(i + 1) * width + j + 1] + 1 : skip;
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) pairs.push([i++, j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}


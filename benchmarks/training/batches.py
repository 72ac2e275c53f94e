"""The batches that all trainers learn from: made once, kept as two arrays.

places.npy   [N 3] pairs, longest source and longest target of each batch
tokens.npy   every source and target after the other, padded, END after each row

They are what headwise's own order of batches yields, so that headwise can be run as its
users run it and still sees the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.facts import END, PAD, START

CORPUS, PLACES, TOKENS, FACTS = "corpus", "places.npy", "tokens.npy", "batches.json"
SEED = 1
BATCH_TOKENS = 4096
VOCABULARY = 8000
EPOCHS = 3


@dataclass(frozen=True)
class Pairs:
    """One batch; rows end with END, then PAD."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]

    @property
    def target_in(self) -> NDArray[np.int64]:
        """What a decoder reads: START, then the target without its END."""
        shifted = np.roll(self.target, 1, axis=1)
        shifted[:, 0] = START
        shifted[shifted == END] = PAD
        return shifted

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Lengths of source and target of each pair, END counted."""
        sides = ((side != PAD).sum(axis=1).tolist() for side in self)
        return list(zip(*sides, strict=True))

    @property
    def num_source_tokens(self) -> int:
        """Source tokens without padding."""
        return int((self.source != PAD).sum())

    @property
    def num_target_tokens(self) -> int:
        """Target tokens without padding: what a mean loss divides by."""
        return int((self.target != PAD).sum())

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        yield from (self.source, self.target)


def read(folder: Path) -> Iterator[Pairs]:
    """Yield the batches in their order."""
    places = np.load(folder / PLACES, allow_pickle=False)
    tokens = np.load(folder / TOKENS, allow_pickle=False)
    start = 0
    for rows, source, target in places.tolist():
        sides = []
        for length in (source, target):
            stop = start + rows * length
            sides.append(tokens[start:stop].reshape(rows, length).astype(np.int64))
            start = stop
        yield Pairs(*sides)


def make(corpora: Path, work: Path) -> Path:
    """Prepare Multi30k with headwise and write the batches, once."""
    from headwise.data.batches import TrainingOrder, make_batch
    from headwise.data.prepare import prepare
    from headwise.recipe import resolve

    multi30k = corpora / "multi30k"
    files = {
        part: {
            side: str(multi30k / f"{part}.{language}.gz")
            for side, language in (("source", "en"), ("target", "de"))
        }
        for part in ("train", "val")
    }
    settings = {
        "data": {"corpora": [files["train"]], "dev": files["val"]},
        "text": {"tokenizer": "bpe", "vocab_size": VOCABULARY},
        "training": {"batch_tokens": BATCH_TOKENS},
    }
    recipe = resolve(preset="tiny", extra=settings)
    corpus = prepare(recipe.data, recipe.text, work / CORPUS, seed=recipe.seed)
    order = TrainingOrder(corpus.train, seed=SEED, batch_tokens=BATCH_TOKENS)
    plan = [indices for epoch in range(EPOCHS) for indices in order.epoch(epoch)]
    made = {
        "corpus": corpus.facts.fingerprint,
        "vocabulary": corpus.tokenizers.target.size,
        "order": sha256(b"|".join(each.tobytes() for each in plan)).hexdigest(),
    }
    if (work / FACTS).is_file() and json.loads((work / FACTS).read_text()) == made:
        return work
    places, tokens = [], []
    for indices in plan:
        batch = make_batch(corpus.train, indices)
        source, target = (
            side.padded().numpy() for side in (batch.source, batch.target)
        )
        places.append((len(batch), source.shape[1], target.shape[1]))
        tokens += [source.ravel(), target.ravel()]
    np.save(work / PLACES, np.array(places, dtype=np.int64))
    np.save(work / TOKENS, np.concatenate(tokens).astype(np.uint16))
    (work / FACTS).write_text(json.dumps(made) + "\n", encoding="utf-8")
    return work


def vocabulary(folder: Path) -> int:
    """Return the number of entries that both languages share."""
    return int(json.loads((folder / FACTS).read_text())["vocabulary"])


def first(folder: Path, count: int) -> list[Pairs]:
    """Read the first ``count`` batches."""
    found = list(islice(read(folder), count))
    if len(found) < count:
        raise ValueError(
            f"{count} batches were asked for, but {folder} holds only {len(found)}; "
            "ask for fewer --updates"
        )
    return found

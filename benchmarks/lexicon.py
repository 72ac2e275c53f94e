"""Which target tokens a source sentence is likely to need, and a search among these.

Letters used for sizes: V vocabulary, K tokens kept, B rows of a batch, N its sentences.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.backends.precision import Precision
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.pytorch.layers import InferenceLinear
from headwise.data.example_stores import PairStore
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS
from headwise.text.vocabulary import END, PAD, SPECIALS, START, UNKNOWN

Ids = NDArray[np.int64]

SPECIAL = np.arange(len(SPECIALS))
EXPECTATIONS = 5
"""Times that expectation-maximisation goes through all pairs."""

MOST = 100
"""Translations kept of each token."""

LEAST = 1e-4
"""Probability below which a translation is not kept."""


@dataclass(frozen=True)
class Shortlist:
    """A list for each sentence, from its own tokens alone.

    Always inside: the special tokens, the ``frequent`` most frequent target tokens, and
    each source token itself, for what is copied; then ``likely`` translations of each.
    """

    translations: Ids
    """[V, MOST], the most probable first; -1 behind the last."""

    by_frequency: Ids
    """Tokens that occur in targets, the most frequent first."""

    likely: int
    frequent: int

    def of(self, source: Sequence[int]) -> Ids:
        """Return the ids in rising order."""
        own = np.asarray(source, dtype=np.int64)
        likely = self.translations[own, : self.likely].ravel()
        fixed = [SPECIAL, self.by_frequency[: self.frequent]]
        return np.unique(np.concatenate([*fixed, own, likely[likely >= 0]]))

    def write_vmap(self, path: Path, pieces: Sequence[str]) -> None:
        """Write it as CTranslate2's ``vmap.txt``, which has one rule a line."""
        always = self.by_frequency[: self.frequent].tolist()
        rules = {"": always} | {
            pieces[token]: [token, *row[row >= 0].tolist()]
            for token, row in enumerate(self.translations[:, : self.likely])
        }
        write_rules(path, rules, pieces)


def write_rules(path: Path, rules: dict[str, list[int]], pieces: Sequence[str]) -> None:
    """Write which ids go with which piece of the source, or with "" for all."""
    lines = (
        f"{key}\t{' '.join(pieces[each] for each in ids)}\n"
        for key, ids in rules.items()
    )
    path.write_text("".join(lines), encoding="utf-8")


def by_frequency(pairs: PairStore, vocabulary: int) -> Ids:
    """Return the tokens that occur in targets, the most frequent first."""
    _, targets = pairs.sides(np.arange(len(pairs)))
    counts = np.bincount(targets.tokens, minlength=vocabulary)
    order = np.argsort(-counts, kind="stable")
    return order[counts[order] > 0]


def translations(pairs: PairStore, vocabulary: int) -> Ids:
    """Learn IBM Model 1 (Brown et al. 1993), and return the best [V, MOST] of it.

    A target token stems from one of the source tokens or from none (NULL), each as
    likely as the other; expectation-maximisation finds t(target | source).
    """
    null = vocabulary
    sources, targets = pairs.sides(np.arange(len(pairs)))
    lengths = sources.lengths + 1  # with NULL behind the last
    ends = np.cumsum(sources.lengths)
    asked = np.insert(sources.tokens.astype(np.int64), ends, null)
    # One cell for each target token and each source token of its sentence.
    cells = np.repeat(lengths, targets.lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, targets.lengths)
    written = np.repeat(np.arange(len(targets.tokens)), cells)
    before = np.cumsum(cells) - cells
    place = np.arange(cells.sum()) - np.repeat(before - first, cells)
    keys = asked[place] * vocabulary + targets.tokens[written].astype(np.int64)
    found, cell_of = np.unique(keys, return_inverse=True)
    from_source, to_target = found // vocabulary, found % vocabulary
    t = np.full(len(found), 1 / vocabulary)
    for _ in range(EXPECTATIONS):
        shares = t[cell_of]
        shares /= np.add.reduceat(shares, before)[written]
        counts = np.bincount(cell_of, shares, len(found))
        t = counts / np.bincount(from_source, counts, null + 1)[from_source]
    order = np.lexsort((to_target, -t, from_source))
    order = order[(t[order] >= LEAST) & (from_source[order] != null)]
    best = np.full((vocabulary, MOST), -1, dtype=np.int64)
    rows = from_source[order]
    starts = np.searchsorted(rows, rows)
    rank = np.arange(len(rows)) - starts
    kept = rank < MOST
    best[rows[kept], rank[kept]] = to_target[order[kept]]
    return best


@dataclass(frozen=True)
class RestrictedState:
    """What the model carries, and the number of the sentence of each row."""

    state: Any
    sentences: Tensor

    def index_select(self, index: Tensor) -> RestrictedState:
        """Keep these rows in this order, repeats allowed."""
        return RestrictedState(self.state.index_select(index), self.sentences[index])


class Restricted:
    """A decoder that scores the union of a batch's lists, and of each row its own.

    Tokens are places in the union, whose first are the special tokens. Without
    ``apart`` every row may write the whole union, which depends on the batch.
    """

    def __init__(
        self,
        decoder: TorchDecoder,
        lists: Sequence[Ids],
        precision: Precision = "float32",
        *,
        apart: bool = True,
    ) -> None:
        union = np.unique(np.concatenate(lists))
        self.ids = torch.from_numpy(union)
        self.refused: Tensor | None = None
        if apart and any(len(each) < len(union) for each in lists):
            refused = np.ones((len(lists), len(union)), dtype=bool)
            for row, ids in zip(refused, lists, strict=True):
                row[np.searchsorted(union, ids)] = False
            self.refused = torch.from_numpy(refused)
        self.decoder = copy.copy(decoder)
        model = decoder.model
        bias = None if model.output.bias is None else model.output.bias[self.ids]
        self.decoder.output = InferenceLinear(
            model.output_vectors[self.ids], bias, precision
        )

    def start(self, source: Tensor, source_is_real: Tensor) -> RestrictedState:
        """Read the sources, in the order of the lists."""
        state = self.decoder.start(source, source_is_real)
        return RestrictedState(state, torch.arange(len(source)))

    def step(
        self, tokens: Tensor, state: RestrictedState
    ) -> tuple[Tensor, RestrictedState]:
        """Write one more token in every row; score the union by what may follow."""
        logits, after = self.decoder.step(self.ids[tokens], state.state)
        if self.refused is not None:
            logits = logits.masked_fill(self.refused[state.sentences], -torch.inf)
        return logits, RestrictedState(after, state.sentences)


@torch.inference_mode()
def outputs(
    decoder: Any, sources: Sequence[Sequence[int]], settings: DecodingSettings
) -> list[Hypothesis]:
    """Search one batch by a decoder, restricted or not; return the best of each."""
    rows = [torch.tensor([*source, END]) for source in sources]
    padded = torch.nn.utils.rnn.pad_sequence(rows, True, PAD)
    asked = SearchRequest(
        source_lengths=[len(source) for source in sources],
        start=START,
        end=END,
        unknown=UNKNOWN,
        forbidden=FORBIDDEN_TOKENS,
    )
    state = decoder.start(padded, padded != PAD)
    return [best for best, *_ in search(decoder, state, settings, asked)]

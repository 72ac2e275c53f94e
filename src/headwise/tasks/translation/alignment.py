"""Word alignment from cross-attention.

Letters used for sizes in this file:

    R  rows, one a pair      T  target positions, END's last     N  decoder blocks
    H  heads                 S  source positions, END's last

Some heads attend to the source token being translated, and others elsewhere. The
default is the mean over all heads of the block before the last, which Garg et al.
(2019, Jointly Learning to Align and Translate) found to align best;
``PairScorer.best_head`` finds the best single head on a development set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import TYPE_CHECKING

from headwise.decoding.settings import ALIGNMENT_HEAD
from headwise.errors import SettingsError
from headwise.text.vocabulary import UNKNOWN, UNKNOWN_MARK, WORD_START

if TYPE_CHECKING:
    from torch import Tensor

Links = tuple[tuple[int, int], ...]
"""Pairs (source position, target position), counted from 0."""


def select_head(weights: Tensor, head: str) -> Tensor:
    """Return the weights [R T S] of one ``alignment_head``, of all [R N H T S].

    A name such as "3:5+1" means the attention of one step later: Chen et al. (2020,
    Accurate Word Alignment Induction) found that a decoder often attends to the source
    of the token it has just produced. Raises ``SettingsError`` for an unknown head.
    """
    import torch

    match = ALIGNMENT_HEAD.fullmatch(head)
    blocks, heads = weights.shape[1:3]
    if match is None or (
        match[1] and not (int(match[1]) < blocks and int(match[2]) < heads)
    ):
        raise SettingsError(
            [
                f"alignment_head must be 'average' or a block and a head below "
                f"{blocks}:{heads}, such as '{blocks - 1}:0', not {head!r}"
            ]
        )
    if not match[1]:
        return weights[:, max(blocks - 2, 0)].mean(1)
    chosen = weights[:, int(match[1]), int(match[2])]
    if not match[3]:
        return chosen
    return torch.cat([chosen[:, 1:], chosen[:, -1:]], dim=1)


def align_tokens(
    weights: Tensor, source: Sequence[int], target: Sequence[int]
) -> Links:
    """Link each token of ``target`` to the ``source`` token of highest weight [T S].

    END is left out on both sides. An unknown token is linked to an unknown one if the
    source has one: it mostly stands for the same.
    """
    import torch

    if not source or not target:
        return ()
    weights = weights[: len(target), : len(source)]
    unknown = torch.tensor([each == UNKNOWN for each in source])
    if unknown.any():
        of_unknown = torch.tensor([each == UNKNOWN for each in target])
        excluded = (of_unknown[:, None] & ~unknown[None, :]).to(weights.device)
        weights = weights.masked_fill(excluded, -1.0)
    best = weights.argmax(dim=1).tolist()
    return tuple((position, index) for index, position in enumerate(best))


def word_indices(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word that each piece belongs to."""
    indices, word = [], -1
    for piece in pieces:
        if piece.startswith(WORD_START) or word < 0:
            word += 1
        indices.append(word)
    return indices


def word_links(
    token_links: Iterable[tuple[int, int]],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
) -> Links:
    """Return the links between words that the links between their pieces imply."""
    sources, targets = word_indices(source_pieces), word_indices(target_pieces)
    found = {(sources[i], targets[j]) for i, j in token_links}
    return tuple(sorted(found, key=lambda link: (link[1], link[0])))


def pharaoh_format(links: Links) -> str:
    """Format links as Pharaoh and its successors do: ``0-0 1-2``."""
    return " ".join(f"{source}-{target}" for source, target in links)


def replace_unknown_tokens(
    text: str,
    target: Sequence[int],
    token_links: Iterable[tuple[int, int]],
    *,
    source: str,
    source_ids: Sequence[int],
    source_pieces: Sequence[str],
) -> str:
    """Replace the mark of each unknown token in ``text`` by its aligned source text.

    Luong et al. (2015, Addressing the Rare Word Problem): names and numbers are copied.
    A token without a link keeps its mark.
    """
    positions = [index for index, token in enumerate(target) if token == UNKNOWN]
    parts = text.split(UNKNOWN_MARK)
    if len(parts) != len(positions) + 1:  # the output has the mark as text
        return text
    source_of = {index: position for position, index in token_links}
    result = parts[0]
    for index, after in zip(positions, parts[1:], strict=True):
        copied = ""
        if index in source_of:
            copied = surface_of(source, source_ids, source_pieces, source_of[index])
        result += (copied or UNKNOWN_MARK) + after
    return result


def surface_of(
    text: str, ids: Sequence[int], pieces: Sequence[str], position: int
) -> str:
    """Return the text of the token at ``position``: its surface form.

    For an unknown token the letters that no other piece of the word covers, else the
    word.
    """
    words, indices = text.split(), word_indices(pieces)
    if indices[-1] + 1 != len(words):
        return ""
    word = words[indices[position]]
    if ids[position] != UNKNOWN:
        return word
    pattern = ""
    for other, index in enumerate(indices):
        if index == indices[position]:
            piece = pieces[other].removeprefix(WORD_START)
            known = re.escape(piece) if ids[other] != UNKNOWN else ".+?"
            pattern += f"({known})" if other == position else known
    match = re.fullmatch(pattern, word)
    return match[1] if match else word


def mutual_information(pairs: Iterable[tuple[int, int]]) -> float:
    """Return the mutual information of linked source and target tokens, in nats.

    High if a source token is always linked to the same few target tokens, 0 if links
    are random or all on one token.
    """
    joint = Counter(pairs)
    total = joint.total()
    if not total:
        return 0.0
    sources: Counter[int] = Counter()
    targets: Counter[int] = Counter()
    for (source, target), count in joint.items():
        sources[source] += count
        targets[target] += count
    return sum(
        count / total * log(count * total / (sources[source] * targets[target]))
        for (source, target), count in joint.items()
    )

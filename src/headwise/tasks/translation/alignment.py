"""Which source word a word of the output comes from, by the attention that crosses.

Letters used for sizes in this file:

    R  rows, one a pair      T  target positions, END's last     N  decoder blocks
    H  heads                 S  source positions, END's last

Of the many heads some look at what they translate, and some elsewhere. The mean over
all heads of the block before the last is the default, the block that Garg et al. (2019,
Jointly Learning to Align and Translate) found to align best; ``best_head`` looks for a
single head that does so on a development set.
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
"""Pairs of a place in the source and one in the target, counted from 0."""


def weights_of_head(weights: Tensor, head: str) -> Tensor:
    """Return [R, T, S] of all ``weights`` [R, N, H, T, S]; see ``alignment_head``.

    A name such as "3:5+1" means the look of one step later: Chen et al. (2020, Accurate
    Word Alignment Induction) found that a decoder often looks at what it has just
    written.
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


def links(weights: Tensor, source: Sequence[int], target: Sequence[int]) -> Links:
    """Link each token of ``target`` to the one of ``source`` it weighs most [T, S].

    END is left out, on both sides. An unknown token is linked to an unknown one where
    there is one: it mostly stands for the same.
    """
    import torch

    if not source or not target:
        return ()
    weights = weights[: len(target), : len(source)]
    unknown = torch.tensor([each == UNKNOWN for each in source])
    if unknown.any():
        rows = torch.tensor([each == UNKNOWN for each in target])
        outside = (rows[:, None] & ~unknown[None, :]).to(weights.device)
        weights = weights.masked_fill(outside, -1.0)
    best = weights.argmax(dim=1).tolist()
    return tuple((place, number) for number, place in enumerate(best))


def words_of(pieces: Sequence[str]) -> list[int]:
    """Return the number of the word, counted from 0, that each piece belongs to."""
    numbers, word = [], -1
    for piece in pieces:
        if piece.startswith(WORD_START) or word < 0:
            word += 1
        numbers.append(word)
    return numbers


def word_links(
    token_links: Iterable[tuple[int, int]],
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
) -> Links:
    """Return the links between words that links between their pieces make."""
    sources, targets = words_of(source_pieces), words_of(target_pieces)
    found = {(sources[i], targets[j]) for i, j in token_links}
    return tuple(sorted(found, key=lambda link: (link[1], link[0])))


def pharaoh(found: Links) -> str:
    """Write links as Pharaoh and its descendants do: ``0-0 1-2``."""
    return " ".join(f"{source}-{target}" for source, target in found)


def with_unknown_replaced(
    text: str,
    target: Sequence[int],
    token_links: Iterable[tuple[int, int]],
    *,
    source: str,
    source_ids: Sequence[int],
    source_pieces: Sequence[str],
) -> str:
    """Put what the source says where ``text`` has the mark for an unknown token.

    Luong et al. (2015, Addressing the Rare Word Problem): names and numbers are copied.
    What has no counterpart keeps its mark.
    """
    places = [place for place, token in enumerate(target) if token == UNKNOWN]
    parts = text.split(UNKNOWN_MARK)
    if len(parts) != len(places) + 1:  # a mark that the model wrote itself
        return text
    linked = {number: place for place, number in token_links}
    result = parts[0]
    for place, after in zip(places, parts[1:], strict=True):
        said = ""
        if place in linked:
            said = surface(source, source_ids, source_pieces, linked[place])
        result += (said or UNKNOWN_MARK) + after
    return result


def surface(text: str, ids: Sequence[int], pieces: Sequence[str], place: int) -> str:
    """Return what ``text`` has where the token at ``place`` stands.

    Of an unknown token, the letters that the pieces beside it leave; else the word.
    """
    words, numbers = text.split(), words_of(pieces)
    if numbers[-1] + 1 != len(words):
        return ""
    word = words[numbers[place]]
    if ids[place] != UNKNOWN:
        return word
    pattern = ""
    for other, number in enumerate(numbers):
        if number == numbers[place]:
            piece = pieces[other].removeprefix(WORD_START)
            known = re.escape(piece) if ids[other] != UNKNOWN else ".+?"
            pattern += f"({known})" if other == place else known
    match = re.fullmatch(pattern, word)
    return match[1] if match else word


def informed(pairs: Iterable[tuple[int, int]]) -> float:
    """Return how much aligned source and target tokens tell of each other, in nats.

    The mutual information of the links: high where a source token is always linked to
    the same few target tokens, 0 where links fall by chance or all on one place.
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

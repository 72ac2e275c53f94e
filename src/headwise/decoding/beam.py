"""Beam search (Section 6.1), batched over sentences; with groups, diverse beam search.

The outputs are those of ``tests/reference/beam_search.py``, which is written for
reading. Letters used for sizes in this file:

    S  sentences still searched        C  continuations of each sentence, 2 * beam
    W  hypotheses alive in each:       L  tokens generated so far
       1 in the first step, then beam  V  vocabulary
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from headwise.backends.native.library import why_unavailable
from headwise.decoding.argument_checks import (
    check_beam,
    check_ids,
    check_lengths,
)
from headwise.decoding.beam_group import BeamGroup
from headwise.decoding.beam_progress import BeamOptions, best_first
from headwise.decoding.beam_step_native import NativeBeamGroup
from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.coverage import Coverage
from headwise.decoding.diversity import HammingDiversity
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.incremental_decoder import (
    AttentionDecoder,
    IncrementalDecoder,
    S,
    TopK,
)
from headwise.decoding.length_penalty import LengthPenalty
from headwise.decoding.rule_context import Rule
from headwise.decoding.stopping import StoppingRule
from headwise.decoding.topk import topk_step_of


def beam_search(
    decoder: IncrementalDecoder[S],
    state: S,
    *,
    num_sentences: int,
    start: int,
    end: int,
    beam: int,
    penalty: LengthPenalty,
    stopping: StoppingRule,
    max_lengths: Sequence[int],
    reward: float = 0.0,
    patience: float = 1.0,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
    rules: Sequence[Rule] = (),
    coverage: Coverage | None = None,
    groups: int = 1,
    diversity: float = 0.0,
    token_scores: bool = False,
    check_stop: Callable[[], None] = lambda: None,
    on_step: OnBeamStep | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the ``num_best`` best hypotheses of each row of ``state``, a sentence.

    Fewer are returned only if the model allows fewer. ``max_lengths`` counts END. The
    ``groups`` share the beam. ``token_scores`` asks for the ln p of each token;
    ``coverage`` needs one group and an ``AttentionDecoder``. ``check_stop`` is called
    before each step, and raises to cancel the search; ``on_step`` after each, of every
    group, and makes no difference to the search.
    """
    check_beam(beam, num_best, groups)
    check_lengths(max_lengths, num_sentences)
    check_ids(end, forbidden)
    hamming = HammingDiversity(diversity, num_sentences) if groups > 1 else None
    options = BeamOptions(
        end=end,
        beam=beam // groups,
        num_best=min(num_best, beam // groups),
        penalty=penalty,
        reward=reward,
        stopping=stopping,
        patience=patience,
        max_lengths=max_lengths,
        forbidden=forbidden,
        rules=(*rules, *([hamming] if hamming else [])),
        coverage=coverage,
        token_scores=token_scores,
        on_step=on_step,
    )
    make = make_beam_group(options, groups, device)
    beams = [make(options, num_sentences, device) for _ in range(groups)]
    if groups > 1:
        state = state.index_select(
            torch.arange(num_sentences, device=device).repeat(groups)
        )
    step_topk = topk_step_of(decoder)
    tokens = torch.full((groups * num_sentences,), start, device=device)

    while len(tokens):
        check_stop()
        parents: list[Tensor] = []
        if coverage is None and not options.rules:  # so there is one group
            log_p, ids, state = step_topk(
                tokens, state, options.num_continuations, forbidden
            )
            parents.append(beams[0].advance(TopK(log_p, ids)))
        else:
            if coverage is None:
                logits, state = decoder.step(tokens, state)
            else:
                logits, attention, state = cast(
                    AttentionDecoder[S], decoder
                ).step_with_attention(tokens, state)
                coverage.add(attention)
            if hamming:
                hamming.start_step()
            first = 0
            for group in beams:
                last = first + group.num_rows
                parents.append(first + group.advance(logits[first:last]))
                if hamming and len(parents[-1]):
                    hamming.add_choices(
                        cast(BeamGroup, group).row_sentences,
                        group.tokens,
                        logits.shape[1],
                    )
                first = last
        rows = parents[0] if groups == 1 else torch.cat(parents)
        if len(rows) and not _is_identity(rows, len(tokens)):
            state = state.index_select(rows)
            if coverage is not None:
                coverage.index_select(rows)
        tokens = torch.cat([group.tokens for group in beams])
    if groups == 1:
        return [best_first(each)[:num_best] for each in beams[0].completed]
    return [
        _merge_groups(
            [best_first(group.completed[sentence]) for group in beams], beam, num_best
        )
        for sentence in range(num_sentences)
    ]


def make_beam_group(
    options: BeamOptions, groups: int, device: torch.device | str
) -> type[BeamGroup] | type[NativeBeamGroup]:
    """Return the class that does a step by one native call, or the one in PyTorch."""
    is_native = (
        groups == 1
        and not options.rules
        and options.coverage is None
        and not options.token_scores
        and options.on_step is None
        and torch.device(device).type == "cpu"
        and why_unavailable() is None
    )
    return NativeBeamGroup if is_native else BeamGroup


def _merge_groups(
    by_group: Sequence[Sequence[Hypothesis]], beam: int, num_best: int
) -> list[Hypothesis]:
    """Return the best hypotheses of all groups, without duplicates.

    Each group gives its share of the beam first, and more only where duplicates left
    too few.
    """
    share = beam // len(by_group)
    merged: dict[tuple[tuple[int, ...], bool], Hypothesis] = {}
    for some in (
        [each[:share] for each in by_group],
        [each[share:] for each in by_group],
    ):
        for each in best_first([each for group in some for each in group]):
            if len(merged) < beam:
                merged.setdefault((each.tokens, each.finished), each)
    return best_first(list(merged.values()))[:num_best]


def _is_identity(rows: Tensor, num_rows: int) -> bool:
    return len(rows) == num_rows and torch.equal(
        rows, torch.arange(num_rows, device=rows.device)
    )

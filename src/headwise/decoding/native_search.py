"""Greedy and beam search by the native library, without torch.

The outputs are those of ``greedy_search`` and ``beam_search`` on the same decoder,
which support every rule and every decoder;
``tests/decoding/test_native_search.py`` holds them equal. Of rules there is one here:
placeholders are copied, as many as the source has.

Letters used for sizes: R rows, one a hypothesis; K continuations of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.backends.native.arrays import Array
from headwise.backends.native.kv_cache import NativeState
from headwise.backends.native.steps import NativeSteps
from headwise.decoding.argument_checks import check_beam, check_ids, check_lengths
from headwise.decoding.beam_progress import BeamOptions, best_first
from headwise.decoding.greedy_batch import COMPACT_AT, GreedyBatch
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.native_beam import NativeBeam
from headwise.decoding.settings import DecodingSettings
from headwise.decoding.stopping import STOPPING


@dataclass(frozen=True, kw_only=True)
class NativeRequest:
    """The sentences of one batch, and the vocabulary facts that a search needs."""

    source_lengths: Sequence[int]
    """Tokens of each source, without END; the decoder state has a row for each."""

    start: int
    end: int

    forbidden: tuple[int, ...] = ()
    """Tokens that no output may contain."""

    copied: int | None = None
    """The placeholder, if outputs have as many as ``copies`` says; see
    ``logits_processors.exact_count``."""

    copies: Sequence[int] = ()
    """Placeholders of each source."""

    check_stop: Callable[[], None] = lambda: None
    """Called before each step; raises to cancel the search."""


def why_not_searched(settings: DecodingSettings) -> str | None:
    """Return why a search with these settings needs torch; None if it does not."""
    if settings.search != "beam":
        return f"search is {settings.search!r}"
    if settings.min_length_factor or settings.min_length_offset:
        return "outputs have a least length"
    usual = DecodingSettings()
    for name in NEED_TORCH:
        if getattr(settings, name) != getattr(usual, name):
            return f"{name} is {getattr(settings, name)!r}"
    return None


NEED_TORCH = (
    *("coverage", "choose", "banned", "no_repeat_ngram", "repetition_penalty"),
    *("suppress_unknown", "replace_unknown", "alignments", "token_scores"),
)
"""Settings that only searches in torch know, unless they have their defaults."""


def native_search(
    steps: NativeSteps,
    state: NativeState,
    settings: DecodingSettings,
    request: NativeRequest,
) -> list[list[Hypothesis]]:
    """Search by beam, or greedily for a beam of 1; ``state`` has a row per source."""
    limits = [settings.max_length(length) for length in request.source_lengths]
    check_lengths(limits, len(request.source_lengths))
    check_ids(request.end, request.forbidden)
    if settings.beam == 1 and request.copied is None:
        outputs = greedy_search(steps, state, settings, request, limits)
        return [[output] for output in outputs]
    return beam_search(steps, state, settings, request, limits)


def greedy_search(
    steps: NativeSteps,
    state: NativeState,
    settings: DecodingSettings,
    request: NativeRequest,
    limits: Sequence[int],
) -> list[Hypothesis]:
    """Return one hypothesis for each row of ``state``, of ``limits`` tokens or less."""
    num_rows, end = len(request.source_lengths), request.end
    batch = GreedyBatch(num_rows, end, limits, records_log_p=False)
    tokens: Array = np.full(num_rows, request.start)
    while batch.rows:
        request.check_stop()
        compact_at = math.ceil(len(batch.rows) * COMPACT_AT)
        log_p, ids, state = steps.greedy(
            tokens,
            state,
            max_steps=batch.max_steps,
            end=end,
            stop_at_finished=max(1, compact_at - batch.num_finished),
            forbidden=request.forbidden,
            scored=settings.scores,
        )
        for scores, best in zip(log_p, ids.tolist(), strict=True):
            unfinished = batch.append(scores, best, ())
        tokens, num_finished = ids[-1], batch.num_finished
        if num_finished and (num_finished >= compact_at or not unfinished):
            batch.compact(unfinished)
            if unfinished:
                kept = np.array(unfinished)
                tokens, state = tokens[kept], state.index_select(kept)
        elif num_finished:  # finished rows stay until the batch is compacted
            kept = np.array(unfinished)
            ended = np.full_like(tokens, end)
            ended[kept] = tokens[kept]
            tokens = ended
    return batch.hypotheses(settings.penalty, settings.reward, token_scores=False)


def beam_search(
    steps: NativeSteps,
    state: NativeState,
    settings: DecodingSettings,
    request: NativeRequest,
    limits: Sequence[int],
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each row of ``state``, of ``limits`` or less."""
    check_beam(settings.beam, settings.num_best)
    num_sentences = len(request.source_lengths)
    options = BeamOptions(
        end=request.end,
        beam=settings.beam,
        num_best=settings.num_best,
        penalty=settings.penalty,
        reward=settings.reward,
        stopping=STOPPING[settings.stopping],
        patience=settings.patience,
        max_lengths=limits,
        forbidden=request.forbidden,
    )
    beam = NativeBeam(options, num_sentences)
    tokens: Array = np.full(num_sentences, request.start)
    while len(tokens):
        request.check_stop()
        log_p, ids, state = _next_tokens(steps, tokens, state, beam, request)
        parents = beam.advance(log_p, ids)
        same = len(parents) == len(tokens) and (parents == np.arange(len(tokens))).all()
        if len(parents) and not same:
            state = state.index_select(parents)
        tokens = beam.newest
    return [best_first(each)[: settings.num_best] for each in beam.completed]


def _next_tokens(
    steps: NativeSteps,
    tokens: Array,
    state: NativeState,
    beam: NativeBeam,
    request: NativeRequest,
) -> tuple[Array, Array, NativeState]:
    """Append ``tokens``; return ln p and ids [R K] of the best tokens after them."""
    count = beam.options.num_continuations
    if request.copied is None:
        return steps.topk(tokens, state, count, request.forbidden)
    # Of each row at most one of two tokens is forbidden: the placeholder or END.
    log_p, ids, state = steps.topk(tokens, state, count + 1, request.forbidden)
    generated = beam.generated
    found = (generated == request.copied).sum(axis=2)
    wanted = np.array(request.copies)[beam.sentences, None]
    banned = np.where(found >= wanted, request.copied, request.end).reshape(-1, 1)
    log_p = np.where(ids == banned, -np.inf, log_p).astype(np.float32)
    order = np.argsort(-log_p, axis=1, kind="stable")[:, :count]
    rows = np.arange(len(ids))[:, None]
    return log_p[rows, order], ids[rows, order], state

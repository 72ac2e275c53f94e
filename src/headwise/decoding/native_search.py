"""Greedy and beam search by the native library, without torch.

The outputs are those of ``greedy_search`` and ``beam_search`` on the same decoder,
which support every rule and every decoder;
``tests/decoding/test_native_search.py`` holds them equal. The rules here are those of
``native_rules``.

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
from headwise.decoding.native_rules import (
    NativeRule,
    banned_tokens,
    best_allowed,
    exact_count,
    min_length,
    no_repeat_ngrams,
    num_banned,
)
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
    """The placeholder, if outputs have as many as ``copies`` says."""

    copies: Sequence[int] = ()
    """Placeholders of each source."""

    check_stop: Callable[[], None] = lambda: None
    """Called before each step; raises to cancel the search."""

    def rules(self, settings: DecodingSettings) -> list[NativeRule]:
        """Return the rules of the request and the settings; usually there are none."""
        rules = []
        if self.copied is not None:
            rules.append(exact_count(self.copied, self.copies, self.end))
        if settings.no_repeat_ngram:
            rules.append(no_repeat_ngrams(settings.no_repeat_ngram))
        min_lengths = [settings.min_length(each) for each in self.source_lengths]
        if any(min_lengths):
            rules.append(min_length(min_lengths, self.end))
        return rules


def why_not_searched(settings: DecodingSettings) -> str | None:
    """Return why a search with these settings needs torch; None if it does not."""
    if settings.search != "beam":
        return f"search is {settings.search!r}"
    usual = DecodingSettings()
    for name in NEED_TORCH:
        if getattr(settings, name) != getattr(usual, name):
            return f"{name} is {getattr(settings, name)!r}"
    return None


NEED_TORCH = (
    *("coverage", "choose", "banned", "repetition_penalty", "suppress_unknown"),
    *("replace_unknown", "alignments", "token_scores"),
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
    if settings.beam == 1:
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
    rules = request.rules(settings)
    tokens: Array = np.full(num_rows, request.start)
    while batch.rows:
        request.check_stop()
        compact_at = 1 if rules else math.ceil(len(batch.rows) * COMPACT_AT)
        if rules:
            generated = np.array([batch.outputs[row] for row in batch.rows], np.int64)
            banned = banned_tokens(rules, generated, np.array(batch.rows))
            best, state = _best_tokens(steps, tokens, state, 1, request, banned)
            log_p, ids = (each.T for each in best)
        else:
            log_p, ids, state = steps.greedy(
                tokens,
                state,
                max_steps=batch.max_steps,
                end=end,
                stop_at_finished=max(1, compact_at - batch.num_finished),
                forbidden=request.forbidden,
                scored=settings.scores,
            )
        for scores, newest in zip(log_p, ids.tolist(), strict=True):
            unfinished = batch.append(scores, newest, ())
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
    beam, count = NativeBeam(options, num_sentences), options.num_continuations
    rules = request.rules(settings)
    tokens: Array = np.full(num_sentences, request.start)
    while len(tokens):
        request.check_stop()
        if rules:
            generated = beam.generated.reshape(len(tokens), -1)
            width = len(tokens) // len(beam.sentences)
            banned = banned_tokens(rules, generated, np.repeat(beam.sentences, width))
            best, state = _best_tokens(steps, tokens, state, count, request, banned)
            log_p, ids = best
        else:
            log_p, ids, state = steps.topk(tokens, state, count, request.forbidden)
        parents = beam.advance(log_p, ids)
        same = len(parents) == len(tokens) and (parents == np.arange(len(tokens))).all()
        if len(parents) and not same:
            state = state.index_select(parents)
        tokens = beam.newest
    return [best_first(each)[: settings.num_best] for each in beam.completed]


def _best_tokens(
    steps: NativeSteps,
    tokens: Array,
    state: NativeState,
    count: int,
    request: NativeRequest,
    banned: Array,
) -> tuple[tuple[Array, Array], NativeState]:
    """Append ``tokens``; return ln p and ids [R K] of the best that are not banned."""
    enough = count + num_banned(banned)
    log_p, ids, state = steps.topk(tokens, state, enough, request.forbidden)
    return best_allowed(log_p, ids, banned, count), state

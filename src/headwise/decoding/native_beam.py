"""A step of beam search by one native call, on arrays: a search needs no torch for it.

Its reference is :class:`BeamGroup`, whose many small operations in PyTorch take longer
than a step of a small model; ``tests/decoding/test_beam_step_native.py`` holds them
equal.

Letters used for sizes: S sentences still searched, W hypotheses alive in each, L tokens
generated so far, K next tokens of each.
"""

from __future__ import annotations

from ctypes import byref

import numpy as np

from headwise.backends.native.arrays import Array, address
from headwise.backends.native.ctypes_structs import BeamRequest
from headwise.backends.native.functions import kernels
from headwise.decoding.beam_progress import BeamOptions, BeamProgress
from headwise.decoding.hypothesis import Hypothesis

FIRST_CAPACITY = 32
"""Tokens of a hypothesis for which there is space at first; it doubles as needed."""


class NativeBeam(BeamProgress):
    """The hypotheses of a search, in arrays that the native library reads."""

    def __init__(self, options: BeamOptions, num_sentences: int) -> None:
        super().__init__(options, num_sentences)
        self._limits = np.array(options.max_lengths, dtype=np.int64)
        self._totals = np.zeros((num_sentences, 1), dtype=np.float32)  # S W
        self._generated = np.empty((num_sentences, 1, FIRST_CAPACITY), dtype=np.int64)
        self.newest = np.empty(0, dtype=np.int64)
        """The last token of each hypothesis [S·W]."""

    @property
    def generated(self) -> Array:
        """The tokens of each hypothesis so far [S W L]."""
        return self._generated[:, :, : self.length]

    def advance(self, scores: Array, tokens: Array) -> Array:
        """Take one step; return the parent row of each new row, as in ``newest``.

        Of each hypothesis ``scores`` and ``tokens`` [S·W K] hold the best next tokens.
        """
        if not self.sentences:
            return np.empty(0, dtype=np.int64)
        self.length += 1
        self._reserve(self.length)
        scores, tokens = np.ascontiguousarray(scores), np.ascontiguousarray(tokens)
        (count, width), beam = self._totals.shape, self.options.beam
        parents = np.empty((count, beam), dtype=np.int64)
        newest = np.empty((count, beam), dtype=np.int64)
        totals = np.empty((count, beam), dtype=np.float32)
        generated = np.empty((count, beam, self._generated.shape[2]), dtype=np.int64)
        completed = np.empty((count * beam, 4), dtype=np.int64)
        completed_totals = np.empty(count * beam, dtype=np.float32)
        num_completed = kernels().beam_step(
            byref(
                BeamRequest(
                    sentences=count,
                    width=width,
                    top=tokens.shape[1],
                    beam=beam,
                    end=self.options.end,
                    length=self.length,
                    capacity=generated.shape[2],
                    limits=address(self._limits),
                    totals=address(self._totals),
                    scores=address(scores),
                    tokens=address(tokens),
                    generated=address(self._generated),
                    alive_parents=address(parents),
                    alive_tokens=address(newest),
                    alive_generated=address(generated),
                    alive_totals=address(totals),
                    completed=address(completed),
                    completed_totals=address(completed_totals),
                )
            )
        )
        if num_completed:
            self._add_completed(
                completed[:num_completed], completed_totals[:num_completed]
            )
        unfinished = [
            index
            for index, (best_total, limit) in enumerate(
                zip(totals[:, 0].tolist(), self._limits.tolist(), strict=True)
            )
            if not self._is_done(index, best_total, limit)
        ]
        if len(unfinished) < count:
            self.sentences = [self.sentences[index] for index in unfinished]
            self._limits = self._limits[unfinished]
            parents, newest = parents[unfinished], newest[unfinished]
            totals, generated = totals[unfinished], generated[unfinished]
        self._totals, self._generated = totals, generated
        self.newest = newest.reshape(-1)
        return parents.reshape(-1)

    def _reserve(self, length: int) -> None:
        """Make space for so many tokens of each hypothesis."""
        capacity = self._generated.shape[2]
        if length > capacity:
            wider = np.empty((*self._totals.shape, 2 * capacity), dtype=np.int64)
            wider[:, :, :capacity] = self._generated
            self._generated = wider

    def _add_completed(self, completed: Array, totals: Array) -> None:
        options = self.options
        divisor, bonus = options.penalty(self.length), options.reward * self.length
        tokens = self._generated.reshape(-1, self._generated.shape[2])
        for (index, parent, token, is_end), total in zip(
            completed.tolist(), totals.tolist(), strict=True
        ):
            before = tokens[parent, : self.length - 1].tolist()
            self.completed[self.sentences[index]].append(
                Hypothesis(
                    tuple(before if is_end else [*before, token]),
                    total,
                    total / divisor + bonus,
                    bool(is_end),
                )
            )

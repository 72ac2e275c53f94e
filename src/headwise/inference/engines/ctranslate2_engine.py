"""The CTranslate2 engine: high throughput on a CPU, with an export of the model.

Its outputs are those of the torch engine, for the searches that it supports. Two
differences are mended by a second search of the few sentences concerned: a batch has
one length limit, and suppressing tokens (pad, START) renormalises the probabilities of
all others, which ours leave as the model gives them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError, UsageError
from headwise.inference.engines.ctranslate2_support import (
    unsupported_lengths,
    unsupported_model,
    unsupported_path,
    unsupported_prefixes,
    unsupported_search,
)
from headwise.inference.engines.ctranslate2_workers import Batch, Workers
from headwise.inference.engines.default_threads import num_threads
from headwise.inference.engines.engine import Outputs
from headwise.interop.ctranslate2 import (
    TINY_EXPONENT,
    translate_batch_arguments,
)
from headwise.interop.export_cache import cached_export
from headwise.interop.unsupported_models import CTRANSLATE2, QUANTIZATIONS
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS
from headwise.text.placeholders import PLACEHOLDER
from headwise.text.vocabulary import END, SPECIALS

_END = SPECIALS[END]

FORBIDDEN_PIECES = frozenset(SPECIALS[each] for each in FORBIDDEN_TOKENS)
"""The pieces that no output may contain, besides placeholders of no source."""


class CTranslate2Engine:
    """Searches in CTranslate2, with an export that is cached beside the model.

    ``folder`` is an existing export of ``opened``, to use instead. ``note`` says where
    a new export is, or is empty.
    """

    name = CTRANSLATE2

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        folder: Path | None = None,
    ) -> None:
        reasons = [str(each) for each in unsupported_model(opened)]
        if folder is not None:
            reasons += map(str, unsupported_path(folder))
        if precision not in QUANTIZATIONS:
            reasons.append(
                f"precision must be one of {', '.join(QUANTIZATIONS)}, "
                f"not {precision!r}"
            )
        if reasons:
            raise UsageError("; ".join(reasons))
        self.opened = opened
        self.precision = precision
        self.folder = folder
        self.note = ""
        self.workers = Workers(
            self._export,
            precision,
            opened.threads or num_threads(),
            alone=opened.deterministic,
        )
        self.fixed, _ = translate_batch_arguments(opened)
        pair = opened.tokenizers
        self.source_pieces = pair.source.pieces(range(pair.source.size))
        target_pieces = self.source_pieces
        if not pair.joint:
            target_pieces = pair.target.pieces(range(pair.target.size))
        self.target_ids = {piece: number for number, piece in enumerate(target_pieces)}

    @property
    def used(self) -> dict[str, str]:
        """This engine, with a note about its export."""
        return {self.name: self.note}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source, best first."""
        return self.submit(sources, settings, prefixes).result()

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> CTranslate2Search:
        """Queue what ``search`` does for CTranslate2's own threads."""
        reasons = [
            *unsupported_search(settings),
            *unsupported_prefixes(prefixes),
            *unsupported_lengths(self.opened, sources, settings),
        ]
        if reasons:
            raise SettingsError([str(each) for each in reasons])
        model = self.opened.weights.model  # not read if this engine alone is used
        if model is not None and model.interventions:
            raise UsageError(
                f"{', '.join(model.interventions)}: interventions are hooks in the "
                "model, which its export to CTranslate2 does not have; use the engine "
                "torch or auto"
            )
        lengths = [len(source) for source in sources]
        batches = [
            self.batch(
                indices, sources, settings, settings.max_length(lengths[indices[0]])
            )
            for indices in self.workers.batches(lengths, settings.beam)
        ]
        for batch in batches:
            self.workers.enqueue(batch)
        return CTranslate2Search(self, sources, settings, batches)

    def batch(
        self,
        indices: Sequence[int],
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        limit: int,
        *,
        suppress: Set[str] = frozenset(),
    ) -> Batch:
        """Return the batch of the sources at these indices, the longest first.

        Outputs have none of the pieces in ``suppress``.
        """
        num_hypotheses = settings.outputs_to_finish
        arguments = {
            **self.fixed,
            "beam_size": settings.beam,
            # All of them: their lengths tell whether a limit was exceeded.
            "num_hypotheses": num_hypotheses,
            "patience": num_hypotheses / settings.beam,
            "length_penalty": length_penalty(settings),
            "max_decoding_length": limit,
        }
        if suppress:
            arguments["suppress_sequences"] = [[piece] for piece in sorted(suppress)]
        # Beam search computes them anyway; greedy search saves a softmax per token.
        arguments["return_scores"] = settings.scores or settings.beam > 1
        pieces = self.source_pieces

        def submit() -> Sequence[Any]:
            results: Sequence[Any] = self.workers.translator(
                len(sources)
            ).translate_batch(
                [[pieces[token] for token in sources[index]] for index in indices],
                asynchronous=True,
                return_end_token=True,
                **arguments,
            )
            return results

        return Batch(indices, limit, submit)

    @contextmanager
    def _export(self) -> Iterator[Path]:
        if self.folder is not None:
            yield self.folder
            return
        with cached_export(
            self.opened, target=CTRANSLATE2, quantization=self.precision
        ) as kept:
            self.note = self.note or kept.note
            yield kept.folder

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return whether ``search`` supports these settings."""
        return not unsupported_search(settings)

    def forbidden_pieces(self, source: Sequence[int]) -> frozenset[str]:
        """Return the pieces that no output of a source may contain."""
        placeholder = self.opened.texts.source_placeholder
        if placeholder is None or placeholder in source:
            return FORBIDDEN_PIECES
        return FORBIDDEN_PIECES | {PLACEHOLDER}

    def hypotheses(
        self,
        found: Sequence[Sequence[str]],
        scores: Sequence[float],
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Convert the outputs of a source, pieces with END, to hypotheses.

        Without ``scores``, those of the hypotheses are NaN.
        """
        hypotheses = []
        for rank, pieces in enumerate(found):
            finished = bool(pieces) and pieces[-1] == _END
            without_end = pieces[:-1] if finished else pieces
            tokens = tuple(map(self.target_ids.__getitem__, without_end))
            total = score = math.nan
            if scores:
                total = scores[rank] * len(pieces) ** length_penalty(settings)
                score = total / settings.penalty(max(len(pieces), 1))
            hypotheses.append(Hypothesis(tokens, total, score, finished))
        return hypotheses


@dataclass(frozen=True, slots=True)
class CTranslate2Search:
    """The future of a search: batches that CTranslate2's threads work on."""

    engine: CTranslate2Engine
    sources: Sequence[Sequence[int]]
    settings: DecodingSettings
    batches: Sequence[Batch]

    def done(self) -> bool:
        """Return whether every batch is done; keep the workers' queues filled."""
        self.engine.workers.fill_queues()
        # The last batch mostly ends last, so False is found at once.
        return all(each.done() for each in reversed(self.batches))

    def result(self) -> Outputs:
        """Wait for the batches; search those sentences again that need it."""
        found: Outputs = [[] for _ in self.sources]
        again = defaultdict(list)
        max_length = cache(self.settings.max_length)
        for batch in self.batches:
            for index, result in self.engine.workers.results(batch):
                outputs = result.hypotheses
                limit = max_length(len(self.sources[index]))
                # At its limit ours completes unfinished outputs too: so >=, not >.
                too_long = limit < batch.limit and max(map(len, outputs)) >= limit
                forbidden = self.engine.forbidden_pieces(self.sources[index])
                if all(map(forbidden.isdisjoint, outputs)):
                    forbidden = frozenset()
                if too_long or forbidden:
                    again[limit, forbidden].append(index)
                else:
                    found[index] = self._best(outputs, result.scores)
        second_batches = [
            self.engine.batch(
                indices, self.sources, self.settings, limit, suppress=forbidden
            )
            for (limit, forbidden), indices in again.items()
        ]
        for batch in second_batches:
            self.engine.workers.submit(batch)
        for batch in second_batches:
            for index, result in self.engine.workers.results(batch):
                found[index] = self._best(result.hypotheses, result.scores)
        return found

    def cancel(self) -> None:
        """Do nothing: batches still queued are dropped with this object."""

    def _best(
        self, found: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> list[Hypothesis]:
        count = self.settings.num_best
        return self.engine.hypotheses(found[:count], scores[:count], self.settings)


def length_penalty(settings: DecodingSettings) -> float:
    """Return CTranslate2's exponent, which has no effect in greedy search."""
    exponent = settings.alpha if settings.length_penalty == "n^alpha" else 0.0
    return exponent or TINY_EXPONENT

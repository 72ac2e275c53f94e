"""The engine for throughput on a CPU: CTranslate2, on an export of the model.

It finds the words that the torch engine finds, where it can search in that way at all.
Two of its habits are answered by a second search for the few sentences they touch: one
limit of the length holds for a batch, and what may not be written (pad, START) is taken
out of all probabilities, where ours leave the others as the model gives them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError, UsageError
from headwise.inference.engines.ctranslate2_support import (
    reasons_against_lengths,
    reasons_against_model,
    reasons_against_prefixes,
    reasons_against_search,
)
from headwise.inference.engines.ctranslate2_workers import Batch, Workers
from headwise.inference.engines.threads import num_threads
from headwise.interop.ctranslate2 import (
    ALMOST_NO_PENALTY,
    translate_batch_arguments,
)
from headwise.interop.export_cache import kept_export
from headwise.interop.limits import CTRANSLATE2, QUANTIZATIONS
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation.text_codec import NEVER_WRITTEN
from headwise.text.vocabulary import END, SPECIALS

_END = SPECIALS[END]

NEVER = frozenset(SPECIALS[each] for each in NEVER_WRITTEN)
"""The pieces of what a search never chooses."""


class CTranslate2Engine:
    """Searches in CTranslate2, with an export that is kept beside the model.

    ``folder`` names an export of ``opened`` that is there already. ``note`` is what a
    user should know of the export; empty where there is nothing new.
    """

    name = CTRANSLATE2

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        folder: Path | None = None,
    ) -> None:
        reasons = [str(each) for each in reasons_against_model(opened)]
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
        """This engine, with what should be known of its export."""
        return {self.name: self.note}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.begin(sources, settings, prefixes).outputs()

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> CTranslate2Search:
        """Begin what ``search`` does; threads of CTranslate2's own work at it."""
        reasons = [
            *reasons_against_search(settings),
            *reasons_against_prefixes(prefixes),
            *reasons_against_lengths(self.opened, sources, settings),
        ]
        if reasons:
            raise SettingsError([str(each) for each in reasons])
        lengths = [len(source) for source in sources]
        batches = [
            self.batch(
                numbers, sources, settings, settings.max_length(lengths[numbers[0]])
            )
            for numbers in self.workers.batches(lengths, settings.beam)
        ]
        for batch in batches:
            self.workers.add(batch)
        return CTranslate2Search(self, sources, settings, batches)

    def batch(
        self,
        numbers: Sequence[int],
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        limit: int,
        *,
        suppress: bool = False,
    ) -> Batch:
        """Return the search for the sources of these numbers, the longest first."""
        enough = settings.outputs_to_finish
        arguments = {
            **self.fixed,
            "beam_size": settings.beam,
            # All that it finds: the lengths tell whether a limit was passed.
            "num_hypotheses": enough,
            "patience": enough / settings.beam,
            "length_penalty": length_penalty(settings),
            "max_decoding_length": limit,
        }
        if suppress:
            arguments["suppress_sequences"] = [[piece] for piece in sorted(NEVER)]
        # A beam compares them anyway; greedily they cost a softmax for each token.
        arguments["return_scores"] = settings.scores or settings.beam > 1
        pieces = self.source_pieces

        def give() -> Sequence[Any]:
            results: Sequence[Any] = self.workers.translator(
                len(sources)
            ).translate_batch(
                [[pieces[token] for token in sources[number]] for number in numbers],
                asynchronous=True,
                return_end_token=True,
                **arguments,
            )
            return results

        return Batch(numbers, limit, give)

    @contextmanager
    def _export(self) -> Iterator[Path]:
        if self.folder is not None:
            yield self.folder
            return
        with kept_export(
            self.opened, target=CTRANSLATE2, quantization=self.precision
        ) as kept:
            self.note = self.note or kept.note
            yield kept.folder

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return not reasons_against_search(settings)

    def hypotheses(
        self,
        found: Sequence[Sequence[str]],
        scores: Sequence[float],
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Return what was found for a source, given as pieces, with END.

        Without ``scores``, those of the hypotheses are NaN.
        """
        hypotheses = []
        for place, pieces in enumerate(found):
            finished = bool(pieces) and pieces[-1] == _END
            written = pieces[:-1] if finished else pieces
            tokens = tuple(map(self.target_ids.__getitem__, written))
            total = score = math.nan
            if scores:
                total = scores[place] * len(pieces) ** length_penalty(settings)
                score = total / settings.penalty(max(len(pieces), 1))
            hypotheses.append(Hypothesis(tokens, total, score, finished))
        return hypotheses


@dataclass(frozen=True, slots=True)
class CTranslate2Search:
    """A search that was begun: batches that CTranslate2's threads work at."""

    engine: CTranslate2Engine
    sources: Sequence[Sequence[int]]
    settings: DecodingSettings
    batches: Sequence[Batch]

    def ready(self) -> bool:
        """Tell whether every batch has ended; see that nobody is idle."""
        self.engine.workers.go_on()
        # What was given last ends last: a search that goes on is quickly seen.
        return all(each.ready() for each in reversed(self.batches))

    def outputs(self) -> list[list[Hypothesis]]:
        """Wait for the batches; search again where a habit made a difference."""
        found: list[list[Hypothesis]] = [[] for _ in self.sources]
        again = defaultdict(list)
        max_length = cache(self.settings.max_length)
        for batch in self.batches:
            for number, result in self.engine.workers.results(batch):
                outputs = result.hypotheses
                limit = max_length(len(self.sources[number]))
                # At its limit ours also takes what has not ended: so not only beyond.
                late = limit < batch.limit and max(map(len, outputs)) >= limit
                wrong = not all(map(NEVER.isdisjoint, outputs))
                if late or wrong:
                    again[limit, wrong].append(number)
                else:
                    found[number] = self._best(outputs, result.scores)
        once_more = [
            self.engine.batch(
                numbers, self.sources, self.settings, limit, suppress=wrong
            )
            for (limit, wrong), numbers in again.items()
        ]
        for batch in once_more:
            self.engine.workers.give(batch)
        for batch in once_more:
            for number, result in self.engine.workers.results(batch):
                found[number] = self._best(result.hypotheses, result.scores)
        return found

    def give_up(self) -> None:
        """Let the few batches that were handed out end by themselves."""

    def _best(
        self, found: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> list[Hypothesis]:
        most = self.settings.num_best
        return self.engine.hypotheses(found[:most], scores[:most], self.settings)


def length_penalty(settings: DecodingSettings) -> float:
    """Return CTranslate2's exponent; for one hypothesis it changes no word."""
    chosen = settings.alpha if settings.length_penalty == "n^alpha" else 0.0
    return chosen or ALMOST_NO_PENALTY

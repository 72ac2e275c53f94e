"""The engine for throughput on a CPU: CTranslate2, on an export of the model.

It finds the words that the torch engine finds, where it can search in that way at all.
Two of its habits are answered by a second search for the few sentences they touch: one
limit of the length holds for a call, and what may not be written (pad, START) is taken
out of all probabilities, where ours leave the others as the model gives them.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.engines.reasons import (
    reasons_against_lengths,
    reasons_against_model,
    reasons_against_prefixes,
    reasons_against_search,
)
from headwise.errors import ResourceError, SettingsError, UsageError
from headwise.interop.ctranslate2 import (
    ALMOST_NO_PENALTY,
    QUANTIZATIONS,
    translate_batch_arguments,
)
from headwise.interop.kept import KeptExport, kept_export
from headwise.interop.limits import CTRANSLATE2
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation import NEVER_WRITTEN
from headwise.text.vocabulary import END, SPECIALS

BATCH_TOKENS = 2048
"""Source positions searched at a time, padding counted."""


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
        self._own = self._opened_export(torch.get_num_threads())
        self._process = os.getpid()
        self.fixed, _ = translate_batch_arguments(opened)
        pair = opened.tokenizers
        self.source_pieces = pair.source.pieces(range(pair.source.size))
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
        reasons = [
            *reasons_against_search(settings),
            *reasons_against_prefixes(prefixes),
            *reasons_against_lengths(self.opened, sources, settings),
        ]
        if reasons:
            raise SettingsError([str(each) for each in reasons])
        limits = [settings.max_length(len(source)) for source in sources]
        together = max(limits, default=0)
        found = self._found(sources, settings, together, suppress=False)
        again = defaultdict(list)
        for number, (outputs, limit) in enumerate(zip(found, limits, strict=True)):
            # At its limit ours also takes what has not ended: so not only beyond it.
            late = limit < together and any(length >= limit for _, length in outputs)
            wrong = any({*NEVER_WRITTEN} & {*each.tokens} for each, _ in outputs)
            if late or wrong:
                again[limit, wrong].append(number)
        for (limit, wrong), numbers in again.items():
            chosen = [sources[number] for number in numbers]
            better = self._found(chosen, settings, limit, suppress=wrong)
            for number, outputs in zip(numbers, better, strict=True):
                found[number] = outputs
        return [
            [hypothesis for hypothesis, _ in outputs[: settings.num_best]]
            for outputs in found
        ]

    def _translator(self) -> Any:
        """Return the translator of this process; one that was forked has none yet.

        The copy of its parent's would wait for threads that were not copied. A second
        thread of OpenMP would wait for those of its parent, so there is one.
        """
        if self._process != os.getpid():
            self._own = self._opened_export(1)
            self._process = os.getpid()
        return self._own

    def _opened_export(self, threads: int) -> Any:
        try:
            import ctranslate2
        except (ImportError, OSError) as error:
            raise UsageError(
                f"the package ctranslate2 is installed and cannot be used here "
                f"({error}); install it again, or --engine torch"
            ) from None
        with (
            kept_export(self.opened, target=CTRANSLATE2, quantization=self.precision)
            if self.folder is None
            else nullcontext(KeptExport(self.folder))
        ) as kept:
            self.note = kept.note
            try:
                opened = ctranslate2.Translator(
                    str(kept.folder),
                    compute_type="int8" if self.precision == "int8" else "float32",
                    inter_threads=1,
                    intra_threads=threads,
                )
            except (RuntimeError, ValueError) as error:
                raise ResourceError(
                    f"ctranslate2 {ctranslate2.__version__} does not open "
                    f"{kept.folder}: {error}; --engine torch would do"
                ) from None
        os.register_at_fork(after_in_child=_never_deleted(opened))
        return opened

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return not reasons_against_search(settings)

    def _found(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        limit: int,
        *,
        suppress: bool,
    ) -> list[list[tuple[Hypothesis, int]]]:
        """Return all hypotheses of each source, with their lengths, END counted."""
        arguments = {
            **self.fixed,
            "beam_size": settings.beam,
            "num_hypotheses": settings.beam,
            "length_penalty": length_penalty(settings),
            "max_decoding_length": limit,
        }
        if suppress:
            arguments["suppress_sequences"] = [
                [SPECIALS[each]] for each in NEVER_WRITTEN
            ]
        results = self._translator().translate_batch(
            [[self.source_pieces[token] for token in source] for source in sources],
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            return_scores=True,
            return_end_token=True,
            **arguments,
        )
        alpha = arguments["length_penalty"]
        return [list(self._hypotheses(each, settings, alpha)) for each in results]

    def _hypotheses(
        self, result: Any, settings: DecodingSettings, alpha: float
    ) -> Iterator[tuple[Hypothesis, int]]:
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            length = len(pieces)
            finished = bool(pieces) and pieces[-1] == SPECIALS[END]
            tokens = tuple(self.target_ids[piece] for piece in pieces)
            total = score * length**alpha
            yield (
                Hypothesis(
                    tokens[:-1] if finished else tokens,
                    total,
                    total / settings.penalty(max(length, 1)),
                    finished,
                ),
                length,
            )


def _never_deleted(translator: Any) -> Callable[[], None]:
    """Return what keeps it in a forked process, where its deletion would not end.

    It waits for its threads, and these were not copied.
    """
    there = weakref.ref(translator)

    def keep() -> None:
        if (kept := there()) is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    return keep


def length_penalty(settings: DecodingSettings) -> float:
    """Return CTranslate2's exponent; for one hypothesis it changes no word."""
    chosen = settings.alpha if settings.length_penalty == "n^alpha" else 0.0
    return chosen or ALMOST_NO_PENALTY

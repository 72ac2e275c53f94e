"""The engine for throughput on a CPU: CTranslate2, on an export of the model.

It finds the words that the torch engine finds, where it can search in that way at all.
Two of its habits are answered by a second search for the few sentences they touch: one
limit of the length holds for a call, and what may not be written (pad, START) is taken
out of all probabilities, where ours leave the others as the model gives them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError, UsageError
from headwise.interop.ctranslate2 import (
    ALMOST_NO_PENALTY,
    QUANTIZATIONS,
    translate_batch_arguments,
)
from headwise.interop.kept import kept_export
from headwise.interop.limits import CTRANSLATE2, reasons_against
from headwise.run_folder.model_folder import ModelFolder
from headwise.tasks.translation import NEVER_WRITTEN
from headwise.text.vocabulary import END, SPECIALS

BATCH_TOKENS = 2048
"""Source positions searched at a time, padding counted."""


class CTranslate2Engine:
    """Searches in CTranslate2, with an export that is kept beside the model.

    ``folder`` names an export of ``opened`` that is there already.
    """

    name = CTRANSLATE2

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        folder: Path | None = None,
    ) -> None:
        reasons = reasons_against_ctranslate2(opened)
        if precision not in QUANTIZATIONS:
            reasons.append(
                f"--precision must be one of {', '.join(QUANTIZATIONS)}, "
                f"not {precision!r}"
            )
        if reasons:
            raise UsageError("; ".join(reasons))
        import ctranslate2

        if folder is None:
            folder = kept_export(opened, target=CTRANSLATE2, quantization=precision)
        self.translator = ctranslate2.Translator(
            str(folder),
            compute_type="int8" if precision == "int8" else "float32",
            inter_threads=1,
            intra_threads=torch.get_num_threads(),
        )
        self.precision = precision
        self.fixed, _ = translate_batch_arguments(opened)
        pair = opened.tokenizers
        self.source_pieces = pair.source.pieces(range(pair.source.size))
        target_pieces = pair.target.pieces(range(pair.target.size))
        self.target_ids = {piece: number for number, piece in enumerate(target_pieces)}

    def search(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        reasons = reasons_against_search(settings)
        if reasons:
            raise SettingsError(reasons)
        limits = [settings.max_length(len(source)) for source in sources]
        together = max(limits, default=0)
        found = self._found(sources, settings, together, suppress=False)
        again = defaultdict(list)
        for number, (outputs, limit) in enumerate(zip(found, limits, strict=True)):
            late = limit < together and any(length > limit for _, length in outputs)
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
        results = self.translator.translate_batch(
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


def reasons_against_ctranslate2(opened: ModelFolder) -> list[str]:
    """Say why CTranslate2 cannot run this model here, if it cannot."""
    reasons = reasons_against(
        [CTRANSLATE2], opened.model.config, opened.tokenizers.settings
    )
    if opened.model.device.type != "cpu":
        reasons.append(
            f"the engine ctranslate2 is for the CPU, and the model was opened on "
            f"{opened.model.device}; --device cpu, or --engine torch"
        )
    if find_spec(CTRANSLATE2) is None:
        reasons.append(
            "the package ctranslate2 is not installed; pip install 'headwise[fast]', "
            "or --engine torch"
        )
    return reasons


def length_penalty(settings: DecodingSettings) -> float:
    """Return CTranslate2's exponent; for one hypothesis it changes no word."""
    chosen = settings.alpha if settings.length_penalty == "n^alpha" else 0.0
    return chosen or ALMOST_NO_PENALTY


def reasons_against_search(settings: DecodingSettings) -> list[str]:
    """Say why CTranslate2 cannot search in this way, if it cannot."""
    if settings.beam == 1:
        return []
    reasons = []
    if settings.length_penalty not in ("n^alpha", "none"):
        reasons.append(
            f"length_penalty = {settings.length_penalty!r} is none of CTranslate2's; "
            "'n^alpha' and 'none' are, or --engine torch has all"
        )
    if settings.stopping != "first-k":
        reasons.append(
            f"stopping = {settings.stopping!r} is no rule of CTranslate2's; 'first-k' "
            "is, or --engine torch has all"
        )
    return reasons

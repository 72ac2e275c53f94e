"""Searches over trained models: batches, and all that the settings ask for around them.

Letters used for sizes: R rows of a batch, S source positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.backends.api import DecoderBackend, Precision
from headwise.backends.pytorch.uncached_decoder import UncachedDecoder
from headwise.backends.select import make_decoder
from headwise.data.batches import cut_by_tokens
from headwise.decoding.ensemble import AVERAGES, Ensemble
from headwise.decoding.forced import forced
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.minimum_bayes_risk import by_expected_utility
from headwise.decoding.prefix import NO_PREFIX, Prefix
from headwise.decoding.search import Asked, search
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.metrics.utilities import UTILITIES
from headwise.model.attention_hooks import attention_seen
from headwise.model.transformer import Transformer
from headwise.tasks.translation.alignment import informed, links, weights_of_head
from headwise.tasks.translation.cross_attention import AttendingModel, cross_weights
from headwise.tasks.translation.prefix import fits, with_token, written_pieces
from headwise.tasks.translation.text_codec import NEVER_WRITTEN
from headwise.tasks.translation.threads import (
    abandonable,
    all_done,
    one_thread,
    shared_out,
)
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

SEARCH_TOKENS = 4096
"""Source positions of a batch, padding and beams counted; twice as many in bfloat16,
where each takes half as much memory."""

ON_A_GPU = 4
"""Times as many there: a step of few rows takes as long as one of many."""

SCORE_TOKENS = 2048
"""Positions scored at a time, each of which needs a score for the whole vocabulary."""

Models = Transformer | Sequence[Transformer]
"""One model, or several that search together."""


def models_of(models: Models) -> tuple[Transformer, ...]:
    """Return one model or several as several."""
    return (models,) if isinstance(models, Transformer) else tuple(models)


@dataclass(frozen=True)
class Searcher:
    """Tokenizers and models, ready to search; ``stop`` is asked before each batch."""

    tokenizers: TokenizerPair
    models: tuple[Transformer, ...]
    cached: bool
    stop: Callable[[], None]
    laid_out: dict[Transformer, DecoderBackend] = field(default_factory=dict)
    """What was laid out for writing before; what is out of date is made anew."""
    precision: Precision = "float32"
    compiled: bool | None = None
    """Whether to write by kernels in C where they can; see ``model.writing``."""
    deterministic: bool = False
    """Whether each sentence is computed alone, on one thread: the same bits always."""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings | Sequence[DecodingSettings],
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Find the outputs of each source, best first."""
        prefixes = prefixes or [NO_PREFIX] * len(sources)
        if isinstance(settings, DecodingSettings):
            settings = [settings] * len(sources)
        for name, given in (("prefixes", prefixes), ("settings", settings)):
            if len(given) != len(sources):
                raise UsageError(
                    f"{name} must be one for each source: there are {len(sources)} "
                    f"sources and {len(given)} {name}"
                )
        groups: dict[DecodingSettings, list[int]] = {}
        for number, each in enumerate(settings):
            groups.setdefault(each, []).append(number)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for each, numbers in groups.items():
            width = max(each.num_candidates, 1)
            sizes = [(len(sources[number]) + 1) * width for number in numbers]
            workers = self._workers(each)
            most = SEARCH_TOKENS * (2 if self.precision == "bf16" else 1)
            most *= 1 if self.models[0].device.type == "cpu" else ON_A_GPU
            cut = self._cut(sizes, shared_out(sum(sizes), workers, most=most))

            def searched(
                places: Sequence[int],
                ended: Event | None,
                settings: DecodingSettings = each,
                numbers: Sequence[int] = numbers,
            ) -> list[tuple[int, list[Hypothesis]]]:
                chosen = [numbers[place] for place in places]
                outputs = self._search_batch(
                    [sources[number] for number in chosen],
                    settings,
                    [prefixes[number] for number in chosen],
                    ended,
                )
                return list(zip(chosen, outputs, strict=True))

            with one_thread(self.deterministic):
                done = all_done(searched, cut, workers=workers, stop=self.stop)
            for number, outputs in (pair for batch in done for pair in batch):
                found[number] = outputs
        return found

    def _workers(self, settings: DecodingSettings) -> int:
        """Return how many batches may be searched at a time.

        Only what is laid out is: to see what a model looks at changes the model.
        """
        looking = settings.coverage or settings.alignments or settings.replace_unknown
        if looking or not self.cached or self.models[0].device.type != "cpu":
            return 1
        for model in self.models:
            self._laid_out(model)  # before several ask for it at once
        return torch.get_num_threads()

    def score(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Return each target as the hypothesis it would be for its source."""
        found: dict[int, Hypothesis] = {}
        sizes = [max(len(source), len(target)) + 1 for source, target in pairs]
        for places in self._batches(sizes, most=SCORE_TOKENS):
            targets = [pairs[place][1] for place in places]
            scored = forced(
                self._logits([pairs[place][0] for place in places], targets, settings),
                targets,
                end=END,
                score=settings.score,
            )
            found |= dict(zip(places, scored, strict=True))
        outputs = [found[number] for number in range(len(pairs))]
        return self._aligned([source for source, _ in pairs], outputs, settings)

    def alternatives(
        self,
        source: Sequence[int],
        prefix: Prefix,
        count: int,
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Return the best output for each of the likely tokens behind a prefix."""
        pieces = written_pieces(self.tokenizers.target)
        log_p = self._logits([source], [prefix.tokens], settings)[0, -1].log_softmax(-1)
        allowed = [
            token
            for token in log_p.argsort(descending=True, stable=True).tolist()
            if token not in NEVER_WRITTEN and fits(token, pieces, prefix)
        ][:count]
        begun = [with_token(prefix, token, pieces) for token in allowed]
        going_on = [each for each in begun if each.tokens[-1] != END]
        best = replace(settings, num_best=1)
        outputs = iter(self.search([source] * len(going_on), best, going_on))
        ended = self.score([(source, prefix.tokens)], settings)
        return [
            ended[0] if each.tokens[-1] == END else next(outputs)[0] for each in begun
        ]

    def _batches(self, sizes: Sequence[int], *, most: int) -> Iterator[list[int]]:
        """Cut numbers of sentences into batches; ask before each whether to stop."""
        with one_thread(self.deterministic):
            for batch in self._cut(sizes, most):
                self.stop()
                yield batch

    def _cut(self, sizes: Sequence[int], most: int) -> list[list[int]]:
        """Cut numbers of sentences into batches of similar sizes, in rising order."""
        order = sorted(range(len(sizes)), key=lambda number: sizes[number])
        if self.deterministic:
            return [[number] for number in order]
        longest: Any = np.array([sizes[number] for number in order], dtype=np.int64)
        starts = [*cut_by_tokens(longest, most), len(order)]
        return [order[first:last] for first, last in pairwise(starts)]

    def _search_batch(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix],
        ended: Event | None = None,
    ) -> list[list[Hypothesis]]:
        asked = Asked(
            source_lengths=[len(source) for source in sources],
            sources=sources,
            start=START,
            end=END,
            unknown=UNKNOWN,
            forbidden=NEVER_WRITTEN,
            prefixes=prefixes if any(prefixes) else (),
            pieces=self._pieces_for(settings, prefixes),
            device=self.models[0].device,
        )
        chosen = settings
        if settings.banned:
            chosen = replace(chosen, banned=self._normalized(settings.banned))
        if settings.choose != "score":
            chosen = replace(chosen, num_best=settings.num_candidates)
        decoder = self._decoder(settings, asked)
        if ended is not None:
            decoder = abandonable(decoder, ended)
        with torch.inference_mode():
            state = decoder.start(*self._padded(sources))
            found = search(decoder, state, chosen, asked)
        if settings.choose != "score":
            found = [self._chosen(each, settings) for each in found]
        flat = [each for outputs in found for each in outputs]
        repeated = [
            source
            for source, outputs in zip(sources, found, strict=True)
            for _ in outputs
        ]
        aligned = iter(self._aligned(repeated, flat, settings))
        return [[next(aligned) for _ in outputs] for outputs in found]

    def _decoder(self, settings: DecodingSettings, asked: Asked) -> Any:
        """Return the models as the one that searches ask for a next token."""
        longest = max(asked.max_lengths(settings))
        decoders: list[Any] = list(self.models)
        if self.cached and not settings.coverage:
            decoders = [self._laid_out(model) for model in self.models]
        elif not self.cached:
            decoders = [
                UncachedDecoder(model, length=longest, padding=PAD)
                for model in self.models
            ]
        if settings.coverage:
            decoders = [
                AttendingModel(model, decoder)
                for model, decoder in zip(self.models, decoders, strict=True)
            ]
        if len(decoders) == 1:
            return decoders[0]
        return Ensemble(decoders, average=settings.ensemble)

    def _laid_out(self, model: Transformer) -> DecoderBackend:
        kept = self.laid_out.get(model)
        if kept is None or not kept.is_current(model):
            kept = make_decoder(model, self.precision, native=self.compiled)
            self.laid_out[model] = kept
        return kept

    def _pieces_for(
        self, settings: DecodingSettings, prefixes: Sequence[Prefix]
    ) -> Sequence[str]:
        if settings.banned or any(prefixes):
            return written_pieces(self.tokenizers.target)
        return ()

    def _normalized(self, phrases: Sequence[str]) -> tuple[str, ...]:
        """Spell phrases as outputs do; what cannot be written stays as it is."""
        target = self.tokenizers.target
        encoded = [target.encode(phrase) for phrase in phrases]
        return tuple(
            phrase if UNKNOWN in ids or not ids else target.decode(ids)
            for phrase, ids in zip(phrases, encoded, strict=True)
        )

    def _chosen(
        self, found: Sequence[Hypothesis], settings: DecodingSettings
    ) -> list[Hypothesis]:
        return by_expected_utility(
            found,
            [self.tokenizers.target.decode(each.tokens) for each in found],
            UTILITIES[settings.choose],
            sampled=settings.search == "sampling",
        )[: settings.num_best]

    def _aligned(
        self,
        sources: Sequence[Sequence[int]],
        outputs: Sequence[Hypothesis],
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Link outputs to their sources, where it is asked for."""
        if not settings.alignments:
            if not settings.replace_unknown:
                return list(outputs)
            wanted = [n for n, each in enumerate(outputs) if UNKNOWN in each.tokens]
        else:
            wanted = list(range(len(outputs)))
        found = list(outputs)
        sizes = [
            max(len(sources[number]), len(outputs[number].tokens)) + 1
            for number in wanted
        ]
        for places in self._batches(sizes, most=SCORE_TOKENS):
            numbers = [wanted[place] for place in places]
            targets = [outputs[number].tokens for number in numbers]
            weights = self.cross_weights(
                [sources[number] for number in numbers], targets
            )
            chosen = weights_of_head(weights, settings.alignment_head)
            for number, row, target in zip(numbers, chosen, targets, strict=True):
                linked = links(row, sources[number], target)
                found[number] = replace(found[number], alignment=linked)
        return found

    def best_head(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> tuple[str, dict[str, float]]:
        """Return the head whose links say most, and what each says in nats.

        See ``informed``: no one must have aligned the pairs by hand.
        """
        config = self.models[0].config
        names = [
            f"{block}:{head}{later}"
            for block in range(config.decoder_layers)
            for head in range(config.num_heads)
            for later in ("", "+1")
        ]
        names.append("average")
        linked: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        sizes = [max(len(source), len(target)) + 1 for source, target in pairs]
        for places in self._batches(sizes, most=SCORE_TOKENS):
            sources = [pairs[place][0] for place in places]
            targets = [pairs[place][1] for place in places]
            weights = self.cross_weights(sources, targets)
            for name in names:
                chosen = weights_of_head(weights, name)
                for row, source, target in zip(chosen, sources, targets, strict=True):
                    linked[name] += [
                        (source[i], target[j]) for i, j in links(row, source, target)
                    ]
        said = {name: informed(linked[name]) for name in names}
        return max(names, key=lambda name: said[name]), said

    @torch.inference_mode()
    def cross_weights(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return what the first model looks at [R, N, H, T, S] as it writes targets."""
        model = self.models[0]
        target_in = self._shifted(targets)
        with attention_seen(model) as seen:
            model.decode(*_interleaved(self._padded(sources), target_in))
        return cross_weights(model, seen)

    @torch.inference_mode()
    def _logits(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        settings: DecodingSettings,
    ) -> Tensor:
        """Score what follows each token of each target, START first."""
        inputs = _interleaved(self._padded(sources), self._shifted(targets))
        if len(self.models) == 1:
            logits: Tensor = self.models[0](*inputs)
            return logits
        each = [model(*inputs).float().log_softmax(-1) for model in self.models]
        return AVERAGES[settings.ensemble](torch.stack(each))

    def _padded(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return sources with END [R, S], and what of them is real."""
        padded = _filled([[*source, END] for source in sources])
        padded = padded.to(self.models[0].device)
        return padded, padded != PAD

    def _shifted(self, targets: Sequence[Sequence[int]]) -> Tensor:
        shifted = _filled([[START, *target] for target in targets])
        return shifted.to(self.models[0].device)


def _interleaved(source: tuple[Tensor, Tensor], target: Tensor) -> tuple[Tensor, ...]:
    return source[0], target, source[1]


def _filled(rows: Sequence[Sequence[int]]) -> Tensor:
    padded = torch.full((len(rows), max(map(len, rows), default=0)), PAD)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids)
    return padded

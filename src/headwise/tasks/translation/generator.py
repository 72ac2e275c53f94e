"""The generator: searches with trained models, in batches and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from headwise.backends.api import DecoderBackend
from headwise.backends.precision import Precision
from headwise.backends.pytorch.uncached_decoder import UncachedDecoder
from headwise.backends.reference import why_reference_only
from headwise.backends.select_decoder import make_decoder
from headwise.data.token_budget import BATCH_TOKENS
from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.forced_prefix import NO_PREFIX, Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.logits_processors import exact_count
from headwise.decoding.minimum_bayes_risk import rank_by_expected_utility
from headwise.decoding.rule_context import Rule
from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.metrics.sentence_scores import SENTENCE_SCORES
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.tasks.translation.cross_attention import CoverageDecoder
from headwise.tasks.translation.pair_scorer import PairScorer, pad_sources
from headwise.tasks.translation.prefix_tokenization import (
    can_follow,
    extend_prefix,
    piece_texts,
)
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS, placeholder_token
from headwise.tasks.translation.thread_pool import (
    CheckStop,
    cut_batches,
    tokens_per_batch,
)
from headwise.tasks.translation.torch_threads import (
    run_in_torch_threads,
    single_threaded,
)
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

GPU_BATCH_FACTOR = 4
"""Factor of ``BATCH_TOKENS`` on a GPU, where a step takes as long for few rows as for
many."""


RulesOfBatch = Callable[[Sequence[int]], Sequence[Rule]]
"""The indices of the sources of a batch -> rules, for which they are 0, 1, ..."""


@dataclass(frozen=True)
class Generator:
    """Models, several as an ensemble, with their tokenizers, ready to search.

    ``check_stop`` is called before each batch, and may raise to end a search.
    """

    tokenizers: TokenizerPair
    models: tuple[EncoderDecoder, ...]
    cached: bool = True
    """Whether decoders keep a KV cache; if not, each step runs the whole model."""
    precision: Precision = "float32"
    native: bool | None = None
    """Whether to use the native backend (C kernels); None: if it is the fastest."""
    deterministic: bool = False
    """Whether each sentence is computed alone and on one thread, for equal bits."""
    check_stop: Callable[[], None] = lambda: None
    on_beam_step: OnBeamStep | None = None
    """Called after each step of a beam search; see ``decoding.beam_step_report``."""
    decoders: dict[EncoderDecoder, DecoderBackend] = field(default_factory=dict)
    """The decoder of each model; one with outdated weights is made anew."""

    @property
    def scorer(self) -> PairScorer:
        """Forced decoding with the same models."""
        return PairScorer(self.models, self.check_stop, self.deterministic)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings | Sequence[DecodingSettings],
        prefixes: Sequence[Prefix] | None = None,
        *,
        rules_of: RulesOfBatch | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source (tokens without END), best first.

        ``settings`` are for all sources or one for each; ``prefixes`` are forced.
        ``rules_of`` makes further rules for the outputs of a batch. Sources with equal
        settings are batched by length, one batch per thread.
        """
        prefixes = prefixes or [NO_PREFIX] * len(sources)
        if isinstance(settings, DecodingSettings):
            settings = [settings] * len(sources)
        for name, given in (("prefixes", prefixes), ("settings", settings)):
            if len(given) != len(sources):
                raise UsageError(
                    f"{name} must be one for each source: there are {len(sources)} "
                    f"sources and {len(given)} {name}"
                )
        by_settings: dict[DecodingSettings, list[int]] = {}
        for index, each in enumerate(settings):
            by_settings.setdefault(each, []).append(index)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for each, indices in by_settings.items():
            threads = self._num_threads(each)
            batches = self._batches(indices, sources, each, threads)
            jobs = [
                (
                    [sources[n] for n in batch],
                    each,
                    [prefixes[n] for n in batch],
                    rules_of(batch) if rules_of else (),
                )
                for batch in batches
            ]
            with single_threaded(self.deterministic):
                if threads > 1 and len(jobs) > 1:
                    # Largest first, so that all threads end at about the same time.
                    results = run_in_torch_threads(
                        lambda job, check_stop: self._search_batch(*job, check_stop),
                        jobs[::-1],
                        threads=threads,
                        check_stop=self.check_stop,
                    )[::-1]
                else:
                    results = []
                    for job in jobs:
                        self.check_stop()
                        results.append(self._search_batch(*job))
            for batch, outputs in zip(batches, results, strict=True):
                for index, hypotheses in zip(batch, outputs, strict=True):
                    found[index] = hypotheses
        return found

    def alternatives(
        self,
        source: Sequence[int],
        prefix: Prefix,
        count: int,
        settings: DecodingSettings,
    ) -> list[Hypothesis]:
        """Return the best hypothesis for each of ``count`` tokens after a prefix.

        They are the most probable tokens, best first.
        """
        texts = piece_texts(self.tokenizers.target)
        logits = self.scorer.logits([source], [prefix.tokens], settings)[0, -1]
        ranked = logits.log_softmax(-1).argsort(descending=True, stable=True).tolist()
        tokens = [
            token
            for token in ranked
            if token not in FORBIDDEN_TOKENS and can_follow(token, texts, prefix)
        ][:count]
        extended = [extend_prefix(prefix, token, texts) for token in tokens]
        unfinished = [each for each in extended if each.tokens[-1] != END]
        best = replace(settings, num_best=1)
        outputs = iter(self.search([source] * len(unfinished), best, unfinished))
        ended = [(source, prefix.tokens)] * (len(extended) - len(unfinished))
        finished = iter(self.scorer.score(ended, settings))
        return [
            next(finished) if each.tokens[-1] == END else next(outputs)[0]
            for each in extended
        ]

    def _num_threads(self, settings: DecodingSettings) -> int:
        """Return the number of batches that may be searched in parallel.

        1 if attention is recorded, which swaps ``attend`` on the shared modules; if
        interventions have hooks there; or if the steps of beams are reported.
        """
        records = settings.coverage or settings.alignments or settings.replace_unknown
        if records or not self.cached or self.models[0].device.type != "cpu":
            return 1
        if self.on_beam_step or any(map(why_reference_only, self.models)):
            return 1
        for model in self.models:
            self._cached_decoder(model)  # before several threads ask for it
        return torch.get_num_threads()

    def _batches(
        self,
        indices: Sequence[int],
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        threads: int,
    ) -> list[list[int]]:
        """Cut the sources at ``indices`` into batches of similar lengths."""
        width = max(settings.num_candidates, 1)
        sizes = [(len(sources[index]) + 1) * width for index in indices]
        # bfloat16 takes half as much memory.
        limit = BATCH_TOKENS * (2 if self.precision == "bf16" else 1)
        limit *= 1 if self.models[0].device.type == "cpu" else GPU_BATCH_FACTOR
        limit = tokens_per_batch(sum(sizes), threads, limit=limit)
        batches = cut_batches(sizes, limit, alone=self.deterministic)
        return [[indices[place] for place in batch] for batch in batches]

    def _search_batch(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix],
        rules: Sequence[Rule] = (),
        check_stop: CheckStop = lambda: None,
    ) -> list[list[Hypothesis]]:
        """Search one batch; ``check_stop`` is called before each step."""
        needs_pieces = settings.banned or any(prefixes)
        forbidden, copies = self._placeholders(sources)
        request = SearchRequest(
            source_lengths=[len(source) for source in sources],
            sources=sources,
            start=START,
            end=END,
            unknown=UNKNOWN,
            forbidden=(*FORBIDDEN_TOKENS, *forbidden),
            prefixes=prefixes if any(prefixes) else (),
            rules=[*rules, *copies],
            pieces=piece_texts(self.tokenizers.target) if needs_pieces else (),
            device=self.models[0].device,
            check_stop=check_stop,
            on_beam_step=self.on_beam_step,
        )
        of_search = settings
        if settings.banned:
            of_search = replace(of_search, banned=self._normalized(settings.banned))
        if settings.choose != "score":
            of_search = replace(of_search, num_best=settings.num_candidates)
        decoder = self._decoder(settings, request)
        with torch.inference_mode():
            state = decoder.start(*pad_sources(sources, self.models[0].device))
            found = search(decoder, state, of_search, request)
        if settings.choose != "score":
            found = [self._by_utility(each, settings) for each in found]
        if not (settings.alignments or settings.replace_unknown):
            return found
        pairs = [
            (source, each)
            for source, outputs in zip(sources, found, strict=True)
            for each in outputs
        ]
        aligned = iter(
            self.scorer.align(
                [source for source, _ in pairs], [each for _, each in pairs], settings
            )
        )
        return [[next(aligned) for _ in outputs] for outputs in found]

    def _placeholders(
        self, sources: Sequence[Sequence[int]]
    ) -> tuple[tuple[int, ...], list[Rule]]:
        """Return the placeholder as a forbidden token, or the rule that copies it.

        There is a rule if a source has placeholders: as many in its output.
        """
        pair = self.tokenizers
        in_target = placeholder_token(pair.target, pair.settings)
        if in_target is None:
            return (), []
        in_source = placeholder_token(pair.source, pair.settings)
        counts = [source.count(in_source) for source in sources]
        if not any(counts):
            return (in_target,), []
        return (), [exact_count(in_target, counts, END)]

    def _decoder(self, settings: DecodingSettings, request: SearchRequest) -> Any:
        """Return the decoder of the model, or of all models as an ensemble."""
        decoders: list[Any] = list(self.models)
        if not self.cached:
            length = max(request.max_lengths(settings))
            decoders = [
                UncachedDecoder(model, length=length, padding=PAD)
                for model in self.models
            ]
        elif not settings.coverage:
            decoders = [self._cached_decoder(model) for model in self.models]
        if settings.coverage:
            decoders = [
                CoverageDecoder(model, decoder)
                for model, decoder in zip(self.models, decoders, strict=True)
            ]
        if len(decoders) > 1:
            return Ensemble(decoders, average=settings.ensemble)
        return decoders[0]

    def _cached_decoder(self, model: EncoderDecoder) -> DecoderBackend:
        if why_reference_only(model):  # for a while, so it is not kept
            return make_decoder(model)
        decoder = self.decoders.get(model)
        if decoder is None or not decoder.is_current(model):
            decoder = make_decoder(model, self.precision, native=self.native)
            self.decoders[model] = decoder
        return decoder

    def _normalized(self, phrases: Sequence[str]) -> tuple[str, ...]:
        """Normalise phrases as the tokenizer does; keep what it cannot encode."""
        target = self.tokenizers.target
        encoded = [target.encode(phrase) for phrase in phrases]
        return tuple(
            phrase if UNKNOWN in ids or not ids else target.decode(ids)
            for phrase, ids in zip(phrases, encoded, strict=True)
        )

    def _by_utility(
        self, hypotheses: Sequence[Hypothesis], settings: DecodingSettings
    ) -> list[Hypothesis]:
        return rank_by_expected_utility(
            hypotheses,
            [self.tokenizers.target.decode(each.tokens) for each in hypotheses],
            SENTENCE_SCORES[settings.choose],
            sampled=settings.search == "sampling",
        )[: settings.num_best]

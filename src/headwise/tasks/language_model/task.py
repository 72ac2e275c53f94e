"""The language-modelling task: model, loss, generation, bound together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headwise.backends.api import DecoderBackend
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.reference import why_reference_only
from headwise.backends.select_decoder import make_decoder
from headwise.data.token_budget import BATCH_TOKENS
from headwise.decoding.beam_step_report import OnBeamStep
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.errors import UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.model.decoder_only import DecoderOnly
from headwise.tasks.description import ModelDescription
from headwise.tasks.language_model.loss import (
    language_model_loss,
    sliding_log_probabilities,
    two_pass_language_model_loss,
)
from headwise.tasks.language_model.settings import LanguageModelSettings
from headwise.tasks.language_model.sliding_context import SlidingContext
from headwise.tasks.prediction import Prediction
from headwise.tasks.task_defaults import TaskDefaults
from headwise.text.tokenizer import TokenizerPair
from headwise.text.vocabulary import END, PAD, START, UNKNOWN

LINE_TOKENS = 64
"""Most tokens with which ``predictions`` continues a line."""


@dataclass(frozen=True)
class LanguageModelling(TaskDefaults):
    """Trains and uses language models; the models themselves are arguments.

    ``context`` is the length of the windows that they are trained on, in tokens.
    """

    tokenizers: TokenizerPair
    settings: LanguageModelSettings
    check_stop: Callable[[], None] = lambda: None
    deterministic: bool = False
    context: int = 256

    name = "language_model"
    always_measured = ()
    loss = staticmethod(language_model_loss)
    two_pass_loss = staticmethod(two_pass_language_model_loss)

    def describe(self, config: TransformerConfig) -> ModelDescription:
        """Return what a model of this architecture is built from."""
        size = self.tokenizers.target.size
        return ModelDescription(
            task=self.name,
            config=config,
            source_vocab_size=size,
            target_vocab_size=size,
            options=self.settings,
        )

    def new_model(self, config: TransformerConfig, *, seed: int) -> DecoderOnly:
        """Make a model of this architecture for this vocabulary."""
        window, size = self.settings.window, self.tokenizers.target.size
        model = DecoderOnly(config, size, window=window, seed=seed)
        return use_backend(model, "auto")

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Tokens that are never generated."""
        return PAD, START, UNKNOWN

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts, without START and END."""
        return [self.tokenizers.target.encode(text) for text in texts]

    def generate(
        self,
        model: DecoderOnly,
        prompts: Sequence[str],
        decoding: DecodingSettings,
        *,
        on_token: Callable[[int], object] | None = None,
    ) -> list[list[Hypothesis]]:
        """Continue each prompt; return its hypotheses, best first, without the prompt.

        ``on_token`` is told of each token of the first output as soon as it is chosen,
        which needs one prompt, and a search that keeps one hypothesis.
        """
        sources = self.encode(prompts)
        results: dict[int, list[Hypothesis]] = {}
        for group in self._groups(sources, decoding):
            chosen = [sources[index] for index in group]
            found = self.search(model, chosen, decoding, on_token=on_token)
            results.update(zip(group, found, strict=True))
        return [results[index] for index in range(len(sources))]

    def _groups(
        self, sources: Sequence[Sequence[int]], decoding: DecodingSettings
    ) -> list[list[int]]:
        """Return which prompts are continued together.

        Those whose texts may outgrow the context are of one length, so that the context
        of all moves on at the same time: what is in a batch changes no text.
        """
        by_length: dict[int, list[int]] = {}
        for index, source in enumerate(sources):
            longest = 1 + len(source) + decoding.max_length(len(source))
            fits = longest <= self.context and not self.deterministic
            by_length.setdefault(0 if fits else 1 + len(source), []).append(index)
        groups = []
        for group in by_length.values():
            most = 1 if self.deterministic else max(1, BATCH_TOKENS // self.context)
            groups += [group[i : i + most] for i in range(0, len(group), most)]
        return groups

    def search(
        self,
        model: DecoderOnly,
        sources: Sequence[list[int]],
        decoding: DecodingSettings,
        *,
        on_token: Callable[[int], object] | None = None,
        on_beam_step: OnBeamStep | None = None,
    ) -> list[list[Hypothesis]]:
        """Continue prompts, which are tokens, in one batch: see :meth:`generate`.

        ``on_beam_step`` is told of each step of a beam
        (:mod:`headwise.decoding.beam_step_report`).
        """
        decoder: Any = SlidingContext(_decoder(model), self.context, model.device)
        if on_token is not None:
            if len(sources) != 1 or decoding.num_candidates > 1:
                raise UsageError(
                    "a text is streamed as it is generated only for one prompt, and "
                    "for greedy search or one sample"
                )
            decoder = _Streaming(decoder, on_token)
        request = SearchRequest(
            source_lengths=[len(source) for source in sources],
            sources=sources,
            start=START,
            end=END,
            unknown=UNKNOWN,
            forbidden=self.forbidden,
            device=model.device,
            check_stop=self.check_stop,
            on_beam_step=on_beam_step,
        )
        with evaluation_mode(model), torch.inference_mode():
            return search(decoder, decoder.start([*sources]), decoding, request)

    def text(self, prompt: str, hypothesis: Hypothesis) -> str:
        """Return a prompt with its continuation."""
        return prompt + self.tokenizers.target.decode(hypothesis.tokens)

    def predict(self, model: DecoderOnly, texts: Sequence[str]) -> list[str]:
        """Return how the model continues each line, to the end of the line."""
        return [each.output for each in self.predictions(model, texts)]

    def predictions(
        self,
        model: DecoderOnly,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return the most probable continuation of each line, token by token.

        It ends with the line, or after ``LINE_TOKENS``. ``decoding`` is for
        :meth:`generate`: here the same input always gives the same output.
        """
        settings = replace(
            greedy(), max_length_factor=0.0, max_length_offset=LINE_TOKENS
        )
        results = []
        given = [text for text in texts if text.strip()]
        found = iter(self.generate(model, given, settings) if given else [])
        for text in texts:
            if not text.strip():
                results.append(Prediction(output="", log_probability=0.0))
                continue
            best, *_ = next(found)
            line = self.tokenizers.target.decode(best.tokens).split("\n")[0]
            results.append(
                Prediction(output=line, log_probability=best.log_probability)
            )
        return results

    def log_probabilities(
        self, model: DecoderOnly, tokens: Sequence[int], *, stride: int | None = None
    ) -> Tensor:
        """Return ln p of each token of a text: see ``sliding_log_probabilities``.

        The stride is half of the context unless it is given. Raises ``UsageError`` for
        one that is longer than the context: tokens would be left out.
        """
        if stride is not None and stride > self.context:
            raise UsageError(
                f"the stride must be at most {self.context:,}, the tokens that the "
                f"model reads at once, not {stride:,}"
            )
        with evaluation_mode(model):
            return sliding_log_probabilities(
                model,
                tokens,
                context=self.context,
                stride=stride or max(1, self.context // 2),
                check_stop=self.check_stop,
            )

    def context_facts(self, stride: int | None) -> dict[str, int]:
        """Return what :meth:`log_probabilities` depends on, for a signature."""
        return {
            "context": self.context,
            "stride": stride or max(1, self.context // 2),
        }

    def vectors(self, model: DecoderOnly, texts: Sequence[str]) -> list[Tensor | None]:
        """Raise ``UsageError``: a decoder alone has no encoder."""
        raise UsageError(
            "a language model has no encoder, and so no vector of a text; use a model "
            "of another task, such as masked_language_model or translation"
        )

    def attention(self, model: DecoderOnly, source: str, target: str) -> None:
        """Return None: there is no cross-attention to show."""

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Raise ``UsageError``: a language model is measured by its loss."""
        raise UsageError(f"{metric} is no measure of a language model; use loss")


_decoders: WeakKeyDictionary[DecoderOnly, DecoderBackend] = WeakKeyDictionary()
"""Decoders by their model, as they hold copies of its weights."""


def _decoder(model: DecoderOnly) -> DecoderBackend:
    """Return a decoder for the weights of ``model`` as they are now."""
    if why_reference_only(model):  # for a while, so it is not kept
        return make_decoder(model)
    found = _decoders.get(model)
    if found is None or not found.is_current(model):
        found = _decoders[model] = make_decoder(model)
    return found


class _Streaming:
    """A decoder for one row that tells which token each step begins with."""

    def __init__(self, decoder: SlidingContext, on_token: Callable[[int], object]):
        self._decoder = decoder
        self._on_token = on_token
        self._started = False

    def start(self, prompts: list[list[int]]) -> Any:
        return self._decoder.start(prompts)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        if self._started:
            self._on_token(int(tokens[0]))
        self._started = True
        return self._decoder.step(tokens, state)

"""The masked-language-modelling task: model, loss and filled masks, bound together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.select_encoder import encode_padded
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.data.token_budget import BATCH_TOKENS
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.evaluation_mode import evaluation_mode
from headwise.metrics.score import Score
from headwise.model.config import TransformerConfig
from headwise.tasks.encoder_batches import mean_vectors
from headwise.tasks.encoder_task import EncoderTask
from headwise.tasks.masked_language_model.masking import EVERY, mask_batch, mask_every
from headwise.tasks.masked_language_model.model import (
    MaskedLanguageModel,
    masked_token_loss,
)
from headwise.tasks.prediction import Prediction
from headwise.text.normalization import one_line
from headwise.text.vocabulary import SPECIALS, START, UNKNOWN
from headwise.text.windows import windows

MASK = "[MASK]"
"""What stands in the place of a word that is to be found."""


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelling(EncoderTask):
    """Trains and uses models that find masked tokens again.

    ``max_tokens`` is the length of the windows that they are trained on.
    """

    name = "masked_language_model"
    always_measured = ()
    loss = staticmethod(masked_token_loss)

    def new_model(self, config: TransformerConfig, *, seed: int) -> MaskedLanguageModel:
        """Make a model of this architecture for this vocabulary."""
        size = self.tokenizers.source.size
        return use_backend(MaskedLanguageModel(config, size, seed=seed), "auto")

    def training_batch(self, batch: Batch, random: np.random.PCG64) -> Batch:
        """Return windows with masks, and what they hide as labels."""
        return mask_batch(
            batch,
            random,
            rate=self.settings.mask_rate,
            vocab_size=self.tokenizers.source.size,
        )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts; UNKNOWN stands where a text has ``MASK``."""
        return [self.encode_with_masks(text)[0] for text in texts]

    def encode_with_masks(self, text: str) -> tuple[list[int], list[bool]]:
        """Return the tokens of a text, and which of them stand for ``MASK``."""
        before, *others = text.split(MASK)
        tokens = self.tokenizers.source.encode(before)
        is_mask = [False] * len(tokens)
        for part in others:
            after = self._encode_after_mask(part)
            tokens += [UNKNOWN, *after]
            is_mask += [True, *[False] * len(after)]
        return tokens, is_mask

    def _encode_after_mask(self, part: str) -> list[int]:
        """Return the tokens of what follows a mask, as they are if a word stands there.

        A mark without a space before it then has no token of a word's start, which
        SentencePiece puts before any text.
        """
        tokenizer = self.tokenizers.source
        tokens = tokenizer.encode(part)
        if part[:1].strip() and tokens and not tokenizer.decode(tokens[:1]):
            return tokens[1:]
        return tokens

    def predict(self, model: MaskedLanguageModel, texts: Sequence[str]) -> list[str]:
        """Return each text with every ``EVERY``-th token as the model fills it in.

        The others stay, so that training shows what has been learned.
        """
        with evaluation_mode(model), torch.inference_mode():
            return [self._filled_in(model, text) for text in self.encode(texts)]

    def _filled_in(self, model: MaskedLanguageModel, tokens: Sequence[int]) -> str:
        found: list[int] = []
        for window in windows(tokens, self.max_tokens):
            self.check_stop()
            row = torch.tensor(window, device=model.device)
            text = RaggedTokens.from_lengths(row, row.new_tensor([len(row)]))
            masked, chosen = mask_every(text, EVERY // 2)
            if chosen.any():
                row[chosen] = _best_tokens(model(masked, chosen))[1]
            found += row.tolist()
        return self.tokenizers.source.decode(found)

    def predictions(
        self,
        model: MaskedLanguageModel,
        texts: Sequence[str],
        decoding: DecodingSettings | None = None,
    ) -> list[Prediction]:
        """Return each text with the most probable token in place of each mask.

        The log-probability is that of these tokens, each by itself. A text without
        masks comes back as it is, with its pseudo-log-likelihood: the sum over all
        tokens, each masked in turn (Salazar et al. 2020). A text of more than
        ``max_tokens`` is read in parts.
        """
        with evaluation_mode(model), torch.inference_mode():
            return [self._prediction(model, text) for text in texts]

    def _prediction(self, model: MaskedLanguageModel, text: str) -> Prediction:
        tokens, is_mask = self.encode_with_masks(text)
        if not tokens:
            return Prediction(output="", log_probability=0.0)
        self.check_stop()
        if not any(is_mask):
            total = sum(
                self._pseudo_log_likelihood(model, window)
                for window in windows(tokens, self.max_tokens)
            )
            return Prediction(output=one_line(text), log_probability=total)
        found: list[int] = []
        total = 0.0
        for window in windows(tokens, self.max_tokens):
            row = torch.tensor(window, device=model.device)
            texts = RaggedTokens.from_lengths(row, row.new_tensor([len(row)]))
            here = is_mask[len(found) : len(found) + len(row)]
            chosen = torch.tensor(here, device=model.device)
            best, row[chosen] = _best_tokens(model(texts, chosen))
            total += best.sum().item()
            found += row.tolist()
        return Prediction(
            output=self._with_fillings(text, found, is_mask), log_probability=total
        )

    def _with_fillings(
        self, text: str, tokens: Sequence[int], is_mask: Sequence[bool]
    ) -> str:
        """Return a text with the token at each mask in its place; the rest stays."""
        decode = self.tokenizers.source.decode
        first, *others = one_line(text).split(MASK)
        written = first
        masks = (place for place, masked in enumerate(is_mask) if masked)
        for place, after in zip(masks, others, strict=True):
            before = decode(tokens[max(0, place - 1) : place])
            filling = decode(tokens[max(0, place - 1) : place + 1])
            filling = filling.removeprefix(before)
            if not written or written[-1].isspace():
                filling = filling.lstrip()
            written += filling + after
        return written

    def _pseudo_log_likelihood(
        self, model: MaskedLanguageModel, window: Sequence[int]
    ) -> float:
        row = torch.tensor(window, device=model.device)
        total = 0.0
        at_once = 1 if self.deterministic else max(1, BATCH_TOKENS // len(row))
        for places in torch.split(torch.arange(len(row)), at_once):
            copies = row.repeat(len(places), 1)
            copies[torch.arange(len(places)), places] = UNKNOWN
            chosen = torch.zeros_like(copies, dtype=torch.bool)
            chosen[torch.arange(len(places)), places] = True
            lengths = row.new_full((len(places),), len(row))
            texts = RaggedTokens.from_lengths(copies.view(-1), lengths)
            log_p = model(texts, chosen.view(-1)).float().log_softmax(dim=1)
            total += log_p.gather(1, row[places, None]).sum().item()
        return total

    def log_probabilities(
        self, model: MaskedLanguageModel, tokens: Sequence[int]
    ) -> Tensor:
        """Return ln p of each token of a text [N], from those around it.

        The text is cut into windows of ``max_tokens``; ``EVERY`` passes mask each
        token once. NaN stands at special symbols, which are never masked.
        """
        assert self.max_tokens is not None
        text = torch.tensor(tokens, device=model.device)
        found = torch.full((len(text),), torch.nan)
        size = self.max_tokens
        rows = max(1, BATCH_TOKENS // size)
        with evaluation_mode(model), torch.inference_mode():
            for start in range(0, len(text), rows * size):
                part = text[start : start + rows * size]
                lengths = [len(each) for each in torch.split(part, size)]
                texts = RaggedTokens.from_lengths(part, part.new_tensor(lengths))
                for first in range(EVERY):
                    self.check_stop()
                    masked, chosen = mask_every(texts, first)
                    log_p = model(masked, chosen).float().log_softmax(dim=1)
                    at = start + chosen.nonzero()[:, 0].cpu()
                    labels = part[chosen][:, None]
                    found[at] = log_p.gather(1, labels)[:, 0].cpu()
        return found

    def context_facts(self, stride: None) -> dict[str, int]:
        """Return what :meth:`log_probabilities` depends on, for a signature."""
        assert self.max_tokens is not None
        return {"context": self.max_tokens, "masked_every": EVERY}

    def vectors(
        self, model: MaskedLanguageModel, texts: Sequence[str]
    ) -> list[Tensor | None]:
        """Return the mean of the encoder's output [D] for each text; None for none."""

        def run(batch: RaggedTokens) -> Tensor:
            batch = batch.shifted(START)  # which drops END
            return mean_vectors(encode_padded(model.encoder_only, batch), batch.is_real)

        return self.rows_of_texts(model, texts, run)

    def measure(
        self,
        metric: str,
        outputs: Sequence[str],
        references: Sequence[str],
        *,
        resamples: int | None = None,
    ) -> Score:
        """Raise ``UsageError``: a masked language model is measured by its loss."""
        raise UsageError(f"{metric} is no measure of a masked language model; use loss")


def _best_tokens(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return ln p of the best token of each row, and which it is; none is special."""
    log_p = logits.float().log_softmax(dim=1)
    best, token = log_p[:, len(SPECIALS) :].max(dim=1)
    return best, token + len(SPECIALS)

"""The two trainers and generators of ``one_stack_speed.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from one_stack_speed import CONTEXT, MASKED, TEXTS, VOCABULARY
from torch import nn
from torch.nn import functional as F

from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.select_decoder import make_decoder
from headwise.backends.select_encoder import encode_batch
from headwise.backends.select_training import cross_entropy_of
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.decoding.greedy import greedy_search
from headwise.model import DecoderOnly, EncoderOnly, TransformerConfig
from headwise.model.heads import MaskedTokenHead
from headwise.training.allocator import keep_freed_memory
from headwise.training.optimizer import Optimizer
from headwise.training.settings import TrainingSettings
from one_stack.plain import PAD, PlainHead, PlainModel, generate

START, NONE = 1, -1
SIZE: dict[str, Any] = {
    "d_model": 128,
    "d_ff": 512,
    "num_heads": 4,
    "activation": "gelu",
    "attention_bias": True,
    "positions": "learned",
    "max_positions": CONTEXT,
}
GPT = TransformerConfig(
    encoder_layers=0, decoder_layers=4, norm="pre", dropout=0.0, **SIZE
)
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "feed_forward_dropout": 0.1}
BERT = TransformerConfig(
    encoder_layers=4,
    decoder_layers=0,
    norm="post",
    embedding_norm=True,
    **DROPOUT,
    **SIZE,
)


def make(case: str) -> Any:
    """Return the model of a case, and for training its texts."""
    if case == "generation":
        model = DecoderOnly(GPT, VOCABULARY, seed=1).eval()
        with torch.no_grad():  # new weights write the same token again and again
            for each in model.parameters():
                each += 0.1 * torch.randn(each.shape)
        return model
    shortest = 8 if "8 to 64" in case else CONTEXT
    lengths = torch.linspace(shortest, CONTEXT, TEXTS).round().long()
    texts = RaggedTokens.from_lengths(
        torch.randint(4, VOCABULARY, (int(lengths.sum()),)), lengths
    )
    if case.startswith("gpt"):
        config = replace(GPT, **DROPOUT) if "dropout" in case else GPT
        return DecoderOnly(config, VOCABULARY, seed=1).train(), texts
    return EncoderOnly(BERT, VOCABULARY, seed=1).train(), texts


def training(
    made: tuple[DecoderOnly | EncoderOnly, RaggedTokens], trainer: str
) -> tuple[Callable[[], float], int]:
    """Return what makes an update, and returns its loss; and its number of tokens."""
    model, texts = made
    is_gpt = isinstance(model, DecoderOnly)
    make_loss = TRAINERS["gpt" if is_gpt else "bert", trainer]
    modules, loss_of = make_loss(model, texts)
    if trainer == "plain":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(modules.parameters())
    else:
        keep_freed_memory()
        optimizer = Optimizer(modules, TrainingSettings())

    def update() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.item()

    return first_without_dropout(modules, loss_of, update), len(texts.tokens)


def first_without_dropout(
    modules: nn.Module, loss_of: Callable[[], Any], update: Callable[[], float]
) -> Callable[[], float]:
    """Return ``update``, which the first time returns a loss that can be compared."""
    modules.eval()
    first = [loss_of().item()]
    modules.train()

    def run() -> float:
        loss = update()
        return first.pop() if first else loss

    return run


def gpt_plain(model: DecoderOnly, texts: RaggedTokens) -> Any:
    """Return module and loss of the plain loop."""
    plain = PlainModel(model).train()
    target = texts.padded()
    given = F.pad(target, (1, 0), value=START)[:, :-1]
    mask = nn.Transformer.generate_square_subsequent_mask(given.shape[1])
    return plain, lambda: F.cross_entropy(
        plain.logits(plain(given, mask)).flatten(0, 1), target.flatten()
    )


def gpt_headwise(model: DecoderOnly, texts: RaggedTokens) -> Any:
    """Return model and loss of headwise."""
    use_backend(model, "auto")
    no_source = RaggedTokens.from_lengths(
        texts.tokens[:0], torch.zeros(len(texts), dtype=torch.long)
    )
    batch = Batch(no_source, texts, torch.arange(len(texts)))
    count = len(texts.tokens)
    return model, lambda: cross_entropy_of(model, batch, smoothing=0.0) / count


def bert_plain(model: EncoderOnly, texts: RaggedTokens) -> Any:
    """Return modules and loss of the plain loop: masked tokens alone are predicted."""
    head = MaskedTokenHead(model.config, VOCABULARY)
    plain = PlainModel(model)
    modules = nn.ModuleList([plain, PlainHead(head, model.config.d_model)]).train()
    tokens, chosen = texts.padded(), _chosen(texts)
    index = texts.padded_index[chosen]
    is_full = bool(texts.is_real.all())
    padding = None if is_full else tokens == PAD

    def loss_of() -> torch.Tensor:
        vectors = plain(tokens, padding=padding).flatten(0, 1)[index]
        logits = plain.logits(modules[1](vectors))
        return F.cross_entropy(logits, texts.tokens[chosen])

    return modules, loss_of


def bert_headwise(model: EncoderOnly, texts: RaggedTokens) -> Any:
    """Return modules and loss of headwise."""
    use_backend(model, "auto")
    modules = nn.ModuleList([model, MaskedTokenHead(model.config, VOCABULARY)])
    chosen = _chosen(texts)

    def loss_of() -> torch.Tensor:
        vectors = encode_batch(model, texts)[chosen]
        logits = modules[1](vectors, model.embedding.vectors)
        return F.cross_entropy(logits, texts.tokens[chosen])

    return modules.train(), loss_of


def _chosen(texts: RaggedTokens) -> torch.Tensor:
    count = len(texts.tokens)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    return order[: round(MASKED * count)]


TRAINERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("gpt", "plain"): gpt_plain,
    ("gpt", "headwise"): gpt_headwise,
    ("bert", "plain"): bert_plain,
    ("bert", "headwise"): bert_headwise,
}


def generation(model: DecoderOnly, trainer: str) -> Callable[[], list[int]]:
    """Return what writes a text of a whole context, greedily."""
    count = CONTEXT - 1
    if trainer == "plain":
        plain = PlainModel(model).eval()
        return lambda: generate(plain, START, count)
    decoder = make_decoder(model)
    nothing = torch.zeros(1, 0, dtype=torch.long)

    @torch.inference_mode()
    def write() -> list[int]:
        state = decoder.start(nothing, nothing.bool())
        (found,) = greedy_search(
            decoder,
            state,
            num_rows=1,
            start=START,
            end=NONE,
            max_lengths=[count],
        )
        return list(found.tokens)

    return write

"""The loop that one would write around ``torch.nn.Transformer``.

The paper's model (post-norm, shared embedding and output, sinusoids), label smoothing,
Adam and the warm-up schedule; eager, or compiled as its users do it, with torch as it
comes. bf16 is autocast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from training.batches import Pairs
from training.facts import (
    ADAM_BETAS,
    ADAM_EPSILON,
    LABEL_SMOOTHING,
    PAD,
    Setup,
    Size,
    learning_rate,
)


class PlainTransformer(nn.Module):
    """Embeddings and positions, torch's Transformer, and the tied output."""

    def __init__(self, size: Size, vocabulary: int, longest: int = 512) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(vocabulary, size.d_model, padding_idx=PAD)
        self.dropout = nn.Dropout(size.dropout)
        self.transformer = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.layers,
            size.layers,
            size.d_ff,
            size.dropout,
            batch_first=True,
        )
        self.output = nn.Linear(size.d_model, vocabulary, bias=False)
        for parameter in self.transformer.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        self.output.weight = self.embedding.weight
        self.register_buffer("positions", sinusoids(longest, size.d_model))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Score every next token of ``target``."""
        length = target.shape[1]
        causal = target.new_ones(length, length, dtype=torch.bool).triu(1)
        source_is_pad = source == PAD
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=source_is_pad,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source_is_pad,
            tgt_is_causal=True,
        )
        return self.output(hidden)

    def embed(self, tokens: Tensor) -> Tensor:
        """Look up, add positions, drop out."""
        x = self.embedding(tokens) * self.scale + self.positions[: tokens.shape[1]]
        return self.dropout(x)


def sinusoids(length: int, width: int) -> Tensor:
    """Compute the table of Section 3.5."""
    position = torch.arange(length)[:, None]
    angle = position * torch.exp(
        torch.arange(0, width, 2) * (-math.log(10000.0) / width)
    )
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def only_in_the_papers_places(model: PlainTransformer) -> None:
    """Take dropout out of attention weights and out of the feed-forward boxes."""
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(
            module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
        ):
            module.dropout.p = 0.0


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    torch.manual_seed(setup.seed)
    model = PlainTransformer(setup.size, setup.vocabulary).to(setup.device)
    if setup.places == "equal":
        only_in_the_papers_places(model)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=LABEL_SMOOTHING)
    optimizer = torch.optim.Adam(model.parameters(), betas=ADAM_BETAS, eps=ADAM_EPSILON)
    model.train()
    forward = torch.compile(model) if setup.compiled else model
    for step, batch in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, setup.size.d_model)
        source, target_in, target_out = (
            torch.from_numpy(side).to(setup.device)
            for side in (batch.source, batch.target_in, batch.target)
        )
        optimizer.zero_grad()
        with torch.autocast(setup.device, torch.bfloat16, enabled=setup.is_bf16):
            logits = forward(source, target_in)
            loss = criterion(logits.flatten(0, 1), target_out.flatten())
        loss.backward()
        optimizer.step()
        done(loss.item())

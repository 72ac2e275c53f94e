"""Hugging Face's MarianMTModel with fused attention, in the usual loop.

The optimizer is fused, as it is in Hugging Face's own Trainer by default. Marian has
dropout only in the paper's places by itself. Its loss has no label smoothing, so logits
are taken and the loss is torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel

from training.batches import Pairs
from training.facts import (
    ADAM_BETAS,
    ADAM_EPSILON,
    END,
    LABEL_SMOOTHING,
    PAD,
    START,
    Setup,
    learning_rate,
)


def make_model(setup: Setup) -> MarianMTModel:
    """Build Marian in the sizes of ``setup``; padding scores nothing by itself."""
    size = setup.size
    config = MarianConfig(
        vocab_size=setup.vocabulary,
        d_model=size.d_model,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        dropout=size.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
        bos_token_id=START,
        decoder_start_token_id=START,
        attn_implementation="sdpa",
    )
    return MarianMTModel(config)


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    torch.manual_seed(setup.seed)
    model = make_model(setup)
    optimizer = torch.optim.Adam(
        model.parameters(), betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True
    )
    model.train()
    for step, batch in enumerate(batches, start=1):
        rate = learning_rate(step, setup.size.d_model)
        done(update(model, optimizer, batch, setup, rate))


def update(
    model: MarianMTModel,
    optimizer: torch.optim.Optimizer,
    batch: Pairs,
    setup: Setup,
    rate: float,
) -> float:
    """Make one update; return the mean loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    source = torch.from_numpy(batch.source)
    target_in = torch.from_numpy(batch.target_in)
    target_out = torch.from_numpy(batch.target)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=setup.is_bf16):
        logits = model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target_in,
            use_cache=False,
        ).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=LABEL_SMOOTHING,
        )
    loss.backward()
    optimizer.step()
    return loss.item()

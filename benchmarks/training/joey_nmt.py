"""JoeyNMT: its model, loss, optimizer, schedule and ``TrainManager``, fed our batches.

Set as its example of a Transformer, with post-norm as it has by default there. Its loss
is a divergence: our cross-entropy less the entropy of the smoothed labels, a constant.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
from joeynmt.vocabulary import Vocabulary
from torch import nn

from training.batches import Pairs
from training.facts import (
    ADAM_BETAS,
    END,
    LABEL_SMOOTHING,
    PAD,
    START,
    UNKNOWN,
    WARMUP_STEPS,
    Setup,
)

SPECIALS = {PAD: "pad", START: "bos", END: "eos", UNKNOWN: "unk"}
NAMES = [f"<{name}>" for _, name in sorted(SPECIALS.items())]


class OurVocabulary(Vocabulary):
    """Its vocabulary with our numbers; by itself it puts *unknown* first."""

    def add_tokens(self, tokens: list[str]) -> None:
        """Add the special tokens in our order before all others."""
        super().add_tokens([*NAMES, *tokens])


class Recording(TrainManager):
    """Its training, which keeps the loss of each update to be asked for."""

    def _train_step(self, batch: Batch) -> tuple[float, int]:
        self.last = super()._train_step(batch)
        return self.last

    def _save_checkpoint(self, new_best: bool, score: float) -> None:
        """Save nothing: it would do so at the end."""


class Fed:
    """A corpus whose batches are ours."""

    def __init__(
        self, batches: Iterable[Pairs], manager: Recording, done: Callable[..., None]
    ) -> None:
        self.batches = batches
        self.manager = manager
        self.done = done
        self.batch_sampler = SimpleNamespace(set_seed=lambda seed: None)

    def make_iter(self, **settings: Any) -> Fed:
        """Return what yields batches."""
        return self

    def __iter__(self) -> Iterator[Batch]:
        """Yield each batch; the next is asked for when its update is made."""
        for batch in self.batches:
            source = torch.from_numpy(batch.source)
            target = torch.from_numpy(batch.target)
            starts = target.new_full((len(target), 1), START)
            yield Batch(
                src=source,
                src_length=(source != PAD).sum(dim=1),
                src_prompt_mask=None,
                trg=torch.cat([starts, target], dim=1),
                trg_prompt_mask=None,
                indices=torch.arange(len(source)),
                device=torch.device("cpu"),
                pad_index=PAD,
                eos_index=END,
            )
            self.done(self.manager.last[0])


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    torch.manual_seed(setup.seed)
    marks = {f"{name}_token": f"<{name}>" for name in SPECIALS.values()}
    marks |= {f"{name}_id": number for number, name in SPECIALS.items()}
    words = [f"word{n}" for n in range(UNKNOWN + 1, setup.vocabulary)]
    known = OurVocabulary(words, SimpleNamespace(**marks, sep_token=None, lang_tags=[]))
    size = setup.size
    box = {
        "type": "transformer",
        "num_layers": size.layers,
        "num_heads": size.num_heads,
        "embeddings": {
            "embedding_dim": size.d_model,
            "scale": True,
            "dropout": size.dropout,
        },
        "hidden_size": size.d_model,
        "ff_size": size.d_ff,
        "dropout": size.dropout,
        "layer_norm": "post",
    }
    model = build_model(
        {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": dict(box),
            "decoder": dict(box),
        },
        known,
        known,
    )
    if setup.places == "equal":
        for module in model.modules():
            if isinstance(module, MultiHeadedAttention):
                module.dropout.p = 0.0
            elif isinstance(module, PositionwiseFeedForward):
                inner = next(m for m in module.pwff_layer if isinstance(m, nn.Dropout))
                inner.p = 0.0
    model.loss_function = ("crossentropy", LABEL_SMOOTHING)
    arguments = parse_train_args(
        {
            "normalization": "tokens",
            "optimizer": "adam",
            "adam_betas": list(ADAM_BETAS),
            "scheduling": "noam",
            "learning_rate_warmup": WARMUP_STEPS,
            "learning_rate_min": 0.0,
            "learning_rate": 1e-8,
            "label_smoothing": LABEL_SMOOTHING,
            "epochs": 1,
            "updates": 10**9,
            "batch_size": 1,
            "logging_freq": 10**9,
            "validation_freq": 10**9,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        manager = Recording(
            rank=0,
            model=model,
            model_dir=Path(folder),
            device=torch.device("cpu"),
            autocast={
                "device_type": "cpu",
                "dtype": torch.bfloat16,
                "enabled": setup.is_bf16,
            },
            seed=setup.seed,
            train_args=arguments,
        )
        corpus = Fed(batches, manager, done)
        manager.train_and_validate(corpus, SimpleNamespace())

"""Eole: its configuration, model, loss, optimizer and ``Trainer``, fed our batches.

Set as its recipe for a translation model; normalisation comes before each box there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyonmttok
import torch
from eole.config.run import TrainConfig
from eole.models.model import get_model_class
from eole.modules.transformer_mlp import MLP
from eole.trainer import build_trainer
from eole.utils import Statistics
from eole.utils.optimizers import Optimizer

from training.batches import Pairs
from training.facts import (
    ADAM_BETAS,
    ADAM_EPSILON,
    LABEL_SMOOTHING,
    PAD,
    UNKNOWN,
    WARMUP_STEPS,
    Setup,
)
from training.onmt_family import Reports, sides

SPECIALS = {
    "pad_token": "<blank>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
}
"""Its names of our special tokens, in the order of their numbers."""


def configuration(setup: Setup) -> TrainConfig:
    """Return its settings: its defaults, but for what the setup says."""
    size = setup.size
    training = {
        "optim": "adam",
        "adam_beta1": ADAM_BETAS[0],
        "adam_beta2": ADAM_BETAS[1],
        "adam_eps": ADAM_EPSILON,
        "decay_method": "noam",
        "learning_rate": 1.0,
        "warmup_steps": WARMUP_STEPS,
        "max_grad_norm": 0,
        "label_smoothing": LABEL_SMOOTHING,
        "normalization": "tokens",
        "param_init_method": "xavier_uniform",
        "dropout": [size.dropout],
        "compute_dtype": "bf16" if setup.is_bf16 else "fp32",
        "world_size": 0,
        "gpu_ranks": [],
    }
    if setup.places == "equal":
        training["attention_dropout"] = [0.0]
    return TrainConfig(
        src_vocab="none",
        tgt_vocab="none",
        share_vocab=True,
        seed=setup.seed,
        data={},
        model={
            "architecture": "transformer",
            "layers": size.layers,
            "hidden_size": size.d_model,
            "transformer_ff": size.d_ff,
            "heads": size.num_heads,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {
                "word_vec_size": size.d_model,
                "position_encoding_type": "SinusoidalInterleaved",
            },
        },
        training=training,
    )


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    torch.manual_seed(setup.seed)
    settings = configuration(setup)
    names = list(SPECIALS.values())
    words = names + [f"word{n}" for n in range(UNKNOWN + 1, setup.vocabulary)]
    known = pyonmttok.build_vocab_from_tokens(words, special_tokens=names)
    known.default_id = UNKNOWN
    assert len(known) == setup.vocabulary
    assert known["<blank>"] == PAD
    vocabularies = {"src": known, "tgt": known, "specials": SPECIALS}
    vocabularies["decoder_start_token"] = SPECIALS["bos_token"]
    model = get_model_class(settings.model).for_training(
        settings.model, vocabularies, settings.training, device_id=-1
    )
    if setup.places == "equal":
        for module in model.modules():
            if isinstance(module, MLP):
                module.dropout_1.p = 0.0
    optimizer = Optimizer.from_config(model, settings)
    trainer = build_trainer(settings, -1, model, vocabularies, optimizer)
    trainer.report_manager = Reports(done, Statistics, tokens="n_tokens")
    trainer.train(fed(batches), 0, save_checkpoint_steps=0)


def fed(batches: Iterable[Pairs]) -> Iterator[tuple[dict[str, Any], int]]:
    """Give batches the form in which its readers yield them."""
    for batch in batches:
        rows = len(batch.source)
        yield (
            {
                **sides(batch),
                "images": None,
                "prefix_len": None,
                "cid": ["train"] * rows,
                "cid_line_number": list(range(rows)),
            },
            0,
        )

"""OpenNMT-py: its options, model, loss, optimizer and ``Trainer``, fed our batches.

Set as its documentation sets a Transformer; normalisation comes before each box there.
It has no bfloat16, so its model and loss are run under torch's autocast for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyonmttok
import torch
from onmt.model_builder import build_model
from onmt.modules.position_ffn import PositionwiseFeedForward
from onmt.opts import train_opts
from onmt.trainer import build_trainer
from onmt.utils import Statistics
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser

from training.batches import Pairs
from training.facts import (
    ADAM_BETAS,
    LABEL_SMOOTHING,
    PAD,
    UNKNOWN,
    WARMUP_STEPS,
    Setup,
)
from training.onmt_family import Reports, sides

SPECIALS = ["<blank>", "<s>", "</s>", "<unk>"]
"""Its names of our special tokens, in the order of their numbers."""


def options(setup: Setup) -> Any:
    """Return its settings: its defaults, but for what the setup says."""
    size = setup.size
    attention = ["--attention_dropout", "0"] if setup.places == "equal" else []
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocabulary"
        vocabulary.write_text("")
        words = [
            *("--config", "none", "--data", "{train: {path_src: a, path_tgt: b}}"),
            *("--src_vocab", str(vocabulary), "--save_model", folder),
            *("--share_vocab", "--share_embeddings", "--share_decoder_embeddings"),
            *("--encoder_type", "transformer", "--decoder_type", "transformer"),
            *("--layers", size.layers, "--hidden_size", size.d_model),
            *("--word_vec_size", size.d_model, "--transformer_ff", size.d_ff),
            *("--heads", size.num_heads, "--position_encoding"),
            *("--dropout", size.dropout, *attention),
            *("--label_smoothing", LABEL_SMOOTHING, "--param_init", 0),
            *("--param_init_glorot", "--normalization", "tokens"),
            *("--optim", "adam", "--adam_beta1", ADAM_BETAS[0]),
            *("--adam_beta2", ADAM_BETAS[1], "--max_grad_norm", 0),
            *("--decay_method", "noam", "--learning_rate", 1),
            *("--warmup_steps", WARMUP_STEPS, "--seed", setup.seed),
        ]
        parser = ArgumentParser()
        train_opts(parser)
        found, _ = parser.parse_known_args([str(word) for word in words[2:]])
        ArgumentParser.update_model_opts(found)
        found.data = {}
    return found


def train(
    setup: Setup, batches: Iterable[Pairs], done: Callable[[float], None]
) -> None:
    """Learn from each batch, one update after the other."""
    torch.manual_seed(setup.seed)
    settings = options(setup)
    words = SPECIALS + [f"word{n}" for n in range(UNKNOWN + 1, setup.vocabulary)]
    known = pyonmttok.build_vocab_from_tokens(words, special_tokens=SPECIALS)
    known.default_id = UNKNOWN
    assert len(known) == setup.vocabulary
    assert known[SPECIALS[0]] == PAD
    vocabularies = {"src": known, "tgt": known, "data_task": "seq2seq"}
    model = build_model(settings, settings, vocabularies, None)
    if setup.places == "equal":
        for module in model.modules():
            if isinstance(module, PositionwiseFeedForward):
                module.dropout_1.p = 0.0
    optimizer = Optimizer.from_opt(model, settings)
    trainer = build_trainer(settings, -1, model, vocabularies, optimizer)
    trainer.report_manager = Reports(done, Statistics, tokens="n_words")
    if setup.is_bf16:
        for module in (trainer.model, trainer.train_loss):
            module.forward = torch.autocast("cpu", torch.bfloat16)(module.forward)
    trainer.train(fed(batches), 0, save_checkpoint_steps=0)


def fed(batches: Iterable[Pairs]) -> Iterator[dict[str, Any]]:
    """Give batches the form in which its readers yield them."""
    for batch in batches:
        found = sides(batch)
        yield found | {side: found[side][:, :, None] for side in ("src", "tgt")}

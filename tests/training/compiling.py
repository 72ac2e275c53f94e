"""Train by torch.compile and by the reference; print the losses of both, as JSON.

python tests/training/compiling.py CORPUS cpu aot_eager
python tests/training/compiling.py CORPUS cuda inductor

A process of its own: elsewhere in the tests shape annotations are checked at each call,
and torch cannot compile what checks them. The backend aot_eager only records, so that
no compiler is needed.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from headwise.backends.pytorch.torch_compile_training import TorchCompileTraining
from headwise.data.prepared import PreparedCorpus
from headwise.model.config import TransformerConfig
from headwise.tasks.translation.task import Translation
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.trainer import Trainer

CONFIG = TransformerConfig(
    encoder_layers=2, decoder_layers=2, d_model=16, d_ff=32, num_heads=2, dropout=0.0
)
SETTINGS = TrainingSettings(
    precision="float32",
    backend="torch_compile",
    steps=12,
    batch_tokens=256,
    learning_rate=0.01,
    warmup_steps=3,
    validate_every=4,
    validation_pairs=4,
    clip_norm=1.0,
)


class Losses:
    """Notes the loss of each update, and does nothing else for a run."""

    def __init__(self) -> None:
        self.found: list[float] = []
        self.epochs = 0

    def on_step(self, update: Any, state: Any) -> None:
        self.found.append(update.loss)
        self.epochs = state.epoch

    def on_message(self, text: str) -> None:
        raise AssertionError(text)

    def last_weights(self, count: int) -> list[Any]:
        return []

    def ignore(self, *facts: Any) -> None:
        pass

    on_start = on_validation = on_end = save = save_best = ignore


def trainer_of(
    corpus: PreparedCorpus, backend: Any, device: str
) -> tuple[Trainer, Losses]:
    task, losses = Translation(corpus.tokenizers), Losses()
    trainer = Trainer(
        task,
        task.new_model(CONFIG, seed=1).to(device),
        corpus,
        replace(SETTINGS, backend=backend),
        seed=1,
        checkpoint_writer=losses,
        callbacks=[losses],
        signals=StopSignals(),
    )
    return trainer, losses


def main() -> None:
    torch.set_num_threads(1)
    folder, device, backend = sys.argv[1:]
    corpus = PreparedCorpus.open(Path(folder))
    compiled, found = trainer_of(corpus, "torch_compile", device)
    compiled.gradients._runner.torch_compile = TorchCompileTraining(
        SETTINGS.batch_tokens, backend
    )
    torch._dynamo.config.error_on_recompile = True
    compiled.run()

    readable, expected = trainer_of(corpus, "reference", device)
    readable.order = compiled.order
    readable.run()
    print(
        json.dumps(
            {
                "compiled": found.found,
                "readable": expected.found,
                "graphs": counters["stats"]["unique_graphs"],
                "epochs": found.epochs,
                "async_metrics": compiled.gradients.async_metrics,
            }
        )
    )


if __name__ == "__main__":
    main()

"""Train with headwise or the plain loop on a GPU, and print what it did as JSON.

python -m training.on_gpu headwise --corpus FOLDER --size base --device cuda ...

Each has batches of the same number of tokens, of the same corpus, made as suits it:
headwise's own, in rows, and for the plain loop pairs of like lengths, padded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headwise.data.batches import TrainingOrder
from headwise.data.prepared import PreparedCorpus
from headwise.data.ragged_batch import Batch
from headwise.tasks.translation.task import Translation
from headwise.training.allocator import keep_freed_memory
from headwise.training.settings import TrainingSettings
from headwise.training.signals import StopSignals
from headwise.training.trainer import Trainer
from training import plain_loop
from training.batches import SEED, Pairs
from training.facts import (
    ADAM_BETAS,
    ADAM_EPSILON,
    BIG,
    LABEL_SMOOTHING,
    SIZES,
    WARMUP_STEPS,
    Setup,
    Size,
)
from training.headwise_itself import Watch, config_of, stopping_after_the_last

GPU_SIZES = {**SIZES, "big": BIG}
TRAINERS = ("headwise", "headwise-fast", "plain", "plain-compiled")
"""headwise compiled, and the way it goes unasked; the loop, eager and compiled."""


def work(size: Size, vocabulary: int, sources: int, targets: int) -> int:
    """Count operations: 6 for each weight that a real token is multiplied with.

    Attention between tokens is left out, and so is what was computed for padding or
    filler. Source tokens meet the encoder and the projections that the decoder reads
    them by, target tokens the rest of the decoder and the vocabulary.
    """
    square, network = size.d_model**2, 2 * size.d_model * size.d_ff
    by_source = size.layers * (4 * square + network + 2 * square)
    by_target = size.layers * (6 * square + network) + size.d_model * vocabulary
    return 6 * (sources * by_source + targets * by_target)


def batches_in_order(
    corpus: PreparedCorpus, batch_tokens: int, *, packed: bool
) -> Iterator[Batch]:
    """Yield what a trainer learns from, epoch after epoch."""
    order = TrainingOrder(
        corpus.train, seed=SEED, batch_tokens=batch_tokens, packed=packed
    )
    for epoch in range(10**9):
        yield from order.batches(epoch)


def by_headwise(
    setup: Setup,
    corpus: PreparedCorpus,
    batch_tokens: int,
    count: int,
    done: Callable[[float], None],
) -> None:
    """Train as ``headwise train`` does, without looks and checkpoints."""
    keep_freed_memory()
    task = Translation(corpus.tokenizers)
    settings = TrainingSettings(
        batch_tokens=batch_tokens,
        label_smoothing=LABEL_SMOOTHING,
        warmup_steps=WARMUP_STEPS,
        adam_beta1=ADAM_BETAS[0],
        adam_beta2=ADAM_BETAS[1],
        adam_epsilon=ADAM_EPSILON,
        precision=setup.precision,
        backend=setup.path,
        data_workers=1,
        validate_every=10**9,
    )
    model = task.new_model(config_of(setup), seed=setup.seed)
    nobody: Any = None
    watch: Any = Watch(count, done)
    trainer = Trainer(
        task,
        model.to(setup.device),
        corpus,
        settings,
        seed=SEED,
        checkpoint_writer=nobody,
        callbacks=[watch],
        signals=StopSignals(),
    )
    stopping_after_the_last(trainer)


def by_plain_loop(
    setup: Setup,
    corpus: PreparedCorpus,
    batch_tokens: int,
    count: int,
    done: Callable[[float], None],
) -> None:
    """Train by the loop around ``torch.nn.Transformer``."""
    own = batches_in_order(corpus, batch_tokens, packed=False)
    pairs = (
        Pairs(batch.source.padded().numpy(), batch.target.padded().numpy())
        for batch in islice(own, count)
    )
    plain_loop.train(setup, pairs, done)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, and return what the updates after warm-up did."""
    corpus = PreparedCorpus.open(arguments.corpus)
    size = GPU_SIZES[arguments.size]
    own = arguments.trainer.startswith("headwise")
    setup = Setup(
        size=size,
        vocabulary=corpus.facts.target_vocabulary,
        precision=arguments.precision,
        places="equal",
        path="torch_compile" if arguments.trainer == "headwise" else "auto",
        folder=str(arguments.corpus),
        device=arguments.device,
        compiled=arguments.trainer == "plain-compiled",
    )
    count = arguments.warm_up + arguments.updates
    times: list[float] = []
    losses: list[float] = []

    def done(loss: float) -> None:
        if len(times) + 1 == arguments.warm_up and arguments.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        times.append(time.perf_counter())
        losses.append(loss)

    started = time.perf_counter()
    train = by_headwise if own else by_plain_loop
    train(setup, corpus, arguments.batch_tokens, count, done)
    assert len(times) == count, f"{len(times)} updates instead of {count}"
    seconds = times[-1] - times[arguments.warm_up - 1]
    packed = arguments.trainer == "headwise"
    every = batches_in_order(corpus, arguments.batch_tokens, packed=packed)
    timed = list(islice(every, arguments.warm_up, count))
    sources = sum(batch.num_source_tokens for batch in timed)
    targets = sum(batch.num_target_tokens for batch in timed)
    on_gpu = arguments.device == "cuda"
    return {
        "trainer": arguments.trainer,
        "size": arguments.size,
        "precision": arguments.precision,
        "tokens_per_second": (sources + targets) / seconds,
        "target_tokens_per_second": targets / seconds,
        "tokens_per_update": (sources + targets) / len(timed),
        "seconds_per_update": seconds / len(timed),
        "flops_per_second": work(size, setup.vocabulary, sources, targets) / seconds,
        "seconds_to_first_update": times[0] - started,
        "seconds_of_warm_up": times[arguments.warm_up - 1] - started,
        "peak_memory_mib": torch.cuda.max_memory_allocated() >> 20 if on_gpu else None,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "first_loss": round(losses[0], 4),
        "last_loss": round(losses[-1], 4),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trainer", choices=TRAINERS)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--size", choices=GPU_SIZES, default="base")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--updates", type=int, default=60)
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()

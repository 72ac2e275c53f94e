"""Measure what it costs to draw segmentations and noise anew in each epoch.

python benchmarks/drawn_texts.py --corpora FOLDER
python benchmarks/drawn_texts.py --corpora FOLDER --only micro --rounds 3

Updates on English-German captions (Multi30k), batches loaded in the thread that trains.
Measured is processor time on one thread, of loading and of training apart, so that
waiting for other work does not count. Every measurement is a process of its own; they
take turns, round after round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "drawn_texts.json"
SOURCES = [*TRAINING, "src/headwise/text/*"]
PRESETS = ("micro", "tiny")
NOISE = {"upper_case": 0.05, "final_punctuation": 0.1, "typos": 0.1}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bpe": ("bpe", {}),
    "bpe_dropout 0.1": ("bpe", {"bpe_dropout": 0.1}),
    "bpe, noise": ("bpe", {"source_noise": NOISE}),
    "bpe_dropout 0.1, noise": ("bpe", {"bpe_dropout": 0.1, "source_noise": NOISE}),
    "unigram": ("unigram", {}),
    "unigram_alpha 0.2": ("unigram", {"unigram_alpha": 0.2}),
}
"""Name -> tokenizer, and settings of training."""

WARM_UP = 3


def measure(
    folder: Path, work: Path, preset: str, variant: str, updates: int
) -> dict[str, float]:
    """Return processor seconds of loading and of training, and what was trained on."""
    import torch

    from headwise.data.prepare import prepare
    from headwise.recipe import resolve
    from headwise.tasks import TASKS
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.data_loader import training_order
    from headwise.training.distributed import Ranks
    from headwise.training.gradient_accumulation import GradientAccumulator
    from headwise.training.optimizer import Optimizer

    keep_freed_memory()
    torch.set_num_threads(1)
    kind, training = VARIANTS[variant]
    files = {
        side: str(folder / "multi30k" / f"train.{suffix}.gz")
        for side, suffix in (("source", "en"), ("target", "de"))
    }
    recipe = resolve(
        preset=preset,
        extra={
            "data": {"corpora": [files]},
            "text": {"tokenizer": kind},
            "training": {"processes": 1, **training},
        },
    )
    place = work / f"{kind}-{recipe.text.vocab_size}"
    corpus = prepare(recipe.data, recipe.text, place, seed=recipe.seed)
    task = TASKS[recipe.task].open(corpus.tokenizers, None)
    model = task.new_model(recipe.model, seed=1)
    model.train()
    gradients = GradientAccumulator(
        task,
        model,
        recipe.training,
        seed=1,
        ranks=Ranks(),
        on_message=print,
        check_stop=lambda: None,
    )
    optimizer = Optimizer(model, recipe.training)
    order = training_order(corpus, recipe.training, seed=1)
    positions = islice(order.epoch(0), WARM_UP + updates)
    loading = training_seconds = 0.0
    pairs = source = target = 0
    for number, indices in enumerate(positions):
        if number == WARM_UP:
            loading = training_seconds = 0.0
            pairs = source = target = 0
        started = time.process_time()
        batch = order.make_batch(0, indices)
        loaded = time.process_time()
        gradients.accumulate([(0, batch)], step=number, divisor=1.0)
        optimizer.step()
        training_seconds += time.process_time() - loaded
        loading += loaded - started
        pairs += len(batch)
        source += batch.num_source_tokens
        target += batch.num_target_tokens
    return {
        "loading": loading,
        "training": training_seconds,
        "pairs": pairs,
        "tokens": source + target,
        "updates": updates,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/drawn-texts"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--only", choices=PRESETS, action="append")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        preset, variant = arguments.one
        found = measure(
            arguments.corpora, arguments.work, preset, variant, arguments.updates
        )
        print(json.dumps(found))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, 2
    measurement = Measurement.begin(SOURCES)
    presets = arguments.only or [*PRESETS]
    runs: dict[str, dict[str, list[dict[str, float]]]] = {
        preset: {variant: [] for variant in VARIANTS} for preset in presets
    }
    for _ in range(arguments.rounds):
        for preset in presets:
            for variant in VARIANTS:
                command = [sys.executable, __file__, "--one", preset, variant]
                command += ["--corpora", str(arguments.corpora)]
                command += ["--work", str(arguments.work)]
                command += ["--updates", str(arguments.updates)]
                done = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, text=True
                )
                runs[preset][variant].append(json.loads(done.stdout.split("\n")[-2]))
    result = {
        "rounds": arguments.rounds,
        "updates": arguments.updates,
        "threads": 1,
        "presets": {
            preset: {name: row(each) for name, each in variants.items()}
            for preset, variants in runs.items()
        },
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result["presets"], indent=2))


def row(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return medians over the rounds, in processor time."""

    def median(value: Any) -> float:
        return statistics.median(map(value, runs))

    return {
        "pairs_in_a_batch": median(lambda run: run["pairs"] / run["updates"]),
        "tokens_in_a_pair": median(lambda run: run["tokens"] / run["pairs"]),
        "loading_microseconds_a_pair": median(
            lambda run: 1e6 * run["loading"] / run["pairs"]
        ),
        "loaded_tokens_a_second": median(lambda run: run["tokens"] / run["loading"]),
        "trained_tokens_a_second": median(lambda run: run["tokens"] / run["training"]),
        "tokens_a_second": median(
            lambda run: run["tokens"] / (run["loading"] + run["training"])
        ),
        "loading_share": median(
            lambda run: run["loading"] / (run["loading"] + run["training"])
        ),
    }


if __name__ == "__main__":
    main()

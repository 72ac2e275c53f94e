"""Measure the training of models over pictures, by each backend, on one core of a CPU.

python benchmarks/picture_speed.py
python benchmarks/picture_speed.py --only scenes --rounds 3

Captions of pictures and classes of videos: the models and batches of the samples
``scenes`` and ``moving-shapes``, on random pictures of their sizes. An update is a
forward and a backward pass and a step of the optimizer, on one thread; what is measured
is processor time, so that waiting for other work does not count. Every measurement is a
process of its own; they take turns, round after round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of

RESULTS = Path(__file__).parent / "results" / "picture_speed.json"
SOURCES = [*TRAINING, "src/headwise/tasks/**/*", "src/headwise/sample_data/samples.py"]
VARIANTS = {
    "torch": ("torch", False),
    "torch, bf16": ("torch", True),
    "native": ("native", False),
    "native, bf16": ("native", True),
}
"""Name -> backend, and whether it computes in bf16."""

SHAPES = {"scenes": (1, 32, 32, 3), "moving-shapes": (8, 16, 16, 1)}
"""Sample -> frames, height, width and channels of a picture."""

CAPTION, WORDS = 8, 32
"""Tokens of each caption, END included; entries of the target vocabulary."""


def measure(sample: str, variant: str, updates: int) -> dict[str, Any]:
    """Return the sizes of a batch, its first loss, and updates a second (median)."""
    import torch

    from headwise.backends.pytorch.install_fused import use_backend
    from headwise.cli.demo_sample import sample_recipe
    from headwise.data.ragged_batch import Batch, RaggedTokens
    from headwise.sample_data.samples import SAMPLES
    from headwise.tasks import TASKS
    from headwise.tasks.description import ModelDescription
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.optimizer import Optimizer

    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    made, (frames, height, width, channels) = SAMPLES[sample], SHAPES[sample]
    files = {part: Path(f"{part}.npz") for part in ("train", "dev", "test")}
    recipe, task = sample_recipe(made, files, {}), TASKS[made.task]
    side = recipe.options.patch_size
    values = side * side * channels
    patches = frames * (height // side) * (width // side)
    count = recipe.training.batch_tokens // patches
    description = ModelDescription(
        task=made.task,
        config=recipe.model,
        source_vocab_size=values,
        target_vocab_size=WORDS,
        options=recipe.options,
    )
    backend, half = VARIANTS[variant]
    model = use_backend(task.build(description, seed=1).train(), backend)
    optimizer = Optimizer(model, recipe.training)
    pixels = torch.randint(0, 256, (count * patches, values), dtype=torch.uint8)
    target = CAPTION if made.task == "captioning" else 1
    labels = torch.randint(4, WORDS, (count * target,))
    batch = Batch(
        RaggedTokens.from_lengths(pixels, torch.full((count,), patches)),
        RaggedTokens.from_lengths(labels, torch.full((count,), target)),
        torch.arange(count),
    )
    losses, seconds = [], []
    for _ in range(updates + 2):
        started = time.process_time()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = task.loss()(model, batch, smoothing=0.0) / len(labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - started)
        losses.append(loss.item())
    return {
        "pictures": count,
        "patches": patches,
        "first_loss": losses[0],
        "updates_per_processor_second": 1 / statistics.median(seconds[2:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--only", choices=SHAPES, action="append")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one, arguments.updates)))
        return
    if arguments.rehearse:
        arguments.rounds, arguments.updates = 1, 2
    measurement = Measurement.begin(SOURCES)
    samples = arguments.only or [*SHAPES]
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        sample: {variant: [] for variant in VARIANTS} for sample in samples
    }
    for _ in range(arguments.rounds):
        for sample in samples:
            for variant in VARIANTS:
                command = [sys.executable, __file__, "--one", sample, variant]
                command += ["--updates", str(arguments.updates)]
                done = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, text=True
                )
                found[sample][variant].append(json.loads(done.stdout))
    result = {
        "rounds": arguments.rounds,
        "threads": 1,
        "samples": {sample: row(each) for sample, each in found.items()},
    }
    measurement.write(place_of(arguments), result)
    print(json.dumps(result["samples"], indent=2))


def row(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the sizes of a batch, and the median speed of each backend."""
    speeds = {
        variant: [each["updates_per_processor_second"] for each in some]
        for variant, some in runs.items()
    }
    medians = {variant: statistics.median(each) for variant, each in speeds.items()}
    first = runs["torch"][0]
    return {
        "pictures_in_a_batch": first["pictures"],
        "patches_of_a_picture": first["patches"],
        "updates_per_processor_second": {
            variant: {
                "median": round(medians[variant], 2),
                "all": [round(each, 2) for each in speeds[variant]],
                "times_torch": round(medians[variant] / medians["torch"], 2),
            }
            for variant in VARIANTS
        },
    }


if __name__ == "__main__":
    main()

"""Measure how decoding time grows with length and batch, with and without KV cache.

python benchmarks/decoding_growth.py
python benchmarks/decoding_growth.py --quick

The preset tiny with random weights generates as many tokens as its source has. With a
KV cache a step computes one new token, by the native backend (in float32 and bfloat16)
and by PyTorch; without one, each step runs the whole stack
(headwise.backends.pytorch.uncached_decoder). Draws docs/decoding-growth.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from result_file import MODEL, Measurement, add_options, place_of

from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.pytorch.uncached_decoder import UncachedDecoder
from headwise.decoding.topk import topk_step_of
from headwise.model import PRESETS, Transformer

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "decoding_growth.json"
PICTURE = ROOT / "docs" / "decoding-growth.png"
WORDS = 8000
LENGTHS = [16, 32, 64, 128, 256, 512, 1024]
BATCHES = [1, 4, 16, 64, 256]
LONGEST_WITHOUT = 128
"""Beyond this, a writer without memory takes minutes."""


WITHOUT = "without memory"
WAYS: dict[str, Callable[[Transformer, int], Any]] = {
    "compiled, bf16": lambda model, length: NativeDecoder(model, "bf16"),
    "compiled": lambda model, length: NativeDecoder(model),
    "PyTorch": lambda model, length: TorchDecoder(model),
    WITHOUT: lambda model, length: UncachedDecoder(model, length=length, padding=0),
}


@torch.inference_mode()
def rate(model: Transformer, way: str, length: int, batch: int) -> float:
    """Return target tokens a second."""
    decoder = WAYS[way](model, length)
    step_topk = topk_step_of(decoder)
    source = torch.randint(4, WORDS, (batch, length))
    tokens = torch.ones(batch, dtype=torch.long)
    started = time.perf_counter()
    state = decoder.start(source, source > 0)
    for _ in range(length):
        _, ids, state = step_topk(tokens, state, 1, ())
        tokens = ids[:, 0]
    return batch * length / (time.perf_counter() - started)


def draw(curves: dict[str, Any], picture: Path) -> None:
    """Draw all curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for axes, (name, ways) in zip(figure.subplots(1, 2), curves.items(), strict=True):
        for way, points in ways.items():
            axes.plot([int(x) for x in points], list(points.values()), "o-", label=way)
        axes.set(yscale="log", xlabel=name, ylabel="target tokens/s")
        axes.set_xscale("log", base=2)
        axes.set_xticks([int(x) for x in ways["PyTorch"]])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.legend()
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin([*MODEL, "src/headwise/decoding/topk.py"])
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    lengths, batches, rounds = LENGTHS, BATCHES, arguments.rounds
    if arguments.rehearse:
        lengths, batches, rounds = LENGTHS[:2], BATCHES[:2], 1
    model = Transformer(PRESETS["tiny"].config, WORDS).eval()
    for way in WAYS:
        rate(model, way, 16, 4)
    curves: dict[str, Any] = {}
    for name, points in {
        "positions, 8 sentences": [(length, 8) for length in lengths],
        "sentences, 16 positions": [(16, batch) for batch in batches],
    }.items():
        curves[name] = {way: {} for way in WAYS}
        for way, measured in curves[name].items():
            for length, batch in points:
                if way == WITHOUT and length > LONGEST_WITHOUT:
                    continue
                times = [rate(model, way, length, batch) for _ in range(rounds)]
                x = batch if name.startswith("sentences") else length
                measured[x] = round(statistics.median(times), 1)
    report = {
        "rounds": rounds,
        "threads": arguments.threads,
        "tokens_per_second": curves,
    }
    print(json.dumps(report, indent=2))
    measurement.write(place_of(arguments), report)
    if place_of(arguments) == RESULTS:
        draw(curves, PICTURE)


if __name__ == "__main__":
    main()

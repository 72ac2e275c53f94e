"""Measure how the cost of training grows, beside what the arithmetic would allow.

python benchmarks/training_growth.py
python benchmarks/training_growth.py --quick

Tokens a second against sentence length, tokens of a batch, width of the model and size
of the vocabulary, each with the others as in the preset tiny; random tokens and no
padding. Allowed is what the large matrix products of this machine would do in the same
precision, if only the products of the model took time. Draws docs/training-growth.png.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from result_file import TRAINING, Measurement, add_options, place_of
from training import machine
from training.facts import PRECISIONS, SIZES, Size, products

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "training_growth.json"
PICTURE = ROOT / "docs" / "training-growth.png"
TICKS = [step * 10**power for power in range(1, 7) for step in (1, 2, 5)]
"""Tokens a second that are named beside the curves."""


@dataclass(frozen=True)
class Point:
    """What is trained on at one point of a curve."""

    length: int = 16
    batch_tokens: int = 4096
    width: int = 128
    vocabulary: int = 8000

    @property
    def size(self) -> Size:
        """The preset tiny, as wide as asked; heads stay 32 channels wide."""
        return replace(
            SIZES["tiny"],
            d_model=self.width,
            d_ff=2 * self.width,
            num_heads=max(1, self.width // 32),
        )


SWEEPS = {
    "length": [8, 16, 32, 64, 128, 256],
    "batch_tokens": [512, 1024, 2048, 4096, 8192, 16384],
    "width": [64, 128, 256, 512],
    "vocabulary": [1000, 2000, 4000, 8000, 16000, 32000],
}
LABELS = {
    "length": "tokens of a sentence",
    "batch_tokens": "target tokens of a batch",
    "width": "width of the model (d_model)",
    "vocabulary": "entries of the vocabulary",
}


def measure(point: Point, precision: str, seconds: float) -> dict[str, float]:
    """Make updates for some seconds; return tokens a second and operations each."""
    import torch

    from headwise.data.ragged_batch import Batch, RaggedTokens
    from headwise.model import Transformer, TransformerConfig
    from headwise.tasks.translation.task import Translation
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.distributed import Ranks
    from headwise.training.gradient_accumulation import GradientAccumulator
    from headwise.training.optimizer import Optimizer
    from headwise.training.settings import TrainingSettings

    keep_freed_memory()
    size = point.size
    config = TransformerConfig(
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        d_model=size.d_model,
        d_ff=size.d_ff,
        num_heads=size.num_heads,
        dropout=size.dropout,
    )
    model = Transformer(config, point.vocabulary)
    settings = TrainingSettings(precision=precision, batch_tokens=point.batch_tokens)
    optimizer = Optimizer(model, settings)
    size_alone = SimpleNamespace(size=point.vocabulary)
    # Random tokens are never turned into words.
    tokenizers: Any = SimpleNamespace(source=size_alone, target=size_alone)
    gradients = GradientAccumulator(
        Translation(tokenizers),
        model,
        settings,
        seed=1,
        ranks=Ranks(),
        on_message=lambda text: None,
        check_stop=lambda: None,
    )
    pairs = max(1, point.batch_tokens // point.length)
    count = pairs * point.length
    lengths = torch.full((pairs,), point.length)
    source, target = (
        RaggedTokens.from_lengths(tokens, lengths)
        for tokens in torch.randint(4, point.vocabulary, (2, count))
    )
    batch = Batch(source, target, torch.arange(pairs))
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        started = time.perf_counter()
        gradients.accumulate([(0, batch)], step=len(times) + 1, divisor=count)
        torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        optimizer.step()
        times.append(time.perf_counter() - started)
    gradients.close()
    work = products(size, point.vocabulary, [(point.length, point.length)] * pairs)
    return {
        "tokens_per_second": 2 * count / statistics.median(times[2:]),
        "flops_per_token": work / (2 * count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="at each point")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS)
    add_options(parser, RESULTS)
    parser.add_argument("--picture", type=Path, help=f"default: {PICTURE.name}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        asked = json.loads(arguments.one)
        print(
            json.dumps(
                measure(Point(**asked["point"]), asked["precision"], arguments.seconds)
            )
        )
        return
    measurement = Measurement.begin([*TRAINING, "benchmarks/training/facts.py"])
    sweeps, product = SWEEPS, machine.PRODUCT
    if arguments.rehearse:
        sweeps, product = {name: values[:2] for name, values in SWEEPS.items()}, 128
        arguments.rounds, arguments.seconds = 1, 1.0
    precisions = arguments.precisions or PRECISIONS
    result = {
        "rounds": arguments.rounds,
        **grown(sweeps, precisions, arguments.rounds, arguments.seconds, product),
    }
    out = place_of(arguments)
    measurement.write(out, result)
    picture = arguments.picture or (PICTURE if out == RESULTS else None)
    if picture is not None:
        draw(result, picture)
    print(json.dumps(result["curves"], indent=2))


def grown(
    sweeps: dict[str, list[int]],
    precisions: Any,
    rounds: int,
    seconds: float,
    product: int,
) -> dict[str, Any]:
    """Measure every point, round after round, each in a process of its own."""
    rates: list[dict[str, float]] = []
    found: dict[tuple[str, str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        rates.append(run(["-m", "training.machine", str(product), *precisions]))
        for precision in precisions:
            for name, values in sweeps.items():
                for value in values:
                    point = asdict(replace(Point(), **{name: value}))
                    asked = json.dumps({"point": point, "precision": precision})
                    one = run([__file__, "--one", asked, "--seconds", str(seconds)])
                    found.setdefault((precision, name, value), []).append(one)
                    speed = one["tokens_per_second"]
                    print(f"{precision} {name}={value}: {speed:,.0f}", file=sys.stderr)
    products_of = {
        name: statistics.median(each[name] for each in rates) for name in precisions
    }
    curves: dict[str, Any] = {}
    for (precision, name, value), ones in found.items():
        speeds = sorted(one["tokens_per_second"] for one in ones)
        allowed = products_of[precision] / ones[0]["flops_per_token"]
        curves.setdefault(precision, {}).setdefault(name, []).append(
            {
                name: value,
                "tokens_per_second": round(statistics.median(speeds)),
                "min": round(speeds[0]),
                "max": round(speeds[-1]),
                "allowed": round(allowed),
                "share": round(statistics.median(speeds) / allowed, 3),
            }
        )
    return {
        "products_gflop_per_second": {
            name: round(rate / 1e9, 1) for name, rate in products_of.items()
        },
        "curves": curves,
    }


def run(words: list[str]) -> dict[str, float]:
    """Run a python of its own, and read what it prints."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw each sweep: measured as dots on a line, allowed as a broken line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import StrMethodFormatter

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for axis, (name, label) in zip(axes.flat, LABELS.items(), strict=True):
        for color, (precision, sweeps) in enumerate(result["curves"].items()):
            points = sweeps[name]
            where = [point[name] for point in points]
            for key, style, words in (
                ("tokens_per_second", "o-", f"{precision}, measured"),
                ("allowed", "--", f"{precision}, the products alone"),
            ):
                values = [point[key] for point in points]
                axis.plot(where, values, style, color=f"C{color}", ms=4, label=words)
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="tokens a second")
        axis.set_xticks(where, [f"{value:,}" for value in where])
        axis.set_yticks(TICKS)
        low, high = axis.dataLim.intervaly
        axis.set_ylim(
            max(each for each in TICKS if each < low),
            min(each for each in TICKS if each > high),
        )
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.minorticks_off()
    axes[0, 1].legend(fontsize=8, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()

"""Measure what the paper and its explanations claim about cost, without training.

python benchmarks/claims_without_training.py
python benchmarks/claims_without_training.py --rehearse

Five parts: scores without 1/√d_k; many heads against one; additive against dot-product
attention; the wavelengths of sinusoids; batches, and decoding against training. Models
are untrained, with random inputs. Times are processor time of one thread; what is
compared takes turns, and a time is the median of its samples.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from random_pairs import random_batch
from result_file import MODEL, RESULTS, Measurement, add_options, place_of
from torch import Tensor, nn

from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.uncached_decoder import UncachedDecoder
from headwise.backends.select_training import cross_entropy_of
from headwise.complexity.counting import count_multiply_adds
from headwise.complexity.memory import peak_bytes
from headwise.complexity.timing import clock_of, measure
from headwise.data.ragged_batch import Batch
from headwise.model import PRESETS, Transformer
from headwise.model.attention import MultiHeadAttention
from headwise.model.positions import LONGEST_WAVE, sinusoids
from headwise.model.variants.attention import VariantAttention
from headwise.model.variants.scores import SCORES

RESULT = RESULTS / "claims_without_training.json"
SOURCES = (*MODEL, "src/headwise/complexity/*", "src/headwise/data/ragged_batch.py")

D_KS = (1, 4, 16, 64, 256, 1024)
PAIRS = 20_000
"""Queries and keys whose product is taken, for each d_k."""
KEYS = 64
"""Keys that each of ``QUERIES`` has a softmax over."""
QUERIES = 200

HEADS = (1, 2, 4, 8, 16, 32)
D_MODEL = 512
WIDTHS = (128, 512)
"""Of the sinusoids."""

VOCABULARY = 8000
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
SENTENCE = 16
LENGTHS = (16, 32, 64)
DECODED_ROWS = 2


def scores() -> dict[str, Any]:
    """Return variances of q · k and the size of the softmax's Jacobian, by d_k.

    Components of queries and keys are normal with variance 1. The Jacobian of softmax,
    diag(p) - p pᵀ, is what every gradient of the scores is multiplied by.
    """
    rows = {}
    for d_k in D_KS:
        products = (torch.randn(PAIRS, d_k) * torch.randn(PAIRS, d_k)).sum(-1)
        raw = torch.randn(QUERIES, 1, d_k) @ torch.randn(QUERIES, d_k, KEYS)
        norms = {}
        for name, scale in (("unscaled", 1.0), ("scaled", 1 / math.sqrt(d_k))):
            p = (raw[:, 0] * scale).softmax(-1)
            jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None]
            found = jacobian.flatten(1).norm(dim=1)
            norms[name] = {
                "mean": float(found.mean()),
                "median": float(found.median()),
                "largest_weight": float(p.amax(-1).mean()),
            }
        rows[str(d_k)] = {
            "variance": float(products.var()),
            "variance_scaled": float((products / math.sqrt(d_k)).var()),
            "jacobian": norms,
        }
    return {"pairs": PAIRS, "queries": QUERIES, "keys": KEYS, "by_d_k": rows}


def heads(seconds: float) -> dict[str, Any]:
    """Return parameters, multiply-adds and time of a layer by its number of heads."""
    batch, length = 8, 128
    x = torch.randn(batch, length, D_MODEL)
    layers = {
        h: MultiHeadAttention(D_MODEL, h, d_k=D_MODEL // h, d_v=D_MODEL // h)
        for h in HEADS
    }
    times = medians({h: partial(layer, x, x) for h, layer in layers.items()}, seconds)
    return {
        "d_model": D_MODEL,
        "batch": batch,
        "length": length,
        "by_heads": {
            str(h): {
                "parameters": sum(p.numel() for p in layer.parameters()),
                "multiply_adds": count_multiply_adds(_SelfAttention(layer), x),
                "peak_bytes": peak_bytes(_SelfAttention(layer), x),
                "milliseconds": 1e3 * times[h],
                "times_one_head": times[h] / times[1],
            }
            for h, layer in layers.items()
        },
    }


class _SelfAttention(nn.Module):
    def __init__(self, layer: MultiHeadAttention) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x, x)
        return out


class _Core(nn.Module):
    """Attention without projections, by one of the scores."""

    def __init__(self, name: Any, num_heads: int, d_k: int) -> None:
        super().__init__()
        self.score = SCORES[name](num_heads, d_k)
        for parameter in self.score.parameters():
            nn.init.normal_(parameter, std=d_k**-0.5)
        self.attend = VariantAttention(self.score)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x, None, 0.0)


def additive(seconds: float) -> dict[str, Any]:
    """Return cost of additive and of scaled dot-product attention, and the ratios."""
    num_heads, d_k, batch = 8, 64, 1
    rows = {}
    for length in (64, 128, 256):
        x = torch.randn(batch, num_heads, length, d_k)
        layers = {name: _Core(name, num_heads, d_k) for name in ("scaled", "additive")}
        calls = {name: partial(layer, x) for name, layer in layers.items()}
        times = medians(calls, seconds / 3)
        row = {
            name: {
                "multiply_adds": count_multiply_adds(layer, x),
                "tanh": batch * num_heads * length**2 * d_k * (name == "additive"),
                "peak_bytes": peak_bytes(layer, x),
                "milliseconds": 1e3 * times[name],
            }
            for name, layer in layers.items()
        }
        row["additive over scaled"] = {
            key: row["additive"][key] / row["scaled"][key]
            for key in ("multiply_adds", "peak_bytes", "milliseconds")
        }
        rows[str(length)] = row
    return {"heads": num_heads, "d_k": d_k, "batch": batch, "by_length": rows}


def wavelengths() -> dict[str, Any]:
    """Return first, last and ratio of the wavelengths, as read from the table itself.

    The angle of a pair of channels at position 1 is 2π over the wavelength.
    """
    rows = {}
    for width in WIDTHS:
        sines, cosines = sinusoids(torch.tensor([1]), width).view(-1, 2).T
        found = 2 * math.pi / torch.atan2(sines, cosines)
        ratios = found[1:] / found[:-1]
        rows[str(width)] = {
            "first_over_2_pi": float(found[0]) / (2 * math.pi),
            "last_over_2_pi": float(found[-1]) / (2 * math.pi),
            "last_by_formula": LONGEST_WAVE ** ((width - 2) / width),
            "least_ratio": float(ratios.min()),
            "largest_ratio": float(ratios.max()),
            "ratio_by_formula": LONGEST_WAVE ** (2 / width),
        }
    return {"by_width": rows}


def batches(seconds: float) -> dict[str, Any]:
    """Return source and target tokens a second of training, by sentences in a batch."""
    model = Transformer(PRESETS["tiny"].config, VOCABULARY).train()
    use_backend(model, "torch")

    def step(batch: Batch) -> None:
        with torch.inference_mode(False), torch.enable_grad():
            model.zero_grad()
            cross_entropy_of(model, batch, smoothing=0.1).backward()

    given = {
        size: random_batch(size, length=SENTENCE, vocabulary=VOCABULARY)
        for size in BATCHES
    }
    calls = {size: partial(step, batch) for size, batch in given.items()}
    times = medians(calls, seconds)
    rates = {size: 2 * SENTENCE * size / times[size] for size in BATCHES}
    return {
        "preset": "tiny",
        "length": SENTENCE,
        "tokens_per_second": {str(size): rates[size] for size in BATCHES},
        "times_one_sentence": {str(size): rates[size] / rates[1] for size in BATCHES},
    }


def decoding(seconds: float) -> dict[str, Any]:
    """Return target tokens a second all at once, and one by one with a cache or none.

    All by the model as it is written; each way encodes the source, and computes logits.
    """
    model = Transformer(PRESETS["tiny"].config, VOCABULARY).eval()
    rows = {}
    for length in LENGTHS:
        source = torch.randint(4, VOCABULARY, (DECODED_ROWS, length))
        calls: Mapping[str, Callable[[], object]] = {
            "all positions at once": partial(model, source, source, source > 0),
            "one by one, KV cache": partial(_step_by_step, model, source),
            "one by one, no cache": partial(
                _step_by_step, UncachedDecoder(model, length=length, padding=0), source
            ),
        }
        times = medians(calls, seconds / len(LENGTHS))
        rates = {way: DECODED_ROWS * length / times[way] for way in calls}
        first = rates["all positions at once"]
        rows[str(length)] = {
            "tokens_per_second": rates,
            "at_once_is_faster_by": {way: first / rate for way, rate in rates.items()},
        }
    return {"preset": "tiny", "rows": DECODED_ROWS, "by_length": rows}


def _step_by_step(decoder: Any, target: Tensor) -> None:
    state = decoder.start(target, target > 0)
    for position in range(target.shape[1]):
        _, state = decoder.step(target[:, position], state)


def medians(
    calls: Mapping[Any, Callable[[], object]], seconds: float
) -> dict[Any, Any]:
    """Return the median time of each call, in seconds."""
    _, clock = clock_of(1)
    return {case: t.seconds for case, t in measure(calls, seconds, clock).items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each part")
    add_options(parser, RESULT)
    arguments = parser.parse_args()
    seconds = 0.0 if arguments.rehearse else arguments.seconds
    measurement = Measurement.begin(SOURCES)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    report = {
        "threads": 1,
        "scores": scores(),
        "heads": heads(seconds),
        "additive": additive(seconds),
        "wavelengths": wavelengths(),
        "batches": batches(seconds),
        "decoding": decoding(seconds),
    }
    print(json.dumps(report, indent=2))
    measurement.write(place_of(arguments), report)


if __name__ == "__main__":
    main()

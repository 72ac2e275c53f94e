"""Train every variant for a moment, to see that each learns; and time a window.

python benchmarks/variants.py

200 updates of each on the demo corpus, from one seed, with the same batches, in one
process on one thread. That is too little to rank them: what is shown is that the loss
falls, and what an update costs. Then one update of a decoder alone on texts of growing
length, with a window and without. Times are of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from result_file import MODEL, Measurement, add_options, place_of
from torch import Tensor
from torch.nn import functional as F

from headwise.backends.pytorch.install_fused import use_backend
from headwise.demo_corpus import demo_corpus
from headwise.losses import cross_entropy
from headwise.model import DecoderOnly, TransformerConfig
from headwise.model.kinds import ENCODER_DECODERS, new_encoder_decoder

RESULTS = Path(__file__).parent / "results" / "variants.json"
CONCATENATED = {"position_join": "concatenate", "tie_embeddings": "none"}
CHOICES: dict[str, dict[str, Any]] = {
    "the paper": {},
    **{
        f"positions = {each}": {"positions": each}
        for each in ("rotary", "none", "alibi", "shaw", "t5", "number", "fraction")
    },
    **{
        f"attention = {each}": {"attention": each}
        for each in ("unscaled", "cosine", "additive", "multiplicative")
    },
    "attention_window = 5": {"attention_window": 5},
    "num_key_value_heads = 1": {"num_key_value_heads": 1},
    "norm_kind = rms": {"norm_kind": "rms"},
    "norm_kind = batch": {"norm_kind": "batch"},
    **{
        f"feed_forward = {each}": {"feed_forward": each}
        for each in ("glu", "bilinear", "reglu", "geglu", "swiglu")
    },
    "position_join = concatenate": CONCATENATED,
    "residual = positions": {"residual": "positions", **CONCATENATED},
    "residual = none": {"residual": "none"},
    **{
        f"kind = {each}": {"kind": each}
        for each in ENCODER_DECODERS
        if each != "transformer"
    },
}
SHAPE = TransformerConfig(
    encoder_layers=1,
    decoder_layers=1,
    d_model=32,
    d_ff=64,
    num_heads=4,
    dropout=0.0,
)
PAIRS, PAIRS_IN_BATCH = 600, 8
UPDATES, MEAN_OVER = 200, 20
WARM_UP, LEARNING_RATE = 20, 0.003
SEED = 1
WINDOW = 65
LENGTHS = (500, 1000, 2000, 4000)


@lru_cache(maxsize=1)
def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    """Return sources and targets of the demo corpus, as numbers of their words."""
    pairs = demo_corpus(PAIRS, 0, SEED).train
    known: dict[str, int] = {}
    texts = [
        [[known.setdefault(word, len(known) + 3) for word in text.split()] + [2]]
        for pair in pairs
        for text in (pair.english, pair.french)
    ]
    rows = [text for (text,) in texts]
    found = []
    for number in range(count):
        first = number * PAIRS_IN_BATCH % (PAIRS - PAIRS_IN_BATCH)
        chosen = rows[2 * first : 2 * (first + PAIRS_IN_BATCH)]
        found.append((padded(chosen[0::2]), padded(chosen[1::2])))
    return found


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return the rows as a matrix, followed by padding."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


def learn(choice: dict[str, Any], updates: int) -> dict[str, Any]:
    """Train one variant; return its losses in nats a token, and its cost."""
    data = batches(updates)
    size = 1 + max(int(side.max()) for pair in data for side in pair)
    model = new_encoder_decoder(replace(SHAPE, **choice), size, seed=SEED).train()
    use_backend(model, "reference")
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    began = time.process_time()
    for number, (source, target) in enumerate(data, start=1):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, number / WARM_UP)
        given = F.pad(target, (1, 0), value=1)[:, :-1] * (target != 0)
        is_real = target != 0
        logits = model(source, given, source != 0)[is_real]
        loss = cross_entropy(logits, target[is_real], 0.0) / len(logits)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    seconds = time.process_time() - began
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "first_loss": losses[0],
        "last_loss": statistics.fmean(losses[-MEAN_OVER:]),
        "milliseconds_an_update": 1000 * seconds / len(losses),
    }


def window_cost(length: int, window: int | None) -> float:
    """Return the processor seconds of one update on a text of this length."""
    config = replace(
        SHAPE, encoder_layers=0, attention_window=window, positions="rotary"
    )
    model = DecoderOnly(config, 100, seed=SEED).train()
    tokens = torch.randint(3, 100, (1, length))
    times = []
    for _ in range(3 if length < 2000 else 1):
        began = time.process_time()
        model(tokens).square().mean().backward()
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    updates = 2 if arguments.rehearse else UPDATES
    lengths = LENGTHS[:1] if arguments.rehearse else LENGTHS
    measurement = Measurement.begin(sources=[*MODEL, "src/headwise/demo_corpus/*"])
    learn({}, 5)  # what is slow once
    found = {}
    for name, choice in CHOICES.items():
        found[name] = learn(choice, updates)
        print(
            f"{name:30} {found[name]['first_loss']:.3f} -> "
            f"{found[name]['last_loss']:.3f}, "
            f"{found[name]['milliseconds_an_update']:.1f} ms",
            flush=True,
        )
        if not arguments.rehearse:
            assert found[name]["last_loss"] < 0.8 * found[name]["first_loss"], name
    cost = {
        str(length): {
            "window": window_cost(length, WINDOW),
            "all": window_cost(length, None),
        }
        for length in lengths
    }
    print(cost)
    first = [each["first_loss"] for each in found.values()]
    measurement.write(
        place_of(arguments),
        {
            "seed": SEED,
            "updates": updates,
            "pairs_in_batch": PAIRS_IN_BATCH,
            "mean_over": MEAN_OVER,
            "variants": found,
            "first_loss": {"least": min(first), "most": max(first)},
            "last_loss": {
                name: {"nats": each["last_loss"]} for name, each in found.items()
            },
            "window": WINDOW,
            "seconds_of_an_update": cost,
        },
    )


if __name__ == "__main__":
    main()

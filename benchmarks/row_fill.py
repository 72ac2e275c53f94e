"""Measure how full rows are where several sentences share one, and what it takes.

python benchmarks/row_fill.py --corpora FOLDER

Multi30k, English to German, joint BPE of 8,000: the share of places that hold a token,
for batches padded as they usually are, and for rows of several widths.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from result_file import Measurement, add_options, place_of
from training import batches

from headwise.data import sequence_packing
from headwise.data.batches import TrainingOrder, make_batch
from headwise.data.prepared import PreparedCorpus
from headwise.data.ragged_batch import Batch
from headwise.data.sequence_packing import PackedShape, pack_batch

RESULTS = Path(__file__).parent / "results" / "row_fill.json"
WIDTHS, TOKENS = (64, 128, 256), (4_096, 25_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[2] / "shared" / "data"
    corpora = Path(os.environ.get("HEADWISE_CORPORA", default))
    parser.add_argument("--corpora", type=Path, default=corpora)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin(["src/headwise/data/*", "src/headwise/text/**/*"])
    with tempfile.TemporaryDirectory() as work:
        batches.make(arguments.corpora, Path(work))
        corpus = PreparedCorpus.open(Path(work) / batches.CORPUS)
        found = [
            fill(corpus, tokens)
            for tokens in TOKENS[: 1 if arguments.rehearse else None]
        ]
    measurement.write(place_of(arguments), {"epoch": found})
    json.dump(found, sys.stdout, indent=2)


def fill(corpus: PreparedCorpus, tokens: int) -> dict[str, Any]:
    """Go through an epoch padded, and in rows of each width."""
    padded, _ = epoch(corpus, tokens, packed=False)
    places = sum(
        math.prod(side.padded_shape)
        for batch in padded
        for side in (batch.source, batch.target)
    )
    return {
        "batch_tokens": tokens,
        "padded": {
            "batches": len(padded),
            "share_of_tokens": round(tokens_of(padded) / places, 3),
        },
        "in_rows": [of_width(corpus, tokens, width) for width in WIDTHS],
    }


def of_width(corpus: PreparedCorpus, tokens: int, width: int) -> dict[str, Any]:
    """Go through an epoch in rows of a width; the last batch is not full."""
    usual, sequence_packing.MIN_WIDTH = sequence_packing.MIN_WIDTH, width
    try:
        made, planning = epoch(corpus, tokens, packed=True)
        facts = corpus.facts.train
        longest = max(facts.longest_source, facts.longest_target) + 1
        shape = PackedShape.of(longest, tokens)
        laid, laying = timed(lambda: [pack_batch(batch, shape) for batch in made])
    finally:
        sequence_packing.MIN_WIDTH = usual
    assert {len(parts) for parts in laid} == {1}
    most = 2 * shape.rows * shape.width
    shares = sorted(tokens_of([batch]) / most for batch in made)
    return {
        "width": width,
        "rows": shape.rows,
        "batches": len(made),
        "share_of_tokens": round(tokens_of(made) / (most * len(made)), 3),
        "median_of_batches": round(shares[len(shares) // 2], 3),
        "planning_microseconds_a_pair": round(1e6 * planning / facts.pairs, 2),
        "laying_out_milliseconds_a_batch": round(1e3 * laying / len(made), 2),
    }


def epoch(
    corpus: PreparedCorpus, tokens: int, *, packed: bool
) -> tuple[list[Batch], float]:
    """Return the batches of an epoch, and the processor time that planning took."""
    order = TrainingOrder(
        corpus.train, seed=batches.SEED, batch_tokens=tokens, packed=packed
    )
    plan, seconds = timed(lambda: list(order.epoch(0)))
    return [make_batch(corpus.train, indices) for indices in plan], seconds


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` does, and its processor time in seconds."""
    started = time.process_time()
    return work(), time.process_time() - started


def tokens_of(made: Iterable[Batch]) -> int:
    """Count the tokens of both sides, ENDs counted."""
    return sum(batch.num_source_tokens + batch.num_target_tokens for batch in made)


if __name__ == "__main__":
    main()

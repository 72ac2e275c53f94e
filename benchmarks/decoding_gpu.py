"""Measure translation on a GPU: recorded steps, eager ones, and Hugging Face's.

python benchmarks/decoding_gpu.py
python benchmarks/decoding_gpu.py --sizes tiny base big --vocabulary 32000
python benchmarks/decoding_gpu.py --rehearse

Weights are random, as no bar here is about words: no output ends before it has as many
tokens as asked for. The writers work in turn in this process, each once
before it is timed, and what it took the first time, recording included, is told too.
Each is timed until the host has the tokens. --rehearse goes through all of it on a CPU
with small sizes, and writes nothing unless --out is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from result_file import SEARCH, Measurement, add_options, place_of

from headwise.backends.cuda.cuda_graph_decoder import CudaGraphDecoder
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.decoding.beam import beam_search
from headwise.decoding.greedy import greedy_search
from headwise.decoding.stopping import STOPPING
from headwise.model.presets import PRESETS
from headwise.model.transformer import Transformer
from headwise.text.vocabulary import END, PAD, START

RESULTS = Path(__file__).parent / "results" / "decoding_gpu.json"
CASES = {
    "one sentence, greedy": (1, 1, 14),
    "one sentence, beam 4": (1, 4, 14),
    "batch of 128, greedy": (128, 1, 32),
    "batch of 128, beam 4": (128, 4, 32),
    "batch of 512, greedy": (512, 1, 32),
}
"""Sentences, beam, and tokens of a source and of an output; a sentence of 13 words and
its END where there is one."""

AIMS = {
    ("base", "batch of 128, greedy"): {"tokens_per_second": 45_000},
    ("base", "one sentence, greedy"): {"milliseconds": 5},
}
"""To reach with recorded steps on an H200; 150,000 tokens/s would be better still."""

Write = Callable[[torch.Tensor, int, int], list[list[int]]]


def by_headwise(decoder: Any, vocabulary: int) -> Write:
    """Write as the engine torch does; what ends an output is no token there is."""

    def write(source: torch.Tensor, beam: int, length: int) -> list[list[int]]:
        rows = len(source)
        asked: dict[str, Any] = {
            "start": START,
            "end": vocabulary,
            "max_lengths": [length] * rows,
            "forbidden": (PAD, START, END),
            "device": source.device,
        }
        with torch.inference_mode():
            state = decoder.start(source, torch.ones_like(source, dtype=torch.bool))
            if beam == 1:
                found = greedy_search(decoder, state, num_rows=rows, **asked)
                return [list(each.tokens) for each in found]
            best = beam_search(
                decoder,
                state,
                num_sentences=rows,
                beam=beam,
                penalty=float,
                stopping=STOPPING["first-k"],
                **asked,
            )
            return [list(each.tokens) for each, *_ in best]

    return write


def by_transformers(size: str, vocabulary: int, device: str) -> Write:
    """Write by ``generate`` with a model of the same sizes."""
    from transformers import MarianConfig, MarianMTModel

    config = PRESETS[size].config
    layers = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", config.encoder_layers),
            ("ffn_dim", config.d_ff),
            ("attention_heads", config.num_heads),
        )
    }
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary,
            d_model=config.d_model,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
            **layers,
        )
    )
    model = model.eval().to(device, torch.bfloat16)

    def write(source: torch.Tensor, beam: int, length: int) -> list[list[int]]:
        with torch.inference_mode():
            written = model.generate(
                source,
                attention_mask=torch.ones_like(source),
                num_beams=beam,
                min_new_tokens=length,
                max_new_tokens=length,
                do_sample=False,
            )
        return [row[1:] for row in written.tolist()]

    return write


WRITERS: dict[str, Callable[[str, int, str], Write]] = {
    "headwise torch": lambda size, vocabulary, device: by_headwise(
        CudaGraphDecoder(model_of(size, vocabulary, device), "bf16"), vocabulary
    ),
    "headwise torch-eager": lambda size, vocabulary, device: by_headwise(
        TorchDecoder(model_of(size, vocabulary, device), "bf16"), vocabulary
    ),
    "transformers": by_transformers,
}


def model_of(size: str, vocabulary: int, device: str) -> Transformer:
    """Return a model of a preset with random weights."""
    return Transformer(PRESETS[size].config, vocabulary, seed=1).eval().to(device)


def timed(write: Write, source: torch.Tensor, beam: int, length: int) -> float:
    """Return the seconds of a search; refuse outputs of another length."""
    started = time.perf_counter()
    outputs = write(source, beam, length)
    seconds = time.perf_counter() - started
    if {len(each) for each in outputs} != {length}:
        raise SystemExit("an output has not as many tokens as asked for")
    return seconds


def measured(
    sizes: list[str], vocabulary: int, rounds: int, device: str
) -> dict[str, Any]:
    """Let the writers take turns with each case."""
    table: dict[str, Any] = {}
    for size in sizes:
        writers = {}
        for name, make in WRITERS.items():
            try:
                writers[name] = make(size, vocabulary, device)
            except ImportError as error:
                print(f"{name}: {error}", file=sys.stderr)
        for case, (sentences, beam, length) in CASES.items():
            chance = torch.Generator().manual_seed(1)
            shape = sentences, length
            source = torch.randint(END + 1, vocabulary, shape, generator=chance)
            source = source.to(device)
            first = {
                name: timed(write, source, beam, length)
                for name, write in writers.items()
            }
            found: dict[str, list[float]] = {name: [] for name in writers}
            for _ in range(rounds):
                for name, write in writers.items():
                    found[name].append(timed(write, source, beam, length))
            table.setdefault(size, {})[case] = rows = {
                name: {
                    "milliseconds": round(1000 * statistics.median(seconds), 3),
                    "p95_milliseconds": round(
                        1000 * statistics.quantiles(seconds, n=20)[-1], 3
                    ),
                    "tokens_per_second": round(
                        sentences * length / statistics.median(seconds)
                    ),
                    "first_milliseconds": round(1000 * first[name], 1),
                }
                for name, seconds in found.items()
            }
            ours = rows["headwise torch"]["milliseconds"]
            for row in rows.values():
                row["times_as_long_as_recorded"] = round(row["milliseconds"] / ours, 2)
            rows["headwise torch"] |= {"aim": AIMS.get((size, case))}
            print(size, case, json.dumps(rows), file=sys.stderr, flush=True)
    return table


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", choices=PRESETS)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--rounds", type=int)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    small = arguments.rehearse
    if not small and not torch.cuda.is_available():
        raise SystemExit("there is no GPU; --rehearse goes through it on a CPU")
    measurement = Measurement.begin(SEARCH)
    device = "cpu" if small else "cuda"
    sizes = arguments.sizes or (["micro"] if small else ["tiny", "base", "big"])
    table = measured(
        sizes, arguments.vocabulary, arguments.rounds or (2 if small else 20), device
    )
    report = {
        "device": "cpu" if small else torch.cuda.get_device_name(),
        "precision": "bf16",
        "vocabulary": arguments.vocabulary,
        "sizes": table,
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

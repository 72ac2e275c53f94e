"""Measure on this machine whether the native backend wins, which decides who gets it.

python benchmarks/backend_choice.py
python benchmarks/backend_choice.py --model FOLDER --source FILE
python benchmarks/backend_choice.py --variant v3

Training: updates of two sizes by the native backend and by PyTorch
(``training.backend = "torch"``). Decoding: the committed demo model, and with
``--model`` that one and a wide one with random weights, by the native backend, by
PyTorch and by CTranslate2; all lines together and line by line, greedily and with a
beam of 4. ``--variant`` takes a lesser instruction set than the processor has, for all.

Each backend is a process with one thread; they take turns, round after round. What is
compared is the processor time of each, as other work on the machine does not count in
it; ratios are of the same round. They go to benchmarks/results/backend_choice.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from result_file import SEARCH, TRAINING, Measurement, add_options, place_of

if TYPE_CHECKING:
    from headwise.model import TransformerConfig

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "backend_choice.json"
DEMO = ROOT / "tests" / "models" / "demo"

LIMITED = {
    "v3": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
    "v4": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "CT2_FORCE_CPU_ISA": "AVX512",
    },
    "v4-bf16": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "ATEN_CPU_CAPABILITY": "avx512",
        "CT2_FORCE_CPU_ISA": "AVX512",
    },
}
"""Environment that keeps the other libraries to the instruction set of a variant."""

LENGTH, VOCABULARY = 16, 8000
PAIRS = {"tiny": 32, "wide": 8}
"""Of a batch that is learned from, by the size of the model."""

WIDE = {"encoder_layers": 2, "decoder_layers": 2}
"""The preset base is this deep here: what matters is how wide it is."""

LINES, SINGLE = {"demo": 40, "trained": 32, "wide": 8}, 4
"""Lines searched together, and those searched one by one."""

BEAMS = {"greedy": 1, "beam 4": 4}

Work = Callable[[], object]


def wide() -> TransformerConfig:
    """Return a model of the paper's width, not of its depth."""
    from headwise.model import PRESETS

    return replace(PRESETS["base"].config, **WIDE)


def training(way: str) -> dict[str, Work]:
    """Return updates of each size, by the backend that ``way`` names."""
    import torch
    from random_pairs import random_batch

    from headwise.backends.pytorch.install_fused import use_backend
    from headwise.backends.select_training import cross_entropy_of
    from headwise.model import PRESETS, Transformer
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.optimizer import Optimizer
    from headwise.training.settings import TrainingSettings

    keep_freed_memory()
    torch.manual_seed(0)

    def update(config: TransformerConfig, pairs: int) -> Work:
        batch = random_batch(pairs, length=LENGTH, vocabulary=VOCABULARY)
        model = Transformer(config, VOCABULARY).train()
        use_backend(model, "torch" if way == "torch-eager" else "native")
        optimizer = Optimizer(model, TrainingSettings())

        def learn() -> None:
            optimizer.zero_grad()
            loss = cross_entropy_of(model, batch, smoothing=0.1)
            (loss / batch.num_target_tokens).backward()
            optimizer.step()

        return learn

    sizes = {"tiny": PRESETS["tiny"].config, "wide": wide()}
    return {f"train {size}": update(sizes[size], PAIRS[size]) for size in sizes}


def decoding(way: str, folder: Path) -> dict[str, Work]:
    """Return searches of the model in ``folder``, by the engine that ``way`` names."""
    import headwise
    from headwise.decoding.settings import DecodingSettings

    opened = headwise.load(folder / "model", engine=way)
    lines = json.loads((folder / "lines.json").read_text("utf-8"))
    sources = opened.opened.task.encode(lines)

    def searches(beam: int, *, together: bool) -> Work:
        settings = DecodingSettings(beam=beam, max_length_factor=1.5)
        groups = [sources] if together else [[each] for each in sources[:SINGLE]]
        return lambda: [opened.engine.search(each, settings) for each in groups]

    return {
        f"{folder.name}, {name}, {how}": searches(beam, together=together)
        for name, beam in BEAMS.items()
        for how, together in (("together", True), ("one by one", False))
    }


def serve(way: str, place: str) -> None:
    """Do each work that stdin names; answer with the processor time it took."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not look like an answer
    works = decoding(way, Path(place)) if place else training(way)
    for work in works.values():
        work()
    print(json.dumps([*works]), file=answers, flush=True)
    for line in sys.stdin:
        started = time.process_time()
        works[line.rstrip("\n")]()
        print(json.dumps(time.process_time() - started), file=answers, flush=True)


class Child:
    """One backend, in a process of its own."""

    def __init__(self, way: str, variant: str | None, place: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", way, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "HEADWISE_NATIVE": variant or "on",  # also where others are faster
                **LIMITED.get(variant or "", {}),
                "OMP_NUM_THREADS": "1",
            },
        )
        self.works: list[str] = self.answer()

    def answer(self) -> Any:
        """Return what it says next."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def seconds(self, work: str) -> float:
        """Let it do a work; return the processor time of that."""
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        return float(self.answer())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measured(place: str, variant: str | None, rounds: int) -> dict[str, Any]:
    """Let all backends take turns; return the seconds of each work by backend."""
    labels = {"native": "torch", "PyTorch": "torch-eager"}
    if place:
        labels["CTranslate2"] = "ctranslate2"
    children = {label: Child(way, variant, place) for label, way in labels.items()}
    found: dict[str, dict[str, list[float]]] = {}
    try:
        for _ in range(rounds):
            for label, child in children.items():
                for work in child.works:
                    seconds = found.setdefault(work, {}).setdefault(label, [])
                    seconds.append(child.seconds(work))
    finally:
        for child in children.values():
            child.close()
    return {work: summary(seconds) for work, seconds in found.items()}


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, and how many times PyTorch's each backend takes, round by round.

    Below 1 a backend is faster than PyTorch.
    """
    rows: dict[str, Any] = {}
    for label, each in seconds.items():
        ratios = [a / b for a, b in zip(each, seconds["PyTorch"], strict=True)]
        rows[label] = {
            "seconds": round(statistics.median(each), 4),
            "times_pytorch": round(statistics.median(ratios), 2),
            "least_and_most": [round(min(ratios), 2), round(max(ratios), 2)],
        }
    return rows


def prepare(folder: Path, model: Path, lines: list[str]) -> None:
    """Write what the processes that decode read."""
    folder.mkdir()
    shutil.copytree(model, folder / "model", ignore=shutil.ignore_patterns("exports"))
    (folder / "lines.json").write_text(
        json.dumps(lines[: LINES[folder.name]]), encoding="utf-8"
    )


def write_wide(folder: Path, like: Path) -> None:
    """Write a model of the paper's width with random weights."""
    from headwise.model import Transformer
    from headwise.run_folder.model_folder import open_model_folder, write_model_folder
    from headwise.tasks.translation.task import Translation

    opened = open_model_folder(like)
    size = opened.tokenizers.target.size
    write_model_folder(
        folder,
        model=Transformer(wide(), size, seed=1).eval(),
        task=Translation(opened.tokenizers),
        decoding=opened.decoding,
        facts=opened.facts,
        card="",
    )


def main() -> None:
    """Measure, and write the result."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a trained model folder")
    parser.add_argument("--source", type=Path, help="text for it, plain or .gz")
    parser.add_argument("--about", default="", help="what model that is")
    parser.add_argument("--variant", choices=LIMITED, help="of the native library")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    rounds = 1 if arguments.rehearse else arguments.rounds
    measurement = Measurement.begin([*TRAINING, *SEARCH])
    with tempfile.TemporaryDirectory() as name:
        places = {"demo": Path(name) / "demo"}
        prepare(places["demo"], DEMO, demo_lines())
        if arguments.model:
            raw = arguments.source.read_bytes()
            raw = gzip.decompress(raw) if arguments.source.suffix == ".gz" else raw
            lines = raw.decode("utf-8").split("\n")
            write_wide(Path(name) / "random", arguments.model)
            for label, model in (
                ("trained", arguments.model),
                ("wide", Path(name) / "random"),
            ):
                places[label] = Path(name) / label
                prepare(places[label], model, lines)
        works: dict[str, Any] = {}
        for place in ("", *map(str, places.values())):
            works |= measured(place, arguments.variant, rounds)
            write(arguments, measurement, works)


def write(
    arguments: argparse.Namespace, measurement: Measurement, works: dict[str, Any]
) -> None:
    """Write what was measured so far, and show it."""
    report = {
        "variant": arguments.variant or "the best",
        "trained": arguments.about,
        "processor_seconds": works,
    }
    measurement.write(place_of(arguments), report)
    for work, rows in works.items():
        print(work, {label: row["times_pytorch"] for label, row in rows.items()})


def demo_lines() -> list[str]:
    """Return sentences that the demo model was not trained on."""
    from headwise.demo_corpus import demo_corpus

    corpus = demo_corpus(num_train=1000, num_held_out=LINES["demo"], seed=1)
    return [each.english for each in corpus.held_out]


if __name__ == "__main__":
    main()

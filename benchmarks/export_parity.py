"""Compare what a model writes here with what its exports write in other programs.

    python benchmarks/export_parity.py [FOLDER] [--source FILE --reference FILE]

Needs transformers and ctranslate2 beside headwise (``scripts/setup`` installs both).
Without files: 500 held-out sentences of the demo corpus, for the model in
tests/models/demo. The result goes to benchmarks/results/export_parity.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import headwise
from headwise.data.demo_corpus import demo_corpus
from headwise.data.reading import read_lines
from headwise.interop.ctranslate2 import QUANTIZATIONS
from headwise.interop.exports import export
from headwise.metrics.registry import measure
from headwise.run_folder.model_folder import ModelFolder

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "export_parity.json"
BEAMS = {"greedy": 1, "beam 4": 4}
BATCH = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "tests" / "models" / "demo"
    )
    parser.add_argument("--source", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    sources, references = texts(arguments.source, arguments.reference)
    translator = headwise.load(arguments.folder, engine="torch")
    opened = translator.opened
    ours = {name: translator.translate(sources, beam=b) for name, b in BEAMS.items()}
    rows = {"headwise": row(ours, ours, references, opened.path / "model.safetensors")}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        export(place / "hf", opened, target="huggingface")
        theirs = by_transformers(place / "hf", sources)
        weights = place / "hf" / "model.safetensors"
        rows["transformers float32"] = row(theirs, ours, references, weights)
        for numbers in QUANTIZATIONS:
            folder = place / numbers
            export(folder, opened, target="ctranslate2", quantization=numbers)
            theirs = by_ctranslate2(folder, opened, sources)
            rows[f"ctranslate2 {numbers}"] = row(
                theirs, ours, references, folder / "model.bin"
            )
    report = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            **{
                name: version(name) for name in ("torch", "transformers", "ctranslate2")
            },
        },
        "sentences": len(sources),
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def texts(source: Path | None, reference: Path | None) -> tuple[list[str], list[str]]:
    """Return sources without blank lines, and their references."""
    if source is None or reference is None:
        corpus = demo_corpus(num_train=0, num_dev=0, num_held_out=500, seed=7)
        pairs = [(pair.english, pair.french) for pair in corpus.held_out]
    else:
        both = [
            [line.text for line in read_lines(path, print)]
            for path in (source, reference)
        ]
        pairs = [pair for pair in zip(*both, strict=True) if pair[0].strip()]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def row(
    found: dict[str, list[str]],
    ours: dict[str, list[str]],
    references: list[str],
    weights: Path,
) -> dict[str, Any]:
    """Count equal strings of each search; score them all."""
    return {
        "equal": {
            name: sum(a == b for a, b in zip(found[name], ours[name], strict=True))
            for name in BEAMS
        },
        "bleu": {
            name: round(measure("bleu", found[name], references).value, 2)
            for name in BEAMS
        },
        "bytes_of_weights": weights.stat().st_size,
    }


def by_transformers(folder: Path, sources: list[str]) -> dict[str, list[str]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found: dict[str, list[str]] = {name: [] for name in BEAMS}
    for first in range(0, len(sources), BATCH):
        batch = tokenizer(
            sources[first : first + BATCH], return_tensors="pt", padding=True
        )
        for name, beam in BEAMS.items():
            with torch.inference_mode():
                ids = model.generate(**batch, num_beams=beam)
            found[name] += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return found


def by_ctranslate2(
    folder: Path, opened: ModelFolder, sources: list[str]
) -> dict[str, list[str]]:
    """Translate with pieces, as a program with SentencePiece would."""
    source, target = opened.tokenizers.source, opened.tokenizers.target
    entries = {piece: n for n, piece in enumerate(target.pieces(range(target.size)))}
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    search = json.loads((folder / "translate_batch.json").read_text())
    found = {}
    for name, beam in BEAMS.items():
        results = translator.translate_batch(
            [source.pieces(source.encode(text)) for text in sources],
            max_batch_size=BATCH,
            **{**search, "beam_size": beam},
        )
        found[name] = [
            target.decode([entries[piece] for piece in result.hypotheses[0]])
            for result in results
        ]
    return found


if __name__ == "__main__":
    main()

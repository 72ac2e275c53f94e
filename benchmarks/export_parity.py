"""Compare what a model writes here with what its exports write in other programs.

    python benchmarks/export_parity.py [FOLDER] [--source FILE --reference FILE]

Needs transformers and ctranslate2 beside headwise (``scripts/setup`` installs both).
Without files: 500 held-out sentences of the demo corpus, for the model in
tests/models/demo. The result goes to benchmarks/results/export_parity.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from result_file import (
    EXPORTS,
    TRANSLATION,
    Measurement,
    add_options,
    place_of,
)
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import headwise
from headwise.data.corpus_reader import read_lines
from headwise.demo_corpus import demo_corpus
from headwise.interop.exports import export
from headwise.interop.unsupported_models import QUANTIZATIONS
from headwise.metrics.registry import measure
from headwise.run_folder.model_folder import ModelFolder
from headwise.text.vocabulary import END, PAD, START

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "export_parity.json"
BEAMS = {"greedy": 1, "beam 4": 4}
LIMITS = {"": True, ", one limit for all": False}
"""Whether each source has its own limit, as in the programs of the exports."""

BATCH = 50
EXACT = "float32"

Outputs = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "tests" / "models" / "demo"
    )
    parser.add_argument("--source", type=Path)
    parser.add_argument("--reference", type=Path)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    measurement = Measurement.begin([*TRANSLATION, *EXPORTS])
    torch.set_num_threads(1)

    sources, references = texts(arguments.source, arguments.reference)
    if arguments.rehearse:
        sources, references = sources[:20], references[:20]
    translator = headwise.load(arguments.folder, engine="torch")
    opened = translator.opened
    ours = translated(translator, sources)
    own_weights = opened.path / "model.safetensors"
    rows = {"headwise": row(ours, ours, references, own_weights)}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        fast = copy_of(opened, place / "model")
        theirs = translated(fast, sources)
        rows["headwise --engine ctranslate2"] = row(
            theirs, ours, references, own_weights
        )
        export(place / "hf", opened, target="huggingface")
        weights = place / "hf" / "model.safetensors"
        furthest = {"transformers float32": by_marian(place / "hf", opened, sources)}
        for limits, own in LIMITS.items():
            theirs = by_transformers(place / "hf", sources, own=own)
            rows[f"transformers float32{limits}"] = row(
                theirs, ours, references, weights
            )
        for numbers in QUANTIZATIONS:
            folder = place / numbers
            export(folder, opened, target="ctranslate2", quantization=numbers)
            for limits, own in LIMITS.items():
                theirs = by_ctranslate2(folder, opened, sources, own=own)
                rows[f"ctranslate2 {numbers}{limits}"] = row(
                    theirs, ours, references, folder / "model.bin"
                )
        furthest["ctranslate2 float32"] = by_steps(place / EXACT, opened, sources)
    report = {
        "sentences": len(sources),
        "largest_difference_of_logits": furthest,
        "rows": rows,
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


def copy_of(opened: ModelFolder, folder: Path) -> headwise.Translator:
    """Open a copy of the model with CTranslate2, which keeps an export beside it."""
    without = shutil.ignore_patterns("exports")
    shutil.copytree(opened.path, folder, ignore=without)
    return headwise.load(folder, engine="ctranslate2")


def translated(translator: headwise.Translator, sources: list[str]) -> Outputs:
    """Translate by one search: an output that repeats itself is not searched again."""
    how = {"warnings": {"loop_no_repeat_ngram": 0}}
    return {
        name: translator.translate(sources, beam=beam, **how)
        for name, beam in BEAMS.items()
    }


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


def by_transformers(folder: Path, sources: list[str], *, own: bool) -> Outputs:
    """Translate with ``generate``; ``own`` gives each source its own limit."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    limit = model.generation_config
    ids = [tokenizer(text).input_ids for text in sources]
    found = {name: [""] * len(sources) for name in BEAMS}
    for numbers in batches([len(each) - 1 for each in ids], own=own):
        rows = [sources[number] for number in numbers]
        batch = tokenizer(rows, return_tensors="pt", padding=True)
        length = len(ids[numbers[0]]) - 1
        longest = int(limit.max_length_factor * length) + limit.max_length_offset
        how = {"max_new_tokens": longest} if own else {}
        for name, beam in BEAMS.items():
            with torch.inference_mode():
                written = model.generate(**batch, num_beams=beam, **how)
            texts = tokenizer.batch_decode(written, skip_special_tokens=True)
            for number, text in zip(numbers, texts, strict=True):
                found[name][number] = text
    return found


def by_ctranslate2(
    folder: Path, opened: ModelFolder, sources: list[str], *, own: bool
) -> Outputs:
    """Translate with pieces, as a program with SentencePiece would."""
    source, target = opened.tokenizers.source, opened.tokenizers.target
    entries = {piece: n for n, piece in enumerate(target.pieces(range(target.size)))}
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    search = json.loads((folder / "translate_batch.json").read_text())
    limit = json.loads((folder / "max_length.json").read_text())
    pieces = [source.pieces(source.encode(text)) for text in sources]
    found = {name: [""] * len(sources) for name in BEAMS}
    for numbers in batches([len(each) for each in pieces], own=own):
        length = len(pieces[numbers[0]])
        if own:
            longest = int(limit["factor"] * length) + limit["offset"]
            search["max_decoding_length"] = longest
        for name, beam in BEAMS.items():
            results = translator.translate_batch(
                [pieces[number] for number in numbers], **{**search, "beam_size": beam}
            )
            for number, result in zip(numbers, results, strict=True):
                tokens = [entries[piece] for piece in result.hypotheses[0]]
                found[name][number] = target.decode(tokens)
    return found


def by_marian(folder: Path, opened: ModelFolder, sources: list[str]) -> float:
    """Return how far a logit of Marian lies from ours, along our greedy outputs."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = opened.task.encode(sources)
    furthest = 0.0
    how = replace(opened.decoding, beam=1, num_best=1)
    outputs = opened.task.search(opened.model, ids, how)
    for source, (best, *_) in zip(ids, outputs, strict=True):
        wanted, tokens, before = our_logits(opened, source, best.tokens)
        with torch.inference_mode():
            found = model(input_ids=tokens, decoder_input_ids=before).logits[0]
        furthest = max(furthest, (found - wanted).abs().max().item())
    return furthest


def by_steps(folder: Path, opened: ModelFolder, sources: list[str]) -> float:
    """Return how far a logit of CTranslate2 lies from ours, along its own outputs."""
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    target = opened.tokenizers.target
    entries = {piece: n for n, piece in enumerate(target.pieces(range(target.size)))}
    furthest = 0.0
    for source in opened.task.encode(sources):
        (result,) = translator.translate_batch(
            [opened.tokenizers.source.pieces(source)],
            beam_size=1,
            min_decoding_length=0,  # by default END is taken out of the first step
            max_decoding_length=opened.decoding.max_length(len(source)),
            return_logits_vocab=True,
        )
        written = [entries[piece] for piece in result.hypotheses[0]]
        found = torch.stack([torch.tensor(np.array(each)) for each in result.logits[0]])
        wanted, _, _ = our_logits(opened, source, written)
        furthest = max(furthest, (found - wanted[: len(found)]).abs().max().item())
    return furthest


def our_logits(
    opened: ModelFolder, source: Sequence[int], written: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Score every token after START and each of ``written``; return the inputs too."""
    tokens = torch.tensor([[*source, END]])
    before = torch.tensor([[START, *written]])
    with torch.inference_mode():
        logits = opened.model(tokens, before, tokens != PAD)[0]
    return logits, tokens, before


def batches(lengths: list[int], *, own: bool) -> Iterator[list[int]]:
    """Yield places to be searched together: of one length, or as they come."""
    places = range(len(lengths))
    groups = (
        [[n for n in places if lengths[n] == length] for length in {*lengths}]
        if own
        else [[*places]]
    )
    for group in groups:
        for first in range(0, len(group), BATCH):
            yield group[first : first + BATCH]


if __name__ == "__main__":
    main()

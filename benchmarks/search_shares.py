"""Count how often searches of other tools find what each of our searches finds.

    python benchmarks/search_shares.py FOLDER --source FILE [--about TEXT]

Needs transformers and ctranslate2 beside headwise. One model, exported, is searched
with a beam of 4 and one limit of length for all: by headwise with each of its rules, by
CTranslate2 and by transformers with each of theirs. The result goes to
benchmarks/results/search_shares.json; --table prints it as docs/searches.md has it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from result_file import EXPORTS, SEARCH, Measurement, add_options, place_of
from transformers import AutoModelForSeq2SeqLM

import headwise
from headwise.data.corpus_reader import read_lines
from headwise.decoding.settings import DecodingSettings
from headwise.interop.exports import export
from headwise.run_folder.model_folder import ModelFolder
from headwise.text.vocabulary import END, PAD

RESULTS = Path(__file__).parent / "results" / "search_shares.json"
LONGEST = 60
BEAM = 4
BATCH = 50

Outputs = list[tuple[int, ...]]

OURS: dict[str, dict[str, Any]] = {
    "n^1, first-k": {"patience": 1.0},
    "n^0.6, first-k": {"alpha": 0.6, "patience": 1.0},
    "none, first-k": {"length_penalty": "none", "patience": 1.0},
    "gnmt 0.6, first-k": {"length_penalty": "gnmt", "alpha": 0.6, "patience": 1.0},
    "n^1, first-k, patience 2": {"patience": 2.0},
    "n^1, exact": {"stopping": "exact"},
    "n^0.6, exact": {"alpha": 0.6, "stopping": "exact"},
    "none, exact": {"length_penalty": "none", "stopping": "exact"},
    "gnmt 0.6, exact (the paper)": {
        "length_penalty": "gnmt",
        "alpha": 0.6,
        "stopping": "exact",
    },
}

CTRANSLATE2: dict[str, dict[str, float]] = {
    "length_penalty 1": {"length_penalty": 1.0},
    "length_penalty 0.6": {"length_penalty": 0.6},
    "length_penalty 0": {"length_penalty": 0.0},
    "length_penalty 1e-9": {"length_penalty": 1e-9},
    "length_penalty 1, patience 2": {"length_penalty": 1.0, "patience": 2.0},
}

TRANSFORMERS: dict[str, dict[str, Any]] = {
    f"{penalty}, {stopping}": {"length_penalty": penalty, "early_stopping": stopping}
    for penalty in (1.0, 0.6, 0.0)
    for stopping in (True, False, "never")
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--about", default="", help="what model this is")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--table", action="store_true")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.table:
        print(*tables(json.loads((arguments.out or RESULTS).read_text())), sep="\n")
        return
    if arguments.rehearse:
        arguments.sentences = 20
    measurement = Measurement.begin([*SEARCH, *EXPORTS])
    torch.set_num_threads(1)

    opened = headwise.load(arguments.folder, engine="torch").opened
    lines = [line.text for line in read_lines(arguments.source, print)]
    texts = [line for line in lines if line.strip()][: arguments.sentences]
    sources = opened.task.encode(texts)
    ours = {name: by_headwise(opened, sources, how) for name, how in OURS.items()}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        export(place / "ct2", opened, target="ctranslate2")
        export(place / "hf", opened, target="huggingface")
        theirs = {
            "ctranslate2": by_ctranslate2(place / "ct2", opened, sources),
            "transformers": by_transformers(place / "hf", sources),
        }
    report = {
        "model": arguments.about,
        "search": f"beam {BEAM}, at most {LONGEST} tokens",
        "sentences": len(sources),
        "mean_length": {
            name: round(sum(map(len, found)) / len(found), 2)
            for name, found in ours.items()
        },
        "equal": {
            tool: {
                name: {setting: equal(mine, found) for setting, found in each.items()}
                for name, mine in ours.items()
            }
            for tool, each in theirs.items()
        },
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


def equal(ours: Outputs, theirs: Outputs) -> int:
    return sum(a == b for a, b in zip(ours, theirs, strict=True))


def by_headwise(
    opened: ModelFolder, sources: list[list[int]], how: dict[str, Any]
) -> Outputs:
    settings = DecodingSettings(
        beam=BEAM, max_length_factor=0.0, max_length_offset=LONGEST, **how
    )
    found = opened.task.search(opened.model, sources, settings)
    return [best.tokens for (best,) in found]


def by_ctranslate2(
    folder: Path, opened: ModelFolder, sources: list[list[int]]
) -> dict[str, Outputs]:
    pair = opened.tokenizers
    entries = pair.target.pieces(range(pair.target.size))
    ids = {piece: number for number, piece in enumerate(entries)}
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    found = {}
    for name, how in CTRANSLATE2.items():
        results = translator.translate_batch(
            [pair.source.pieces(source) for source in sources],
            max_batch_size=BATCH,
            beam_size=BEAM,
            max_decoding_length=LONGEST,
            min_decoding_length=0,
            max_input_length=0,
            **how,
        )
        found[name] = [
            tuple(ids[piece] for piece in result.hypotheses[0]) for result in results
        ]
    return found


def by_transformers(folder: Path, sources: list[list[int]]) -> dict[str, Outputs]:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found: dict[str, Outputs] = {name: [] for name in TRANSFORMERS}
    for first in range(0, len(sources), BATCH):
        rows = [
            torch.tensor([*source, END]) for source in sources[first : first + BATCH]
        ]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, PAD)
        for name, how in TRANSFORMERS.items():
            with torch.inference_mode():
                written = model.generate(
                    ids,
                    attention_mask=(ids != PAD).long(),
                    num_beams=BEAM,
                    max_new_tokens=LONGEST,
                    **how,
                )
            found[name] += [without_specials(row) for row in written.tolist()]
    return found


def without_specials(row: list[int]) -> tuple[int, ...]:
    """Take off the start and whatever follows END."""
    written = row[1:]
    return tuple(written[: written.index(END)] if END in written else written)


def tables(report: dict[str, Any]) -> list[str]:
    """Return the shares as Markdown: a row for each search of ours."""
    lines = []
    for rows in report["equal"].values():
        settings = list(next(iter(rows.values())))
        lines += ["", "| headwise | " + " | ".join(settings) + " |"]
        lines.append("| --- |" + " --- |" * len(settings))
        for name, row in rows.items():
            shares = [
                f"{100 * row[each] / report['sentences']:.1f}" for each in settings
            ]
            lines.append(f"| {name} | " + " | ".join(shares) + " |")
    return lines


if __name__ == "__main__":
    main()

"""Measure language models of subwords on novels, by size, in bits per byte.

python benchmarks/gutenberg.py --corpora FOLDER --work FOLDER [--sizes small,medium]
python benchmarks/gutenberg.py --corpora FOLDER --work FOLDER --baselines
python benchmarks/gutenberg.py --plot docs/notebook/gutenberg.png

Whole books train, choose the best checkpoint, and test; the test books are read once
for each seed. All sizes train on equally many tokens, unless time runs out: the result
says on how many. Each token has at least half of a window before it. Bytes are those of
the text, whatever the tokens are: a character without a token costs what its bytes do.

Two baselines have read the training books too, and choose their order on the
validation books: a modified Kneser-Ney model of the same tokens, and PPMd as 7-Zip has
it (what the test books add to the size of the training books compressed). As any
compressor, PPMd goes on learning while it reads the test books; the others do not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyppmd
import torch
from kneser_ney import KneserNey
from result_file import TRAINING, Measurement, add_options, place_of
from trials import add_run, mean_minutes, recipe_of, train_trial

from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.corpus_reader import read_documents
from headwise.data.prepared import PreparedCorpus
from headwise.data.settings import CorpusSettings
from headwise.inference.load import load_predictor
from headwise.recipe import Recipe
from headwise.storage import write_json
from headwise.text.tokenizer import Tokenizer, open_tokenizers
from headwise.text.vocabulary import UNKNOWN
from headwise.training.allocator import keep_freed_memory

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gutenberg.json"
RECIPE = ROOT / "recipes" / "gutenberg.toml"
SOURCES = [
    *TRAINING,
    "src/headwise/tasks/**/*",
    "src/headwise/text/**/*",
    "benchmarks/kneser_ney.py",
    "recipes/gutenberg.toml",
]
PARTS = ("train", "valid", "test")
SIZES: dict[str, dict[str, int]] = {
    "mini": {"d_model": 32, "d_ff": 128, "num_heads": 1},
    "tiny": {"d_model": 64, "d_ff": 256, "num_heads": 2},
    "small": {"d_model": 128, "d_ff": 512},
    "medium": {"d_model": 192, "d_ff": 768, "num_heads": 6},
    "large": {},
}
"""Name -> what of the architecture is not as in the recipe."""

KNESER_NEY_ORDERS = (3, 4, 5, 6, 7)
PPMD_ORDERS = (4, 5, 6, 7, 8, 9, 10, 12, 16)
PPMD_BYTES = 2**30
"""Memory of PPMd's model: it never has to begin a new one."""

Table = dict[str, Any]
Files = dict[str, Path]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--work", type=Path)
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--sizes", type=names, default=[*SIZES])
    parser.add_argument(
        "--seeds", type=lambda text: [*map(int, names(text))], default=[1, 2, 3]
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--baselines", action="store_true", help="instead of training")
    parser.add_argument("--plot", type=Path, help="draw the result file, no more")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    if arguments.plot:
        draw(known, arguments.plot)
        return
    if arguments.corpora is None or arguments.work is None:
        parser.error("--corpora and --work are needed, but for --plot")
    keep_freed_memory()
    measurement = Measurement.begin(SOURCES)
    files = write(arguments.corpora, arguments.work / "data", arguments.rehearse)
    result: Table = {
        "bytes": {part: path.stat().st_size for part, path in files.items()},
        "baselines": known.get("baselines", {}),
        "sizes": known.get("sizes", {}),
    }
    if arguments.baselines or arguments.rehearse:
        result["baselines"] = {
            **baselines(files, arguments),
            **measurement.provenance(),
        }
        measurement.write(place_of(arguments), result)
    if arguments.baselines:
        print(json.dumps(result["baselines"], indent=2), file=sys.stderr)
        return
    for size in arguments.sizes:
        runs: list[Table] = result["sizes"].get(size, {}).get("runs", [])
        for seed in arguments.seeds[:1] if arguments.rehearse else arguments.seeds:
            run = trial(size, seed, files, arguments)
            print(json.dumps({size: run}), file=sys.stderr)
            runs = add_run(runs, run)
            result["sizes"][size] = {
                "runs": runs,
                "threads": torch.get_num_threads(),
                "device": arguments.device,
                **{
                    f"mean_{name}": statistics.mean(run[name] for run in runs)
                    for name in ("validation", "test")
                },
                **mean_minutes(runs),
                **measurement.provenance(),
            }
            measurement.write(place_of(arguments), result)


def trial(size: str, seed: int, files: Files, arguments: argparse.Namespace) -> Table:
    """Train one size with one seed, unless that was done; return the figures."""
    folder = arguments.work / f"{size}-{seed}"
    done = folder / "trial.json"
    if done.is_file():
        found: Table = json.loads(done.read_text(encoding="utf-8"))
        return found
    recipe = sized_recipe(size, seed, files, folder, rehearse=arguments.rehearse)
    corpus = prepare_corpus(folder, recipe)
    state, trained = train_trial(folder, recipe, corpus, arguments.device)
    opened = load_predictor(folder, device=arguments.device).opened
    task, model = opened.any_task, opened.model
    bits = {}
    for part in ("valid", "test"):
        tokens = encode(task.tokenizers.target, files[part])
        log_p = task.log_probabilities(model, tokens, stride=task.context // 2)
        bits[part] = bits_per_byte(log_p.double().sum().item(), files[part])
    figures = {
        "seed": seed,
        "parameters": sum(each.numel() for each in model.parameters()),
        "validation": bits["valid"],
        "test": bits["test"],
        **trained,
        "curve": curve(folder, corpus, files["valid"], state.tokens / state.step),
    }
    write_json(done, figures)
    return figures


def sized_recipe(
    size: str, seed: int, files: Files, folder: Path, *, rehearse: bool
) -> Recipe:
    """Return the recipe for one size of the model."""
    extra: Table = {
        "seed": seed,
        "data": {
            "corpora": [{"source": str(files["train"]), "format": "text"}],
            "dev": {"source": str(files["valid"]), "format": "text"},
        },
        "model": SIZES[size],
    }
    if rehearse:
        extra["training"] = {"steps": 4, "validate_every": 2}
        extra["text"] = {"vocab_size": 500}
    return recipe_of(RECIPE, extra, folder)


def curve(
    folder: Path, corpus: PreparedCorpus, valid: Path, tokens_per_update: float
) -> list[list[float]]:
    """Return tokens trained on and bits per byte of each validation, by windows."""
    tokens = corpus.facts.dev.target_tokens
    entries = map(json.loads, (folder / "log.jsonl").read_text("utf-8").splitlines())
    return [
        [
            round(entry["step"] * tokens_per_update),
            bits_per_byte(-entry["loss"] * tokens, valid),
        ]
        for entry in entries
        if entry["what"] == "validation"
    ]


def baselines(files: Files, arguments: argparse.Namespace) -> Table:
    """Return the figures of both baselines."""
    folder = arguments.work / "baselines"
    recipe = sized_recipe("large", 1, files, folder, rehearse=arguments.rehearse)
    corpus = prepare_corpus(folder, recipe)
    tokenizer = open_tokenizers(corpus.folder / "tokenizer").target
    few = slice(1) if arguments.rehearse else slice(None)
    return {
        "kneser_ney": kneser_ney(files, tokenizer, KNESER_NEY_ORDERS[few]),
        "ppmd": ppmd(files, PPMD_ORDERS[few]),
    }


def kneser_ney(files: Files, tokenizer: Tokenizer, orders: tuple[int, ...]) -> Table:
    """Return the bits per byte of the order that is best on the validation books."""
    tokens = {part: encode(tokenizer, files[part]) for part in PARTS}

    def bits(part: str, order: int) -> float:
        model = KneserNey(tokens["train"], tokenizer.size, order)
        log_p = model.log_probabilities(tokens[part])
        return bits_per_byte(float(log_p.sum()), files[part])

    validation = {order: bits("valid", order) for order in orders}
    best = min(validation, key=validation.__getitem__)
    return {
        "order": best,
        "test": bits("test", best),
        "validation": validation,
        "vocabulary": tokenizer.size,
        "tokens": {part: len(each) for part, each in tokens.items()},
    }


def ppmd(files: Files, orders: tuple[int, ...]) -> Table:
    """Return the bits per byte of the order that is best on the validation books."""
    text = {part: files[part].read_bytes() for part in PARTS}

    def bits(part: str, order: int) -> float:
        both = len(compress(text["train"] + text[part], order))
        added = both - len(compress(text["train"], order))
        return 8 * added / len(text[part])

    validation = {order: bits("valid", order) for order in orders}
    best = min(validation, key=validation.__getitem__)
    whole = text["train"] + text["test"]
    decoder = pyppmd.Ppmd7Decoder(best, PPMD_BYTES)
    if decoder.decode(compress(whole, best), len(whole)) != whole:
        raise ValueError("PPMd does not give back what it compressed")
    return {"order": best, "test": bits("test", best), "validation": validation}


def compress(text: bytes, order: int) -> bytes:
    """Return ``text`` compressed by PPMd, variant H, which is that of 7-Zip."""
    encoder = pyppmd.Ppmd7Encoder(order, PPMD_BYTES)
    compressed: bytes = encoder.encode(text) + encoder.flush(endmark=False)
    return compressed


def encode(tokenizer: Tokenizer, file: Path) -> list[int]:
    """Return the tokens of ``file``, line by line as in training.

    Raises ``ValueError`` if they are not all of the text: nothing is free.
    """
    corpus = CorpusSettings(source=str(file), format="text")
    lines = [line for line, _ in read_documents(corpus)]
    tokens = [token for line in lines for token in tokenizer.encode(line)]
    if UNKNOWN in tokens or tokenizer.decode(tokens) != file.read_bytes().decode():
        raise ValueError(f"{file.name} cannot be told from its tokens")
    return tokens


def bits_per_byte(log_p: float, file: Path) -> float:
    """Return what ``log_p``, in nats, of all of ``file`` is in bits for each byte."""
    return -log_p / math.log(2) / file.stat().st_size


def write(corpora: Path, folder: Path, rehearse: bool) -> Files:
    """Write the books of each part as plain text; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for part in PARTS:
        text = gzip.decompress((corpora / f"gutenberg/{part}.txt.gz").read_bytes())
        if rehearse:
            text = text[: text.index(b"\n", 20_000) + 1]
        paths[part] = folder / f"{part}.txt"
        paths[part].write_bytes(text)
    return paths


def draw(result: Table, file: Path) -> None:
    """Draw bits per byte: of the test books by size, and in training."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_size, by_tokens) = pyplot.subplots(
        1, 2, figsize=(10, 4), layout="constrained"
    )
    found = {size: result["sizes"][size] for size in SIZES if size in result["sizes"]}
    parameters = [each["runs"][0]["parameters"] / 1e6 for each in found.values()]
    by_size.plot(parameters, [each["mean_test"] for each in found.values()], "-")
    for x, (size, each) in zip(parameters, found.items(), strict=True):
        tests = [run["test"] for run in each["runs"]]
        by_size.plot([x] * len(tests), tests, ".", color="C0")
        tokens, bits = np.array(each["runs"][0]["curve"]).T
        by_tokens.plot(tokens / 1e6, bits, label=size)
    for color, name, title in (
        ("C3", "ppmd", "PPMd"),
        ("C4", "kneser_ney", "Kneser-Ney"),
    ):
        baseline = result["baselines"][name]
        label = f"{title}, order {baseline['order']}"
        best = min(baseline["validation"].values())
        by_size.axhline(baseline["test"], color=color, ls="--", label=label)
        by_tokens.axhline(best, color=color, ls="--", label=label)
    by_size.set(
        xlabel="parameters, millions", ylabel="bits per byte", title="test, each seed"
    )
    by_tokens.set(xlabel="tokens of training, millions", title="validation, first seed")
    by_size.set_xscale("log")
    by_size.set_xticks(parameters, [f"{each:.2g}" for each in parameters])
    by_size.minorticks_off()
    figure.legend(*by_tokens.get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()

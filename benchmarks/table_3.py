"""Train the rows of the paper's Table 3 in small, by ``headwise sweep``.

python benchmarks/table_3.py --corpora FOLDER --work FOLDER
    [--only "A heads,E positions"] [--seeds 1,2,3] [--jobs 2]

The base is the preset ``tiny`` on the captions of Multi30k, English to German, and each
row changes of it what it changes of the paper's base: heads (A), the size of keys (B),
sizes (C), dropout and label smoothing (D), positions (E). All have the same updates of
the same batches. Perplexity and BLEU are those of the validation set after the last
update, by greedy search; perplexity is that of pieces, and without label smoothing.

What a group varies is a sweep of its own, resumed where it was stopped. The figures of
sweeps that ran before stay in the result file. Differences to the base are over seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from corpus_lines import read_lines
from result_file import TRAINING, Measurement, add_options, place_of

from headwise.inference.load import load_predictor
from headwise.metrics.paired_difference import paired_difference
from headwise.storage import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "table_3.json"

Table = dict[str, Any]

SWEEPS: dict[str, dict[str, list[Any]]] = {
    "A heads": {"model.num_heads": [4, 1, 2, 8, 16]},
    "B keys": {"model.d_k": [8, 16]},
    "C layers": {"model.encoder_layers": [2, 6], "model.decoder_layers": [2, 6]},
    "C width": {"model.d_model": [64, 256]},
    "C inner width": {"model.d_ff": [512, 1024]},
    "D dropout": {"model.dropout": [0.0, 0.3]},
    "D label smoothing": {"training.label_smoothing": [0.0, 0.2]},
    "E positions": {"model.positions": ["learned", "none"]},
}
"""Group of Table 3, and what of it a sweep varies -> the values, every combination."""

BASE = ("A heads", {"model.num_heads": 4})

RECIPE = """\
preset = "tiny"
languages = ["en", "de"]

[data]
corpora = [{{ source = "{work}/train.en", target = "{work}/train.de" }}]

[data.dev]
source = "{work}/val.en"
target = "{work}/val.de"

[text]
vocab_size = {vocab_size}

[model]
dropout = 0.1

[training]
steps = {steps}
batch_tokens = 2048
schedule = "linear"
learning_rate = 0.0015
weight_decay = 0.0
warmup_steps = {warmup_steps}
validate_every = {validate_every}
average_last = 1
measure = "bleu"

[decoding]
beam = 1
"""
UPDATES = {"steps": 1000, "warmup_steps": 250, "validate_every": 500}
REHEARSAL = {"steps": 4, "warmup_steps": 2, "validate_every": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder of the sweeps")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[*SWEEPS], help="sweeps"
    )
    parser.add_argument("--seeds", default="1", help="as of headwise sweep")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time")
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if unknown := ", ".join(each for each in arguments.only if each not in SWEEPS):
        parser.error(f"there is no {unknown}; choose from {', '.join(SWEEPS)}")
    measurement = Measurement.begin([*TRAINING, "src/headwise/sweep/*"])
    recipe = write_recipe(arguments)
    for name in arguments.only:
        rows = sweep(recipe, name, arguments)
        print(json.dumps({name: rows}), file=sys.stderr, flush=True)
        place = place_of(arguments)
        # read again after each sweep: another process may have added its own
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        sweeps = compared({**known.get("sweeps", {}), name: rows})
        measurement.write(place, {**UPDATES, "sweeps": sweeps})


def write_recipe(arguments: argparse.Namespace) -> Path:
    """Write corpus and recipe; return the recipe."""
    work = arguments.work.resolve()
    for part in ("train", "val"):
        for language in ("en", "de"):
            lines = read_lines(arguments.corpora / "multi30k" / f"{part}.{language}")
            lines = lines[:300] if arguments.rehearse else lines
            write_text(work / f"{part}.{language}", "".join(f"{x}\n" for x in lines))
    size = 300 if arguments.rehearse else 8000
    settings = REHEARSAL if arguments.rehearse else UPDATES
    recipe = work / "recipe.toml"
    write_text(recipe, RECIPE.format(work=work, vocab_size=size, **settings))
    return recipe


def sweep(recipe: Path, name: str, arguments: argparse.Namespace) -> list[Table]:
    """Train every combination with every seed; return a row for each."""
    out = arguments.work / name.replace(" ", "-")
    command = [sys.executable, "-m", "headwise", "sweep", str(recipe)]
    command += ["--out", str(out), "--no-pruning", "--json"]
    command += ["--seeds", arguments.seeds, "--jobs", str(arguments.jobs)]
    for path, values in SWEEPS[name].items():
        command += ["--vary", f"{path}={','.join(map(str, values))}"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    trials = json.loads(printed.stdout)["trials"]
    rows: list[Table] = []
    for values in product(*SWEEPS[name].values()):
        settings = dict(zip(SWEEPS[name], values, strict=True))
        runs = [run_of(each) for each in trials if each["settings"] == settings]
        runs.sort(key=lambda run: int(run["seed"]))
        rows.append({"settings": settings, "runs": runs})
    return rows


def run_of(trial: Mapping[str, Any]) -> Table:
    """Return the figures of a finished trial."""
    if trial["state"] != "finished":
        raise SystemExit(f"{trial['folder']} is {trial['state']}: {trial['error']}")
    folder = Path(trial["folder"])
    last = validations(folder)[-1]
    model = load_predictor(folder).opened.model
    return {
        "seed": trial["seed"],
        "perplexity": last["perplexity"],
        "bleu": last["scores"]["bleu"]["value"],
        "minutes": trial["minutes"],
        "parameters": sum(each.numel() for each in model.parameters()),
    }


def validations(folder: Path) -> list[Table]:
    """Return the validations that the log of a run folder has."""
    with (folder / "log.jsonl").open(encoding="utf-8") as lines:
        events = map(json.loads, lines)
        return [each for each in events if each["what"] == "validation"]


def compared(sweeps: Mapping[str, Sequence[Table]]) -> Table:
    """Return the rows with means, and differences to the base over common seeds."""
    group, settings = BASE
    base = {
        run["seed"]: run
        for row in sweeps.get(group, ())
        if row["settings"] == settings
        for run in row["runs"]
    }
    return {
        name: [row_of(row["settings"], row["runs"], base) for row in rows]
        for name, rows in sweeps.items()
    }


def row_of(settings: Table, runs: Sequence[Table], base: Mapping[int, Table]) -> Table:
    """Return one row of the table: means, and differences of nats and BLEU."""
    changes = [f"{path.split('.')[1]} {value}" for path, value in settings.items()]
    row: Table = {"row": " ".join(changes), "settings": settings}
    row["parameters"] = runs[0]["parameters"]
    row["perplexity"] = statistics.mean(run["perplexity"] for run in runs)
    row["bleu"] = statistics.mean(run["bleu"] for run in runs)
    pairs = [(run, base[run["seed"]]) for run in runs if run["seed"] in base]
    if pairs:
        row["nats_less_base"] = difference(
            [math.log(run["perplexity"]) for run, _ in pairs],
            [math.log(other["perplexity"]) for _, other in pairs],
        )
        row["bleu_less_base"] = difference(
            [run["bleu"] for run, _ in pairs], [other["bleu"] for _, other in pairs]
        )
    return {**row, "runs": [*runs]}


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Table:
    """Return the mean of ``ours - theirs`` with its 95% interval."""
    found = paired_difference(ours, theirs)
    return {"mean": found.mean, "low": found.low, "high": found.high}


if __name__ == "__main__":
    main()

"""Compare the Transformer with what it replaced, at equal budgets, by length.

python benchmarks/what_attention_replaced.py --corpora FOLDER --work FOLDER
    [--only gru,gru-none] [--tasks translation,copy] [--seeds 1,2,3] [--test]
    [--learning-rate 0.001] [--updates 1600]

Every kind takes the same updates of the same batches, by PyTorch on one thread, in the
task

translation  English to French sentences of Tatoeba, of which 1 to 4 are joined for
             training, and 1, 2, 4, 8 and 16 to be translated: always the same ones,
             so that only how many are together differs;
copy         random strings of symbols, to be copied: 1 to 20 for training, and 5 to 80.

Outputs are found by greedy search. Scores are of the validation set, by which learning
rates are chosen (``--learning-rate`` and ``--updates``, whose trials stand under names
of their own); ``--test`` reads the test set, once a trial. Times of updates are those
of the clock, as the log has them, of tokens written those of the processor. The figures
of kinds and seeds that ran before stay in the result file: it is the ledger.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from corpus_lines import read_lines
from result_file import TRAINING, TRANSLATION, Measurement, own_seconds, place_of
from trials import add_run, mean_and_deviation, parse_trial_options, run_trial

from headwise.cli.build_recipe import resolve_checked
from headwise.inference.load import load_predictor
from headwise.metrics.bleu_chrf_ter import bleu
from headwise.settings import merged
from headwise.storage import write_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "what_attention_replaced.json"
PICTURE = ROOT / "docs" / "what-attention-replaced.png"
SOURCES = [*TRAINING, *TRANSLATION]

Table = dict[str, Any]
Pairs = list[tuple[str, str]]

SIZES: Table = {"d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.1}
DEEP: Table = {"encoder_layers": 4, "decoder_layers": 4}
SHALLOW: Table = {"encoder_layers": 2, "decoder_layers": 2}
"""Of recurrent models, whose layers have no residual connections around them."""

KINDS: dict[str, Table] = {
    "transformer": {"kind": "transformer", **DEEP},
    "transformer-pre": {"kind": "transformer", "norm": "pre", **DEEP},
    "convolutional": {"kind": "convolutional", **DEEP},
    "dilated": {"kind": "dilated", **DEEP},
    **{kind: {"kind": kind, **SHALLOW} for kind in ("elman", "gru", "lstm")},
    **{
        f"{kind}-{attention}": {
            "kind": kind,
            "recurrent_attention": attention,
            **SHALLOW,
        }
        for kind in ("gru", "lstm")
        for attention in ("none", "cosine", "dot")
    },
}
"""Name of a trial -> its architecture, besides ``SIZES``."""

FAMILIES = [name for name in KINDS if "-" not in name]
LINE_STYLES = {"": "-", "pre": "--", "none": ":", "cosine": "--", "dot": "-."}
"""Kinds, each of which has a color in the plot, and the lines of their variants."""

RATES = {
    "transformer": 0.002,
    "transformer-pre": 0.002,
    "convolutional": 0.008,
    "dilated": 0.008,
}
RATE_OF_RECURRENCES = 0.004
"""Peak learning rates: of those from 0.001 to 0.008 that were tried (docs/
what-attention-replaced.md), the one with the highest BLEU of the validation set after
1,600 updates of one seed, or with the lower loss where BLEU is within half a point. A
GRU with attention stands for all recurrent models. Copies are learned with the same
rates."""

TRAINED: dict[str, Table] = {
    "translation": {"steps": 3000, "warmup_steps": 300, "batch_tokens": 1024},
    "copy": {"steps": 1500, "warmup_steps": 150, "batch_tokens": 1024},
}
"""Task -> its updates, and tokens of each."""

TRAINING_SETTINGS: Table = {
    "optimizer": "adam",
    "schedule": "linear",
    "backend": "torch",
    "processes": 1,
    "average_last": 1,
}
REHEARSAL: Table = {"steps": 4, "warmup_steps": 2, "batch_tokens": 512}
VALIDATIONS = 4
EQUAL_LOSS = {"translation": 2.5}
"""Task -> nats a token, whose time of training is compared; copying is learned before
the first validation."""

MOST_JOINED = 4
JOINED = (1, 2, 4, 8, 16)
SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
LONGEST_COPIED = 20
COPIED = (5, 10, 20, 40, 80)
STRINGS, STRINGS_OF_A_LENGTH = 50_000, 200
DATA_SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*KINDS])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=[*TASKS])
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--updates", type=int, help="with a tenth of them as warm-up")
    parser.add_argument("--test", action="store_true", help="read the test sets")
    arguments = parse_trial_options(parser, RESULTS)
    for given, names in ((arguments.only, [*KINDS]), (arguments.tasks, [*TASKS])):
        if unknown := ", ".join(each for each in given if each not in names):
            parser.error(f"there is no {unknown}; choose from {', '.join(names)}")
    torch.set_num_threads(1)
    measurement = Measurement.begin(SOURCES)
    for task in arguments.tasks:
        for kind in arguments.only:
            for seed in arguments.seeds:
                run = trial(task, kind, seed, arguments)
                print(json.dumps({name_of(kind, arguments): run}), file=sys.stderr)
                place = place_of(arguments)
                # read again after each trial: another process may have added its own
                known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
                tasks: Table = known.get("tasks", {})
                trials = tasks.setdefault(task, {})
                name = name_of(kind, arguments)
                runs = add_run(trials.get(name, {}).get("runs", []), run)
                trials[name] = {"model": KINDS[kind], "runs": runs, **means(runs)}
                measurement.write(place, {"tasks": tasks})
    if not arguments.rehearse:
        draw(json.loads(RESULTS.read_text())["tasks"], PICTURE)


def name_of(kind: str, arguments: argparse.Namespace) -> str:
    """Return the name of a kind, and of its learning rate and updates if given."""
    given = {"rate": arguments.learning_rate, "updates": arguments.updates}
    parts = [f"-{name}-{value}" for name, value in given.items() if value is not None]
    return kind + "".join(parts)


def rate_of(kind: str, arguments: argparse.Namespace) -> float:
    """Return the peak learning rate of a kind, unless another one was given."""
    given: float | None = arguments.learning_rate
    return RATES.get(kind, RATE_OF_RECURRENCES) if given is None else given


def trial(task: str, kind: str, seed: int, arguments: argparse.Namespace) -> Table:
    """Train one kind with one seed; return its figures by length."""
    folder = arguments.work / f"{task}-{name_of(kind, arguments)}-{seed}"
    of_task = TASKS[task]
    trained = dict(REHEARSAL if arguments.rehearse else TRAINED[task])
    if arguments.updates is not None:
        trained["steps"] = arguments.updates
        trained["warmup_steps"] = arguments.updates // 10
    table: Table = {
        "seed": seed,
        "model": {**SIZES, **KINDS[kind]},
        "training": {
            **TRAINING_SETTINGS,
            "learning_rate": rate_of(kind, arguments),
            **trained,
            "validate_every": trained["steps"] // VALIDATIONS,
        },
        "decoding": {"beam": 1, "split_sentences": False},
    }
    table = merged(table, of_task.settings(arguments))
    recipe = resolve_checked(preset="tiny", extra=table, out=folder)
    validation = split(of_task.pairs(arguments, "dev", of_task.lengths[0]))
    run = run_trial(folder, recipe, validation, of_task.metrics)
    del run["test"], run["test_examples"]  # the validation set once more
    losses = validation_losses(folder)
    run["losses"] = losses
    if task in EQUAL_LOSS:
        run["seconds_to_equal_loss"] = seconds_to(EQUAL_LOSS[task], losses)
    for part in ("dev", "test"):
        if part == "dev" or arguments.test or part_file(folder, part).is_file():
            run[part] = by_length(of_task, folder, part, arguments)
    return run


def validation_losses(folder: Path) -> list[Table]:
    """Return the losses of the validation set, with seconds of updates until then."""
    seconds: dict[int, float] = {}
    found: dict[int, Table] = {}
    for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["what"] == "update":
            seconds[event["step"]] = event["seconds"]
        elif event["what"] == "validation":
            step = event["step"]
            until = sum(each for number, each in seconds.items() if number <= step)
            found[step] = {"updates": step, "seconds": until, "loss": event["loss"]}
    return [*found.values()]


def seconds_to(loss: float, losses: Sequence[Table]) -> float | None:
    """Return the seconds of updates until ``loss``, None if it was not reached.

    Between two validations the loss is taken for a straight line; before the first one
    nothing is known, and None returned too.
    """
    for before, after in pairwise(losses):
        if after["loss"] <= loss < before["loss"]:
            share = (before["loss"] - loss) / (before["loss"] - after["loss"])
            seconds = after["seconds"] - before["seconds"]
            return float(before["seconds"] + share * seconds)
    return None


def by_length(
    task: Task, folder: Path, part: str, arguments: argparse.Namespace
) -> Table:
    """Return the figures of a part by length; each is translated once."""
    done = part_file(folder, part)
    if not done.is_file():
        opened = load_predictor(folder).opened
        any_task: Any = opened.any_task
        generator = any_task.generator(opened.model, native=False)
        settings = replace(opened.decoding, beam=1)
        found: Table = {
            "parameters": sum(each.numel() for each in opened.model.parameters())
        }
        for length in task.lengths:
            inputs, references = split(task.pairs(arguments, part, length))
            began = own_seconds()
            hypotheses = generator.search(any_task.encode(inputs), settings)
            seconds = own_seconds() - began
            best = [each for each, *_ in hypotheses]
            outputs = [any_task.decode(each) for each in best]
            tokens = sum(len(each.tokens) + 1 for each in best)
            found[str(length)] = {
                **task.score(outputs, references),
                "outputs": len(outputs),
                "tokens": tokens,
                "milliseconds_a_token": 1000 * seconds / tokens,
            }
        write_json(done, found)
    read: Table = json.loads(done.read_text(encoding="utf-8"))
    return read


def part_file(folder: Path, part: str) -> Path:
    """Return where the figures of a part are kept."""
    return folder / f"{part}.json"


def means(runs: Sequence[Table]) -> Table:
    """Return mean and deviation over seeds of every figure of each part and length."""
    found: Table = {}
    for part in ("dev", "test"):
        parts = [run[part] for run in runs if part in run]
        for length in (each for each in (parts[0] if parts else ()) if each.isdigit()):
            for name in parts[0][length]:
                values = [each[length][name] for each in parts]
                by_length = found.setdefault(part, {}).setdefault(length, {})
                by_length[name] = mean_and_deviation(values)
    return found


def draw(tasks: Table, file: Path) -> None:
    """Draw the figures of the validation set by length, one line for each kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1,
        len(tasks),
        figsize=(5.5 * len(tasks), 4.6),
        layout="constrained",
        squeeze=False,
    )
    labels = {
        "translation": ("sentences together", "bleu", "BLEU", MOST_JOINED),
        "copy": ("symbols", "symbols", "symbols in their place, %", LONGEST_COPIED),
    }
    colors = pyplot.get_cmap("tab10").colors
    of_kind = dict(zip(FAMILIES, colors, strict=False))
    for axis, (task, trials) in zip(axes[0], tasks.items(), strict=True):
        across, figure_name, up, longest = labels[task]
        for name in (each for each in KINDS if each in trials):
            found = trials[name]["dev"]
            values = [each[figure_name]["mean"] for each in found.values()]
            family, _, variant = name.partition("-")
            axis.plot(
                [*map(int, found)],
                values,
                marker="o",
                markersize=4,
                color=of_kind[family],
                linestyle=LINE_STYLES[variant],
                label=name,
            )
        lengths = TASKS[task].lengths
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [*map(str, lengths)])
        axis.minorticks_off()
        axis.axvline(longest, color="gray", lw=1, ls=":")
        axis.set(xlabel=f"{across} (dotted: most in training)", ylabel=up, title=task)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


@dataclass(frozen=True)
class Task:
    """What is learned, and how an output is scored."""

    lengths: tuple[int, ...]
    metrics: tuple[str, ...]
    settings: Callable[[argparse.Namespace], Table]
    """Data and tokenizer, of the files that it writes."""

    pairs: Callable[[argparse.Namespace, str, int], Pairs]
    """The pairs of ``dev`` or ``test`` of one length."""

    score: Callable[[Sequence[str], Sequence[str]], Table]


def joined_settings(arguments: argparse.Namespace) -> Table:
    """Write joined sentences of the training and validation sets."""
    chance = random.Random(DATA_SEED)
    train = read_pairs(arguments, "train")
    chance.shuffle(train)
    lines = []
    while train:
        count = min(chance.randint(1, MOST_JOINED), len(train))
        lines.append(joined([train.pop() for _ in range(count)]))
    dev = [
        pair
        for count in JOINED
        if count <= MOST_JOINED
        for pair in joined_pairs(arguments, "dev", count)[: 400 // count]
    ]
    size = 300 if arguments.rehearse else 4000
    data = written(arguments.work / "data" / "joined", {"train": lines, "dev": dev})
    return {"languages": ["en", "fr"], "text": {"vocab_size": size}, "data": data}


def joined_pairs(arguments: argparse.Namespace, part: str, count: int) -> Pairs:
    """Return the sentences of a part, ``count`` after each other in one line."""
    pairs = read_pairs(arguments, part)
    return [
        joined(pairs[start : start + count])
        for start in range(0, len(pairs) - count + 1, count)
    ]


def joined(pairs: Pairs) -> tuple[str, str]:
    """Return some pairs as one."""
    english, french = zip(*pairs, strict=True)
    return " ".join(english), " ".join(french)


def read_pairs(arguments: argparse.Namespace, part: str) -> Pairs:
    """Return the pairs of a part of Tatoeba; few of them in a rehearsal."""
    lines = read_lines(arguments.corpora / "tatoeba-en-fr" / f"{part}.tsv")
    if arguments.rehearse:
        lines = lines[: 400 if part == "train" else 32]
    found = (line.split("\t")[:2] for line in lines)
    return [(english, french) for english, french in found]


def copy_settings(arguments: argparse.Namespace) -> Table:
    """Write random strings and their copies."""
    chance = random.Random(DATA_SEED)
    count = 200 if arguments.rehearse else STRINGS
    train = [copied(chance, chance.randint(1, LONGEST_COPIED)) for _ in range(count)]
    dev = [copied(chance, 1 + number % LONGEST_COPIED) for number in range(200)]
    data = written(arguments.work / "data" / "copy", {"train": train, "dev": dev})
    return {
        "text": {"tokenizer": "words", "vocab_size": 100},
        "data": data,
        "training": {"measure": "exact-match"},
    }


def copy_pairs(arguments: argparse.Namespace, part: str, length: int) -> Pairs:
    """Return random strings of one length and their copies."""
    chance = random.Random(f"{part} {length}")
    count = 2 if arguments.rehearse else STRINGS_OF_A_LENGTH
    return [copied(chance, length) for _ in range(count)]


def copied(chance: random.Random, length: int) -> tuple[str, str]:
    """Return a random string of symbols twice."""
    text = " ".join(chance.choices(SYMBOLS, k=length))
    return text, text


def written(folder: Path, parts: Mapping[str, Pairs]) -> Table:
    """Write each part as a table of two columns; return the settings of them."""
    for name, pairs in parts.items():
        folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{source}\t{target}\n" for source, target in pairs)
        write_text(folder / f"{name}.tsv", "".join(lines))
    return {
        "corpora": [{"source": str(folder / "train.tsv")}],
        "dev": {"source": str(folder / "dev.tsv")},
    }


def split(pairs: Pairs) -> tuple[list[str], list[str]]:
    """Return the sources, and the targets."""
    return [source for source, _ in pairs], [target for _, target in pairs]


def bleu_of(outputs: Sequence[str], references: Sequence[str]) -> Table:
    """Return BLEU, with its signature left to the version of the tool."""
    return {"bleu": bleu(outputs, references).value}


def accuracy_of(outputs: Sequence[str], references: Sequence[str]) -> Table:
    """Return shares of strings without an error, and of symbols in their place."""
    pairs = [
        (output.split(), reference.split())
        for output, reference in zip(outputs, references, strict=True)
    ]
    right = sum(
        mine == theirs
        for output, reference in pairs
        for mine, theirs in zip(output, reference, strict=False)
    )
    symbols = sum(len(reference) for _, reference in pairs)
    strings = statistics.mean(output == reference for output, reference in pairs)
    return {"strings": 100 * strings, "symbols": 100 * right / symbols}


TASKS = {
    "translation": Task(JOINED, ("bleu",), joined_settings, joined_pairs, bleu_of),
    "copy": Task(COPIED, ("exact-match",), copy_settings, copy_pairs, accuracy_of),
}


if __name__ == "__main__":
    main()

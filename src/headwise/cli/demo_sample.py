"""``headwise demo NAME``: write a sample, train a model on it, and show its scores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from headwise.cli.argument_checks import use_command
from headwise.cli.options import say, use_threads
from headwise.cli.prepare_and_train import prepare_corpus, train_model
from headwise.cli.standard_streams import output
from headwise.recipe import Recipe, resolve
from headwise.sample_data.samples import SAMPLES, Sample
from headwise.settings import merged
from headwise.tasks import TASKS

SETTINGS = {
    "text": {"vocab_size": 2000},
    "model": {"dropout": 0.1},
    "training": {
        "steps": 1_500,
        "label_smoothing": 0.0,
        "learning_rate": 0.002,
        "weight_decay": 0.0,
        "schedule": "linear",
        "validate_every": 500,
        "average_last": 1,
    },
}
"""On top of the preset micro."""

NUM_SHOWN = 3
"""Test examples that are printed with the model's output."""


def demo_sample(
    name: str, out: Path, *, max_minutes: float | None, threads: int | None
) -> None:
    """Write the sample called ``name`` into ``out``, learn it, and print scores."""
    from headwise.run_folder.overwrite_protection import lock_run_folder

    sample = SAMPLES[name]
    say(f"generating {name}: {sample.summary}")
    with lock_run_folder(out):
        files = sample.write(out / "corpus")
    limit = {} if max_minutes is None else {"training": {"max_minutes": max_minutes}}
    recipe = sample_recipe(sample, files, limit)
    use_threads(threads)
    train_model(out, recipe, prepare_corpus(out, recipe), "cpu")
    if sample.task == "parsing":
        _show_trees(out, files["test"])
    elif sample.suffix == ".txt":
        _show_text(out, files["test"], sample)
    else:
        _show_labels(out, files["test"], sample)


def sample_recipe(
    sample: Sample, files: Mapping[str, Path], extra: Mapping[str, Any]
) -> Recipe:
    """Return the recipe by which a sample is learned; ``extra`` goes before it."""
    table = merged(SETTINGS, sample.settings)
    table = merged(table, {"task": sample.task, "data": _data(sample, files)})
    return resolve(preset="micro", extra=merged(table, extra))


FIELDS = {
    ".jsonl": {"format": "dialogues"},
    ".npz": {"format": "pictures"},
    ".txt": {"format": "text"},
}
"""Suffix -> settings of the corpora besides the path."""


def _data(sample: Sample, files: Mapping[str, Path]) -> dict[str, object]:
    field = FIELDS.get(sample.suffix, {})
    train, dev = ({"source": str(files[part]), **field} for part in ("train", "dev"))
    return {"corpora": [train], "dev": dev}


def _show_labels(out: Path, test: Path, sample: Sample) -> None:
    from headwise.cli.translate_and_score import predict_and_score, read_parallel
    from headwise.data.picture_entries import shown_source
    from headwise.inference.load import load_predictor

    sources, references = read_parallel(test, None, task=sample.task)
    names = TASKS[sample.task].final_measures
    scores, outputs = predict_and_score(load_predictor(out), sources, references, names)
    output(f"\nOn {len(sources):,} examples that show combinations not in training:\n")
    for score in scores:
        output(str(score))
    output("")
    shown = zip(sources, references, outputs, strict=True)
    for source, reference, found in islice(shown, NUM_SHOWN):
        verdict = "correct" if found == reference else f"it is {reference}"
        output(f"    {shown_source(source)}\n    → {found} ({verdict})\n")
    given = f"YOUR{sample.suffix}" if sample.suffix == ".npz" else "< YOUR_TEXT"
    output(
        f"Next:\n    headwise {use_command(sample.task)} {quote(str(out))} {given}\n"
        f"    headwise run YOUR{sample.suffix} --task {sample.task} --out my-model"
    )


def _show_text(out: Path, test: Path, sample: Sample) -> None:
    """Show perplexity, and sentences that the model completes."""
    from headwise.cli.text_perplexity import print_perplexity
    from headwise.inference.load import load_predictor
    from headwise.inference.text_generator import TextGenerator

    lines = test.read_text(encoding="utf-8").splitlines()
    output(f"\nOn {len(lines):,} sentences that show combinations not in training:\n")
    print_perplexity(out, test, device="cpu", stride=None, as_json=False)
    output("")
    shown = [line.split() for line in lines[:NUM_SHOWN]]
    folder = quote(str(out))
    if sample.task == "masked_language_model":
        given = [" ".join([*words[:-1], "[MASK]."]) for words in shown]
        found = load_predictor(out).predict(given)
        command = f'echo "A sentence with a [MASK]." | headwise predict {folder}'
    else:
        given = [" ".join(words[: len(words) // 2]) for words in shown]
        generator = TextGenerator.open(out)
        found = [generator.generate(each).split("\n")[0] for each in given]
        command = f'headwise generate {folder} --prompt "The beginning"'
    for before, after in zip(given, found, strict=True):
        output(f"    {before}\n    → {after}\n")
    output(
        f"Next:\n    {command}\n"
        f"    headwise run YOUR.txt --task {sample.task} --out my-model"
    )


def _show_trees(out: Path, test: Path) -> None:
    from headwise.cli.bracket_table import print_bracket_table
    from headwise.cli.draw_trees import draw
    from headwise.cli.translate_and_score import read_parallel
    from headwise.inference.load import load_predictor

    sources, references = read_parallel(test, None, task="parsing")
    outputs = load_predictor(out).predict(sources)
    output(f"\nOn {len(sources):,} sentences that show combinations not in training:\n")
    print_bracket_table(outputs, references, as_json=False)
    output("")
    for tree in outputs[:NUM_SHOWN]:
        output(draw(tree, "text"))
    output(
        f"Next:\n    headwise predict {quote(str(out))} --draw text < YOUR_TEXT\n"
        "    headwise run YOUR.mrg --task parsing --out my-model"
    )

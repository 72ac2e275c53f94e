"""Fine-tune models that ship on a little text of another kind, and compare.

python benchmarks/fine_tuning.py --corpora FOLDER --work FOLDER --seeds 1

Captions (Multi30k, from English) are unlike the everyday sentences of Tatoeba that
``en-fr`` and ``en-de`` were trained on. Of the first so many training pairs learn: a
model whose weights are drawn, the one that ships by the defaults of ``--from``, the
same if BLEU of the held-out pairs chooses the best checkpoint and tells when to stop,
as it does where weights are drawn, and this by the whole learning rate too. BLEU of the
validation captions, and of Tatoeba's validation sentences: what was learned, and what
is forgotten. ``none`` trains nothing, and ``averaged-SHARE`` is the mean of the weights
of ``fine-tuned``, of which it has that share, and of the model that ships. Figures of
trials and seeds that ran before stay in the result file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from corpus_lines import read_lines
from result_file import TRAINING, TRANSLATION
from trials import REHEARSAL, mean_and_deviation, origin, run_data_trials, run_trial

from headwise.cli.build_recipe import resolve_checked
from headwise.inference.translator import Translator, load
from headwise.metrics.bleu_chrf_ter import bleu
from headwise.recipe import Recipe
from headwise.recipe.preset_training import preset_for, preset_table
from headwise.run_folder.model_average import average_models
from headwise.settings import merged
from headwise.storage import write_text

RESULTS = Path(__file__).parent / "results" / "fine_tuning.json"
DATA = {
    "captions-300": ("fr", 300),
    "captions-2000": ("fr", 2000),
    "german-captions-300": ("de", 300),
    "german-captions-2000": ("de", 2000),
}
"""Name -> language of the targets, and the number of pairs."""

PRESET = "micro"
"""What ``headwise run`` chooses for so few pairs."""

Table = dict[str, Any]

DRAWN = preset_table(PRESET)["training"]
"""Settings of training where weights are drawn."""

BY_BLEU: Table = {"measure": "bleu", "patience": DRAWN["patience"]}

TRIALS: dict[str, Table] = {
    "none": {},
    "scratch": {},
    "fine-tuned": {},
    "by-bleu": {"training": BY_BLEU},
    "whole-rate": {"training": {**BY_BLEU, "learning_rate": DRAWN["learning_rate"]}},
    "averaged-0.25": {},
    "averaged-0.5": {},
    "averaged-0.75": {},
}
"""Name of a trial -> what it changes in what ``headwise run`` does with the text."""

WITHOUT_MODEL = ("scratch",)
"""Trials that do not start from the model that ships."""


def trial(data: str, name: str, seed: int, arguments: argparse.Namespace) -> Table:
    """Train with one seed; return its figures, by the model's own search."""
    work: Path = arguments.work
    folder = work / f"{data}-{name}-{seed}"
    language, _ = DATA[data]
    captions = pairs(arguments, language, "val")
    recipe = recipe_of(data, name, seed, arguments, folder)
    if name in UNTRAINED:
        run = {"seed": seed, "updates": 0, **origin(recipe)}
        translator = load(UNTRAINED[name](data, seed, arguments))
    else:
        run = run_trial(folder, recipe, captions, ["bleu"])
        del run["test"], run["test_examples"]  # of the validation captions, below
        translator = load(folder)
    rows = read_lines(arguments.corpora / f"tatoeba-en-{language}" / "dev.tsv")
    everyday = [row.split("\t") for row in rows]
    columns = [row[0] for row in everyday], [row[1] for row in everyday]
    run["bleu"] = {
        "captions": score(translator, captions),
        "everyday sentences": score(translator, columns),
    }
    return run


def averaged(share: float, data: str, seed: int, arguments: argparse.Namespace) -> Path:
    """Average what fine-tuning gave with the model it started from; return the model.

    The first has ``share`` in the mean.
    """
    tuned = arguments.work / f"{data}-fine-tuned-{seed}"
    out: Path = arguments.work / f"{data}-averaged-{share}-{seed}"
    if not out.is_dir():
        shipped = Path(f"en-{DATA[data][0]}")
        average_models([tuned, shipped], out, shares=[share, 1 - share])
    return out


UNTRAINED: dict[str, Callable[[str, int, argparse.Namespace], Path]] = {
    "none": lambda data, *_: Path(f"en-{DATA[data][0]}"),
    **{f"averaged-{share}": partial(averaged, share) for share in (0.25, 0.5, 0.75)},
}
"""Name of a trial that trains nothing -> what makes its model, or finds it."""


def recipe_of(
    data: str, name: str, seed: int, arguments: argparse.Namespace, folder: Path
) -> Recipe:
    """Write the training text; return the recipe of ``headwise run`` for it."""
    language, count = DATA[data]
    sources, targets = pairs(arguments, language, "train")
    rows = [*zip(sources, targets, strict=True)][:count]
    path: Path = arguments.work / f"{data}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{source}\t{target}\n" for source, target in rows))
    assert preset_for(len(rows)) == PRESET
    table: Table = {
        **TRIALS[name],
        "seed": seed,
        "languages": ["en", language],
        "data": {"corpora": [{"source": str(path)}]},
    }
    if name not in WITHOUT_MODEL:
        table["initialize_from"] = [f"en-{language}"]
    if arguments.rehearse:
        table = merged(table, {"training": REHEARSAL})
    return resolve_checked(
        preset=PRESET, extra=table, out=folder, assignments=arguments.set
    )


def pairs(
    arguments: argparse.Namespace, language: str, part: str
) -> tuple[list[str], list[str]]:
    """Return the English lines of a part of Multi30k, and those of ``language``."""
    folder: Path = arguments.corpora / "multi30k"
    return read_lines(folder / f"{part}.en"), read_lines(folder / f"{part}.{language}")


def score(translator: Translator, columns: tuple[list[str], list[str]]) -> float:
    sources, references = columns
    return bleu(translator.translate(sources), references).value


def means(runs: list[Table]) -> Table:
    return {
        f"{kind}, bleu": mean_and_deviation([run["bleu"][kind] for run in runs])
        for kind in runs[0]["bleu"]
    }


if __name__ == "__main__":
    run_data_trials(
        __doc__,
        RESULTS,
        [*TRAINING, *TRANSLATION],
        data=DATA,
        trials=TRIALS,
        trial=trial,
        means=means,
    )

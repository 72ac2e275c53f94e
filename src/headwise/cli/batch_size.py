"""``--batch-tokens``: a number, or ``auto`` for what fits into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.options import say
from headwise.errors import SettingsError, UsageError
from headwise.recipe import Recipe
from headwise.run_folder.paths import RECIPE, has_checkpoints
from headwise.run_folder.run_recipe import read_run_recipe
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.training.memory_estimate import MemoryEstimator

AUTO = "auto"
SETTING = "training.batch_tokens"

FEW_UPDATES = 100
"""A warning is printed for an epoch with fewer updates."""


def batch_tokens_setting(
    text: str | None, assignments: Sequence[str], out: Path
) -> dict[str, Any]:
    """Return ``--batch-tokens`` as a table of settings.

    A resumed run keeps its batch size. The table is empty without the option, and for
    ``auto`` in a new run, for which :func:`fit_batch_size` finds the number later.
    Raises ``UsageError`` for another text, or a second batch size in ``assignments``.
    """
    if text is None:
        return {}
    if any(each.split("=")[0].strip() == SETTING for each in assignments):
        raise UsageError(
            f"--batch-tokens {text} and --set {SETTING} both set the batch size; "
            "give one of them"
        )
    if text == AUTO:
        tokens = _batch_tokens_of_run(out)
        if tokens is not None:
            say(f"--batch-tokens auto: {tokens:,}, as in the run to be resumed, {out}")
    elif text.isascii() and text.isdigit() and int(text):
        tokens = int(text)
    else:
        raise UsageError(
            f"--batch-tokens must be a whole number above 0, such as 4096, or auto, "
            f"not {text!r}"
        )
    return {} if tokens is None else {"training": {"batch_tokens": tokens}}


def must_fit_batch_size(text: str | None, out: Path) -> bool:
    """Return whether the batch size is still to be found, by :func:`fit_batch_size`."""
    return text == AUTO and _batch_tokens_of_run(out) is None


def fit_batch_size(recipe: Recipe, corpus: PreparedCorpus, device: str) -> Recipe:
    """Return ``recipe`` with the largest batch size that fits into memory.

    Raises where that cannot be measured: batches by pairs, torch.compile, or several
    processes.
    """
    from headwise.training.memory_estimate import fit_batch_tokens

    if recipe.training.batch_pairs is not None:
        raise SettingsError(
            [
                "--batch-tokens has no effect with training.batch_pairs = "
                f"{recipe.training.batch_pairs}; leave one of them out"
            ]
        )
    if recipe.training.backend == "torch_compile":
        raise UsageError(
            "--batch-tokens auto tries many sizes, and training.backend = "
            "'torch_compile' compiles the model for each; give a number, such as "
            "25000: a batch that does not fit is split into micro-batches"
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "--batch-tokens auto measures a single process, and torchrun started "
            "several; find the number with one process (headwise train ... --dry-run "
            "--batch-tokens auto), and give it to all"
        )
    say("--batch-tokens auto: measuring what fits into memory")
    tokens, estimate = fit_batch_tokens(new_memory_estimator(recipe, corpus, device))
    say(f"--batch-tokens auto: {tokens:,}, which takes {estimate}")
    facts = corpus.facts.train
    epoch_tokens = max(facts.source_tokens, facts.target_tokens) + facts.pairs
    updates = max(1, epoch_tokens // (tokens * recipe.training.accumulate))
    if updates < FEW_UPDATES:
        say(
            f"an epoch has only about {count_of(updates, 'update')} of that size; with "
            "so little text smaller batches learn better, such as the "
            f"{recipe.training.batch_tokens:,} of this recipe"
        )
    return replace(recipe, training=replace(recipe.training, batch_tokens=tokens))


def new_memory_estimator(
    recipe: Recipe, corpus: PreparedCorpus, device: str
) -> MemoryEstimator:
    """Return a memory estimator for a new model, set up as training would be."""
    from headwise.run_folder.run import open_task
    from headwise.run_folder.teachers import open_teachers
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.distributed import Ranks
    from headwise.training.gradient_accumulation import GradientAccumulator
    from headwise.training.memory_estimate import MemoryEstimator

    keep_freed_memory()
    task = open_task(recipe, corpus)
    model = task.new_model(recipe.model, seed=recipe.seed).to(device)
    gradients = GradientAccumulator(
        task,
        model,
        recipe.training,
        seed=recipe.seed,
        ranks=Ranks(),
        on_message=_raise_out_of_memory,
        check_stop=lambda: None,
        teachers=open_teachers(recipe, corpus).load(device),
    )
    has_ema = recipe.training.ema_decay is not None
    return MemoryEstimator(
        *(task, model, corpus, recipe.training, gradients), future_copies=2 + has_ema
    )


def _raise_out_of_memory(text: str) -> None:
    """Treat a batch that would be split into micro-batches as one that does not fit."""
    raise MemoryError(text)


def _batch_tokens_of_run(out: Path) -> int | None:
    """Return the batch size of a run that has checkpoints; None without them."""
    if not has_checkpoints(out):
        return None
    return read_run_recipe(out / RECIPE).training.batch_tokens

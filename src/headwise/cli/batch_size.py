"""``--batch-tokens``: a number, or what fits into the memory there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.cli.options import say
from headwise.errors import ModelError, SettingsError, UsageError
from headwise.recipe import Recipe
from headwise.run_folder.paths import RECIPE, has_checkpoints
from headwise.settings import read, read_toml
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.data.prepared import PreparedCorpus
    from headwise.training.memory_estimate import MemoryEstimator

AUTO = "auto"
SETTING = "training.batch_tokens"

FEW_UPDATES = 100
"""An epoch with fewer is said to have few."""


def batch_tokens_of(
    text: str | None, assignments: Sequence[str], out: Path
) -> dict[str, Any]:
    """Return the table of settings that ``--batch-tokens`` stands for.

    A run that has begun keeps its number. Where that is still to be fitted, the table
    is empty; see :func:`fitted`.
    """
    if text is None:
        return {}
    if any(each.split("=")[0].strip() == SETTING for each in assignments):
        raise UsageError(
            f"--batch-tokens {text} and --set {SETTING} both name the size of a "
            "batch; give one of them"
        )
    if text == AUTO:
        tokens = _of_run(out)
        if tokens is not None:
            say(f"--batch-tokens auto: {tokens:,}, as the run in {out} began")
    elif text.isascii() and text.isdigit() and int(text):
        tokens = int(text)
    else:
        raise UsageError(
            f"--batch-tokens must be a whole number above 0, such as 4096, or auto, "
            f"not {text!r}"
        )
    return {} if tokens is None else {"training": {"batch_tokens": tokens}}


def is_to_be_fitted(text: str | None, out: Path) -> bool:
    """Tell whether ``--batch-tokens`` leaves the number to the memory there is."""
    return text == AUTO and _of_run(out) is None


def fitted(recipe: Recipe, corpus: PreparedCorpus, device: str) -> Recipe:
    """Return ``recipe`` with the largest batch that fits into memory."""
    from headwise.training.memory_estimate import fit_batch_tokens

    if recipe.training.batch_pairs is not None:
        raise SettingsError(
            [
                "--batch-tokens has no meaning with training.batch_pairs = "
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
            "--batch-tokens auto tries out one process, and torchrun started several; "
            "find the number with one (headwise train ... --dry-run --batch-tokens "
            "auto), and give it to all"
        )
    say("--batch-tokens auto: trying out what fits into memory")
    tokens, forecast = fit_batch_tokens(rehearsal_of(recipe, corpus, device))
    say(f"--batch-tokens auto: {tokens:,}, which takes {forecast}")
    facts = corpus.facts.train
    places = max(facts.source_tokens, facts.target_tokens) + facts.pairs
    updates = max(1, places // (tokens * recipe.training.accumulate))
    if updates < FEW_UPDATES:
        say(
            f"an epoch has only about {count_of(updates, 'update')} of that size; so "
            f"little text is learned from better in smaller batches, such as "
            f"{recipe.training.batch_tokens:,} of this recipe"
        )
    return replace(recipe, training=replace(recipe.training, batch_tokens=tokens))


def rehearsal_of(
    recipe: Recipe, corpus: PreparedCorpus, device: str
) -> MemoryEstimator:
    """Return a rehearsal with a model of its own, as training would begin."""
    from headwise.tasks import TASKS
    from headwise.training.allocator import keep_freed_memory
    from headwise.training.distributed import Ranks
    from headwise.training.gradient_accumulation import GradientAccumulator
    from headwise.training.memory_estimate import MemoryEstimator

    keep_freed_memory()
    task = TASKS["translation"](corpus.tokenizers)
    model = task.new_model(recipe.model, seed=recipe.seed).to(device)
    gradients = GradientAccumulator(
        task,
        model,
        recipe.training,
        seed=recipe.seed,
        ranks=Ranks(),
        on_message=_refuse,
        check_stop=lambda: None,
    )
    has_mean = recipe.training.ema_decay is not None
    return MemoryEstimator(
        *(task, model, corpus, recipe.training, gradients), future_copies=2 + has_mean
    )


def _refuse(text: str) -> None:
    """Take a batch that is to be split as one that does not fit."""
    raise MemoryError(text)


def _of_run(out: Path) -> int | None:
    """Return the batch size of a run that has a checkpoint to go on from."""
    if not has_checkpoints(out):
        return None
    try:
        return read(Recipe, read_toml(out / RECIPE)).training.batch_tokens
    except SettingsError as error:
        raise ModelError(
            f"{out / RECIPE} is not the recipe that this run was made with; put it "
            f"back, or choose another folder:\n{error}"
        ) from None

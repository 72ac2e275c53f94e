"""Run folders: train in a folder, from its recipe to its best model.

recipe.toml     every setting, with defaults filled in
prepared/       the prepared corpus, if ``headwise run`` made it
checkpoints/    step-00001200/ and so on: what training resumes from
best/           the best model so far: a model folder
log.jsonl       updates, validations and messages
teachers.json   the SHA-256 of the weights of ``training.teacher``, if there are any
report.html     the same as plots
inspection/     pages that look inside the best model, at the samples of the report
tensorboard/    the same as event files
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from headwise import storage
from headwise.data.prepared import PreparedCorpus
from headwise.errors import DataError, ModelError, SettingsError
from headwise.model.sequence_model import SequenceModel
from headwise.recipe import Recipe
from headwise.run_folder.card import model_card
from headwise.run_folder.checkpoints import Checkpoint, Checkpoints
from headwise.run_folder.default_decoding import default_decoding
from headwise.run_folder.model_folder import ModelFacts, write_model_folder
from headwise.run_folder.model_weights import check_weights, load_weights
from headwise.run_folder.overwrite_protection import lock_run_folder
from headwise.run_folder.paths import BEST, CHECKPOINTS, LOG, MODEL, RECIPE
from headwise.run_folder.pretrained import Pretrained, longest_texts
from headwise.run_folder.run_recipe import read_run_recipe
from headwise.run_folder.teachers import open_teachers
from headwise.settings import as_table, as_toml, differences
from headwise.storage import write_text
from headwise.tasks import TASKS
from headwise.tasks.task import Task
from headwise.training.callbacks import Callback
from headwise.training.distributed import Ranks, process_group
from headwise.training.log import JsonLog
from headwise.training.signals import StopSignals
from headwise.training.state import TrainingState
from headwise.training.trainer import Trainer
from headwise.training.validation import Validation

GOLDEN_PAIRS = 5

MAY_CHANGE = (
    "training.steps",
    "training.epochs",
    "training.max_minutes",
    "training.patience",
    "training.on_plateau",
    "training.validation_pairs",
    "training.not_finite",
    "training.activation_checkpointing",
    "training.devices",
    "training.processes",
    "training.teacher",
    "training.data_workers",
    "must_export_to",
    "languages",
    "license",
    "decoding",
    "data.corpora",
    "data.dev",
)
"""Settings that may change when a run is resumed.

The text and the teachers may be moved: a fingerprint of the text, and the SHA-256 of
the teachers' weights, are compared.
"""


def train_run(
    folder: Path,
    recipe: Recipe,
    corpus: PreparedCorpus,
    *,
    callbacks: Sequence[Callback] = (),
    device: torch.device | str = "cpu",
    until: int | None = None,
    signals: StopSignals | None = None,
) -> TrainingState:
    """Train in ``folder``, resuming from its newest checkpoint if there is one.

    ``until`` is the update to stop after. With ``torchrun``, every process calls this.
    Returns the final training state; the best model is in ``folder / "best"``.
    """
    recipe = _with_steps_until(recipe, until)
    corpus.open_files()
    with process_group(device) as ranks, ExitStack() as held:
        log = JsonLog(folder / LOG)
        callbacks = [*callbacks, log] if ranks.is_first else []
        checkpoints = Checkpoints(folder / CHECKPOINTS, _send_messages_to(callbacks))
        stop_signals = held.enter_context(signals or StopSignals())
        teachers = open_teachers(recipe, corpus)

        def start() -> Checkpoint | None:
            held.enter_context(lock_run_folder(folder))
            check_run(folder, recipe, corpus.facts.fingerprint)
            teachers.record(folder, is_begun=bool(checkpoints.paths()))
            write_text(folder / RECIPE, as_toml(recipe))
            found = checkpoints.newest()
            return found and _reset_missing_best(found, folder, checkpoints.say)

        found = _shared_checkpoint(ranks, start)
        _check_same_corpus(ranks, corpus)
        longest = longest_texts(folder, recipe, corpus.facts.train)
        task = open_task(recipe, corpus, longest)
        model = task.new_model(recipe.model, seed=recipe.seed)
        if found is None:
            for note in _start_from_pretrained(model, recipe, corpus):
                checkpoints.say(note)
        else:
            load_weights(model, found.weights, found.path)
            if found.ema is not None:
                check_weights(model, found.ema, found.path)
        trainer = Trainer(
            task,
            model.to(device),
            corpus,
            recipe.training,
            seed=recipe.seed,
            checkpoint_writer=RunCheckpointWriter(
                folder, recipe, corpus, checkpoints, log, longest
            ),
            callbacks=callbacks,
            signals=stop_signals,
            state=found.state if found else None,
            optimizer=found.optimizer if found else None,
            ema=found.ema if found else None,
            ranks=ranks,
            until=until,
            teachers=teachers.load(device),
        )
        return trainer.run()


def open_task(
    recipe: Recipe, corpus: PreparedCorpus, longest: tuple[int, int] | None = None
) -> Task:
    """Return the task of ``recipe`` with the tokenizers of ``corpus``.

    ``longest`` are the tokens of the longest source and target that the model has
    learned; without it they are those of the corpus. Raises ``DataError`` if the corpus
    was prepared for another kind of task.
    """
    task = TASKS[recipe.task]
    found = corpus.facts.pair_format
    if found != task.pair_format.name:
        raise DataError(
            f"{corpus.folder} was prepared as {found}, but task = {recipe.task!r} "
            f"learns from {task.pair_format.name}; prepare the files again with "
            f"--task {recipe.task}"
        )
    opened = task.open(
        corpus.tokenizers,
        recipe.options,
        max_tokens=max(longest or corpus.facts.train.longest),  # as a model folder
    )
    return opened.with_length_limits(recipe.decoding)


def _start_from_pretrained(
    model: SequenceModel, recipe: Recipe, corpus: PreparedCorpus
) -> list[str]:
    """Copy the weights of ``recipe.initialize_from``; return messages for the user."""
    if not recipe.initialize_from:
        return []
    pretrained = Pretrained.open(recipe.initialize_from, recipe.task)
    pretrained.check_tokenizers(corpus)
    return pretrained.load_into(model, recipe)


def _with_steps_until(recipe: Recipe, until: int | None) -> Recipe:
    """Return the recipe with ``steps`` raised to ``until`` if need be."""
    training = recipe.training
    if until is None or training.steps is None or until <= training.steps:
        return recipe
    if training.falls_to_zero:
        raise SettingsError(
            [
                f"training ends at training.steps = {training.steps}, where the "
                f"{training.schedule} schedule reaches 0, before update {until}; raise "
                "training.steps, which changes the learning rates, or choose a smaller "
                "--until"
            ]
        )
    return replace(recipe, training=replace(training, steps=until))


def _reset_missing_best(
    found: Checkpoint, folder: Path, say: Callable[[str], None]
) -> Checkpoint:
    """If ``best/`` is missing or damaged, reset the best score in the state.

    The next validation then writes the best model anew; of a run that has ended, the
    last weights are validated again, and the mean of its checkpoints.
    """
    if found.state.best_value is None:
        return found
    try:
        storage.restore_replaced(folder / BEST)
        storage.verify(folder / BEST)
    except (ModelError, OSError) as error:
        say(
            f"the best model, of update {found.state.best_step:,}, cannot be used "
            f"({error}); the next validation writes a new one. The weights of that "
            f"update may still be in {CHECKPOINTS}"
        )
        state = replace(
            found.state,
            best_value=None,
            best_loss=None,
            validated_step=0,
            averaged_step=0,
        )
        return replace(found, state=state)
    return found


def _shared_checkpoint(
    ranks: Ranks, start: Callable[[], Checkpoint | None]
) -> Checkpoint | None:
    """Call ``start`` on rank 0; broadcast the checkpoint it returns to every rank."""
    found: Checkpoint | None = None

    def first() -> tuple[Path, TrainingState] | None:
        nonlocal found
        found = start()
        return None if found is None else (found.path, found.state)

    known = ranks.run_on_first(first)
    if known is None or ranks.size == 1:
        return found
    path, state = known
    weights = ranks.broadcast(found.weights if found else None)
    optimizer = ranks.broadcast(found.optimizer if found else None)
    ema = ranks.broadcast(found.ema if found else None)
    return Checkpoint(path, state, weights or {}, optimizer or {}, ema)


def _check_same_corpus(ranks: Ranks, corpus: PreparedCorpus) -> None:
    fingerprint = ranks.run_on_first(lambda: corpus.facts.fingerprint)
    if corpus.facts.fingerprint != fingerprint:
        raise DataError(
            f"{corpus.folder} differs between machines; all processes need the same "
            "corpus: copy it to every machine"
        )


class RunCheckpointWriter:
    """Writes checkpoints and the best model into the run folder."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        corpus: PreparedCorpus,
        checkpoints: Checkpoints,
        log: JsonLog,
        longest: tuple[int, int],
    ) -> None:
        self.folder = folder
        self.recipe = recipe
        self.corpus = corpus
        self.checkpoints = checkpoints
        self.log = log
        self.longest = longest
        """Tokens of the longest source and target that the model has learned."""

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        ema: Mapping[str, Tensor] | None,
    ) -> None:
        """Write a checkpoint, then delete old ones."""
        settings = self.recipe.training
        corpus = self.corpus.facts.fingerprint
        self.log.sync()  # the log must not lag behind the checkpoint
        self.checkpoints.save(state, weights, optimizer, ema, corpus=corpus)
        self.checkpoints.delete_old(settings.keep_checkpoints, settings.validate_every)

    def save_best(
        self, state: TrainingState, model: SequenceModel, validation: Validation
    ) -> None:
        """Write the model folder ``best``; rename a damaged one."""
        aside = storage.set_aside_foreign(self.folder / BEST, MODEL)
        if aside is not None:
            self.checkpoints.say(
                f"{BEST} was damaged and has been renamed to {aside.name}"
            )
        facts = self.corpus.facts
        task = open_task(self.recipe, self.corpus, self.longest)
        longest_source, longest_target = self.longest
        sources, _ = self.corpus.dev_text
        write_model_folder(
            self.folder / BEST,
            model=model,
            task=task,
            decoding=default_decoding(self.recipe.decoding, facts.train),
            facts=ModelFacts(
                source_vocab_size=facts.source_vocabulary,
                target_vocab_size=facts.target_vocabulary,
                longest_source=longest_source,
                longest_target=longest_target,
            ),
            card=model_card(
                self.folder.resolve().name,
                model,
                facts,
                state,
                validation,
                task=task.name,
                languages=self.recipe.languages,
                license=self.recipe.license,
                initialize_from=[
                    str(Path(each).resolve()) for each in self.recipe.initialize_from
                ],
            ),
            golden_sources=sources[:GOLDEN_PAIRS],
        )

    def last_weights(self, count: int) -> Iterator[dict[str, Tensor]]:
        """Yield the weights of the last checkpoints."""
        interval = self.recipe.training.validate_every
        return self.checkpoints.last_weights(count, interval)


def check_run(folder: Path, recipe: Recipe, fingerprint: str) -> None:
    """Raise if the run in ``folder`` has other settings or another corpus.

    ``fingerprint`` is that of the prepared corpus. A run without checkpoints may be
    started again with other settings.
    """
    checkpoints = Checkpoints(folder / CHECKPOINTS, lambda _: None)
    if not checkpoints.paths():
        return
    before = read_run_recipe(folder / RECIPE)
    changed = [
        f"{path} was {old!r} and is now {new!r}"
        for path, old, new in differences(as_table(before), as_table(recipe))
        if not any(path == each or path.startswith(f"{each}.") for each in MAY_CHANGE)
    ]
    if changed:
        raise SettingsError(
            [
                *changed,
                f"{folder} contains a run with other settings; resume it with those, "
                "or choose another folder",
            ]
        )
    if checkpoints.newest_corpus() not in (None, fingerprint):
        raise DataError(
            f"{folder} contains a run on other text: the files, or the settings "
            "data.corpora or data.dev, have changed; resume it with the same text, or "
            "choose another folder"
        )


def _send_messages_to(callbacks: Sequence[Callback]) -> Callable[[str], None]:
    def say(text: str) -> None:
        for callback in callbacks:
            callback.on_message(text)

    return say

"""Start training from the weights of other models (``initialize_from``).

A model gives its encoder, its decoder, or both: that of an encoder alone (BERT) becomes
the encoder of any model, that of a decoder alone (GPT) the decoder of a translator. The
tokenizers come with them. What no model gives, such as a head or cross-attention, is
drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.data.prepared import PreparedCorpus, SplitFacts
from headwise.decoding.settings import DecodingSettings
from headwise.errors import DataError, ModelError, SettingsError
from headwise.model.config import Stack
from headwise.recipe import Recipe
from headwise.recipe.preset_training import preset_table
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.run_folder.paths import (
    BEST,
    PREPARED,
    RECIPE,
    has_checkpoints,
    model_path,
)
from headwise.settings import as_table, merged, read_toml
from headwise.tasks import TASKS, find_task
from headwise.text.tokenizer import GivenTokenizers, digest

if TYPE_CHECKING:
    from torch import Tensor

    from headwise.model.sequence_model import SequenceModel

Table = dict[str, Any]

ARCHITECTURE = (
    *("kind", "d_model", "d_ff", "num_heads", "d_k", "d_v", "norm", "activation"),
    *("attention_bias", "embedding_norm", "norm_kind", "feed_forward", "residual"),
    *("attention", "attention_window", "num_key_value_heads"),
    *("positions", "position_join", "d_position", "max_positions"),
)
"""Settings of the model that its weights were trained for."""

TEXT = ("symbols", "byte_fallback", "normalization", "character_coverage")
"""Settings of tokenizers that both sides of a pair share."""

FINE_TUNING = 10
"""What the learning rate is divided by where the training of a model goes on."""

FEW_PAIRS = "micro"
"""The preset of so few pairs that BLEU of those held out, 30 to 50, goes up and down by
several points from one validation to the next, long after they are translated best."""

BY_LOSS: Table = {"measure": "loss", "patience": 5, "on_plateau": "stop"}
"""Settings of fine-tuning a translator on few pairs: the loss falls, and then rises."""

EMBEDDINGS: Mapping[Stack, tuple[str, ...]] = {
    "encoder": (
        *("encoder_only.embedding.vectors", "embeddings.source.vectors"),
        "embeddings.target.vectors",
    ),
    "decoder": ("embedding.vectors", "embeddings.target.vectors"),
}
"""Names of the embedding of each stack, of which a model has the first it has."""


@dataclass(frozen=True)
class Pretrained:
    """Opened models, and which of them gives which stack to a model of ``task``."""

    task: str
    givers: Mapping[Stack, ModelFolder]

    @classmethod
    def open(cls, folders: Sequence[str], task: str) -> Pretrained:
        """Open model or run folders.

        Raises ``ModelError`` for a folder that is damaged, ``SettingsError`` for one
        that gives nothing which a model of ``task`` has and no earlier one gave.
        """
        givers: dict[Stack, ModelFolder] = {}
        for each in folders:
            opened = open_model_folder(model_path(Path(each)), without_weights=True)
            has = TASKS[opened.task_name].stacks
            wanted = find_task(task).stacks
            new = [name for name in has if name in wanted and name not in givers]
            if not new:
                raise SettingsError(
                    [
                        f"initialize_from: {each} is a model of {opened.task_name} and "
                        f"has the {' and '.join(has)}; a model of {task} needs the "
                        f"{' and '.join(wanted)}"
                        + (", which other folders give" if givers else "")
                    ]
                )
            givers.update(dict.fromkeys(new, opened))
        return cls(task, givers)

    def settings(self) -> Table:
        """Return settings of a recipe as the models have them.

        Raises ``SettingsError`` if two models differ in what they must have in common.
        """
        problems: list[str] = []
        table: Table = {"model": {}, "text": {}}
        for stack, opened in self.givers.items():
            config, text = as_table(opened.config), as_table(opened.tokenizers.settings)
            found = {
                "model": {name: config.get(name) for name in ARCHITECTURE},
                "text": {name: text[name] for name in TEXT if name in text},
            }
            for part, values in found.items():
                for name, value in values.items():
                    if table[part].setdefault(name, value) != value:
                        problems.append(
                            f"initialize_from: {part}.{name} is {table[part][name]!r} "
                            f"in one model and {value!r} in {opened.path}; they must "
                            "be the same"
                        )
            table["model"][f"{stack}_layers"] = config[f"{stack}_layers"]
        if problems:
            raise SettingsError(problems)
        table["model"] = {k: v for k, v in table["model"].items() if v is not None}
        return merged(table, {"text": self._tokenizer_settings()})

    def _tokenizer_settings(self) -> Table:
        """Return which tokenizers a recipe must name for those of the models."""
        encoder, decoder = (self.givers.get(each) for each in ("encoder", "decoder"))
        if encoder is not None and encoder is decoder:
            names = "tokenizer", "target_tokenizer", "joint", "vocab_size"
            text = as_table(encoder.tokenizers.settings)
            return {name: text[name] for name in names if text.get(name) is not None}
        table: Table = {}
        if TASKS[self.task].stacks == ("decoder",):
            assert decoder is not None
            kind = decoder.tokenizers.settings.target_kind
            return {"tokenizer": kind, "vocab_size": decoder.tokenizers.target.size}
        if encoder is not None:
            table["tokenizer"] = encoder.tokenizers.settings.source_kind
            table["vocab_size"] = encoder.tokenizers.source.size
        if decoder is not None:
            table["target_tokenizer"] = decoder.tokenizers.settings.target_kind
            table["target_vocab_size"] = decoder.tokenizers.target.size
        if TASKS[self.task].stacks == ("encoder", "decoder"):
            table["joint"] = False
        return table

    @property
    def continued(self) -> ModelFolder | None:
        """The model whose training goes on: one of the same task that gives it all."""
        stacks = find_task(self.task).stacks
        first = self.givers.get(stacks[0])
        if first is None or first.task_name != self.task:
            return None
        return first if all(self.givers.get(each) is first for each in stacks) else None

    def defaults(self, preset: str | None) -> Table:
        """Return settings that a recipe has if the training of a model goes on.

        It may have others. The search is that of the model, but for whether lines are
        split into sentences, which depends on the text; so are the placeholders it was
        trained with. ``preset`` names the settings of a model whose weights are drawn;
        its weight decay would take off what was learned before, and is left out.
        """
        opened = self.continued
        if opened is None:
            return {}
        ordinary = as_table(DecodingSettings())
        decoding = {
            name: value
            for name, value in as_table(opened.decoding).items()
            if value != ordinary.get(name) and name != "split_sentences"
        }
        table: Table = {"decoding": decoding}
        table["text"] = {"placeholders": opened.tokenizers.settings.placeholders}
        training: Table = {}
        if preset == FEW_PAIRS and self.task == "translation":
            training |= BY_LOSS
        drawn = {} if preset is None else preset_table(preset).get("training", {})
        if (rate := drawn.get("learning_rate")) is not None:
            training["learning_rate"] = rate / FINE_TUNING
        if "weight_decay" in drawn:
            training["weight_decay"] = 0.0
        return {**table, "training": training}

    def tokenizers(self) -> GivenTokenizers:
        """Return the tokenizers of the models, which the text is prepared with."""
        encoder, decoder = (self.givers.get(each) for each in ("encoder", "decoder"))
        return GivenTokenizers(
            source=None if encoder is None else encoder.tokenizers.source,
            target=None if decoder is None else decoder.tokenizers.target,
            known_words=None if encoder is None else encoder.tokenizers.known_words,
        )

    def check_tokenizers(self, corpus: PreparedCorpus) -> None:
        """Raise ``DataError`` if ``corpus`` was prepared with other tokenizers."""
        made = {
            side: digest(getattr(corpus.tokenizers, side))
            for side in ("source", "target")
        }
        for side, expected in self.tokenizers().digests().items():
            if made[side] != expected:
                raise DataError(
                    f"{corpus.folder} was prepared with another tokenizer for the "
                    f"{side} than that of the model that training starts from; prepare "
                    "the text with the same --from"
                )

    def _missing_symbols(self, recipe: Recipe) -> Iterator[str]:
        """Name the symbols of placeholders that the models' tokenizers lack."""
        for each in {each.path: each for each in self.givers.values()}.values():
            known = each.tokenizers.settings.all_symbols
            missing = [x for x in recipe.text.all_symbols if x not in known]
            if missing:
                yield (
                    f"text.placeholders = {recipe.text.placeholders} needs the symbol "
                    f"{' '.join(missing)}, which the tokenizer of {each.path} lacks; "
                    "leave it out, or take a model that was trained with placeholders"
                )

    def check_settings(
        self, recipe: Recipe, parts: Sequence[str] = ("model", "text")
    ) -> None:
        """Raise ``SettingsError`` if ``recipe`` has others than the models.

        ``parts`` are the tables that are compared.
        """
        ours, theirs = as_table(recipe), self.settings()
        paths = ", ".join(dict.fromkeys(str(x.path) for x in self.givers.values()))
        problems = [
            f"{part}.{name} is {ours[part].get(name)!r}, but {paths}, which training "
            f"{'starts' if 'model' in parts else 'learns'} from, has {value!r}; leave "
            "it out"
            for part in parts
            for name, value in theirs[part].items()
            if ours[part].get(name) != value
        ]
        if "text" in parts:
            problems += self._missing_symbols(recipe)
        if problems:
            raise SettingsError(problems)

    def load_into(self, model: SequenceModel, recipe: Recipe) -> list[str]:
        """Copy the weights of the models into ``model``; return what was copied.

        Raises ``SettingsError`` if the architecture of the recipe is another one.
        """
        from headwise.model.deep_norm import (  # it imports torch
            OUTPUT_PROJECTIONS,
            residual_scale,
        )

        self.check_settings(recipe)
        own = model.state_dict()
        notes = []
        for stack, opened in self.givers.items():
            given = dict(_stack_weights(opened.model.state_dict(), stack))
            wanted = dict(_stack_weights(own, stack))
            copied = [
                name
                for name, weights in given.items()
                if name in wanted and wanted[name].shape == weights.shape
            ]
            scale = residual_scale(recipe.model, stack)
            scale /= residual_scale(opened.config, stack)
            for name in copied:
                wanted[name].copy_(given[name])
                if scale != 1 and name.rpartition(".")[0].endswith(OUTPUT_PROJECTIONS):
                    wanted[name].mul_(scale)  # so that the stack computes the same
            notes.append(
                f"the {stack} starts from {opened.path}: {len(copied)} of "
                f"{len(wanted)} tensors"
            )
        rate = recipe.training.learning_rate
        if self.continued is not None and rate is not None:
            notes.append(f"fine-tuning: a learning rate of {rate:g} at its peak")
        return notes


def _stack_weights(
    weights: Mapping[str, Tensor], stack: Stack
) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a stack, by names that are the same in every model."""
    embedding = next((each for each in EMBEDDINGS[stack] if each in weights), None)
    if embedding is not None:
        yield "embedding", weights[embedding]
    prefixes = {f"{stack}.", f"enter_{stack}."}
    if stack == "decoder":
        prefixes.add("output.")
    for name, each in weights.items():
        short = name.removeprefix("encoder_only.")
        if any(short.startswith(prefix) for prefix in prefixes):
            yield short, each


def pretrained_settings(
    folders: Sequence[str], task: str, out: Path | None, preset: str | None
) -> Table:
    """Return the settings that ``initialize_from`` implies.

    A run in ``out`` that was begun has them in its recipe: the models that it started
    from may be gone. ``preset`` is that of the recipe.
    """
    if out is not None and has_checkpoints(out):
        begun = read_toml(out / RECIPE)
        if begun.get("initialize_from") == [*folders]:
            parts = "model", "text", "decoding"
            table: Table = {name: begun[name] for name in parts if name in begun}
            training = begun.get("training", {})
            names = "learning_rate", "weight_decay", *BY_LOSS
            table["training"] = {x: training[x] for x in names if x in training}
            return table
    pretrained = Pretrained.open(folders, task)
    return merged(pretrained.settings(), pretrained.defaults(preset))


def longest_texts(folder: Path, recipe: Recipe, train: SplitFacts) -> tuple[int, int]:
    """Return the tokens of the longest source and target a run's model has learned.

    If it goes on with the training of another model, that one has seen longer ones: of
    a few short texts a model does not forget how to read others. Once the run in
    ``folder`` has a best model, that knows.
    """
    if not recipe.initialize_from:
        return train.longest
    try:
        facts = open_model_folder(folder / BEST, without_weights=True).facts
    except ModelError:
        try:
            continued = Pretrained.open(recipe.initialize_from, recipe.task).continued
        except (ModelError, SettingsError):  # gone or replaced since training began
            continued = None
        if continued is None:
            return train.longest
        facts = continued.facts
    source, target = train.longest
    return max(source, facts.longest_source), max(target, facts.longest_target)


def teacher_settings(folders: Sequence[str], task: str) -> Table:
    """Return the settings of tokenizers that ``training.teacher`` implies."""
    return {"text": Pretrained.open(folders[:1], task).settings()["text"]}


def given_tokenizers(recipe: Recipe, out: Path) -> GivenTokenizers:
    """Return the tokenizers of models that training starts or learns from.

    A run in ``out`` that was begun has them in its prepared corpus. Raises
    ``SettingsError`` if the recipe asks for others, before anything is prepared.
    """
    folders = recipe.initialize_from
    parts: Sequence[str] = ("model", "text")
    if not folders:
        folders, parts = recipe.training.teacher[:1], ("text",)
    if not folders:
        return GivenTokenizers()
    if has_checkpoints(out) and (out / PREPARED).is_dir():
        return PreparedCorpus.open(out / PREPARED).given_tokenizers
    pretrained = Pretrained.open(folders, recipe.task)
    pretrained.check_settings(recipe, parts)
    return pretrained.tokenizers()

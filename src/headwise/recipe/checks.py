"""Checks of a recipe: which settings of its tables go together, and with its task."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from headwise.data.pair_formats import DOCUMENTS, TEXT_PAIRS, TRANSLATION
from headwise.data.settings import DataSettings
from headwise.data.source_noise import CHANGEABLE
from headwise.decoding.settings import DecodingSettings, greedy
from headwise.model.config import TransformerConfig
from headwise.model.variants.names import variants_of
from headwise.recipe.maxima import above_maximum
from headwise.settings import as_table
from headwise.tasks import TASKS, find_task
from headwise.text.settings import TextSettings
from headwise.training.settings import TrainingSettings

OPTIONS = tuple(name for name, task in TASKS.items() if task.options is not None)
"""Tables of a recipe that are the settings of one task."""

LICENSE = r"[A-Za-z0-9][A-Za-z0-9.+-]*"
"""Pattern of SPDX identifiers, the names of licences on model hubs."""

LANGUAGE = (
    r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?"
    r"(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
)
"""Pattern of BCP 47 tags: language, script, region and variants."""


class Tables(Protocol):
    """The tables of a recipe, and what stands beside them."""

    @property
    def task(self) -> str:
        """The name of what is learned."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything that is drawn."""
        ...

    @property
    def languages(self) -> tuple[str, ...]:
        """Source and target, for the model card."""
        ...

    @property
    def license(self) -> str | None:
        """Licence for the model card."""
        ...

    @property
    def data(self) -> DataSettings:
        """The corpora."""
        ...

    @property
    def text(self) -> TextSettings:
        """The tokenizers."""
        ...

    @property
    def model(self) -> TransformerConfig:
        """The architecture."""
        ...

    @property
    def training(self) -> TrainingSettings:
        """The settings of training."""
        ...

    @property
    def decoding(self) -> DecodingSettings:
        """The default search."""
        ...


def recipe_problems(recipe: Tables) -> list[str]:
    """Return all problems of a recipe whose tables are valid by themselves."""
    problems = []
    if not 0 <= recipe.seed < 2**63:
        problems.append(f"seed must be from 0 to {2**63 - 1}, not {recipe.seed}")
    return [
        *problems,
        *above_maximum(as_table(recipe)),
        *_task_problems(recipe),
        *_kind_problems(recipe),
        *_variant_problems(recipe),
        *_drawn_text_problems(recipe),
        *_source_text_problems(recipe),
        *_direction_problems(recipe),
        *_two_pass_problems(recipe),
        *_teacher_problems(recipe),
        *_picture_problems(recipe),
        *card_problems(recipe.languages, recipe.license),
        *_length_problems(recipe),
    ]


def card_problems(languages: Iterable[str], license: str | None) -> list[str]:
    """Return problems of languages and licence of a model card."""
    problems = [
        f"languages must be tags such as 'en' or 'pt-BR', not {each!r}"
        for each in languages
        if not re.fullmatch(LANGUAGE, each)
    ]
    if license is not None and not re.fullmatch(LICENSE, license):
        problems.append(
            "license must be an SPDX identifier, such as 'cc-by-4.0', 'mit' or "
            f"'other', not {license!r}"
        )
    return problems


def _task_problems(recipe: Tables) -> list[str]:
    """Return problems of settings that do not suit the task."""
    task = find_task(recipe.task)
    problems = [*task.problems(recipe.model, recipe.text)]
    problems += [
        f"{name} has settings of another task than {recipe.task!r}; leave them out"
        for name in OPTIONS
        if name != recipe.task and getattr(recipe, name) is not None
    ]
    if task.pair_format is DOCUMENTS and recipe.data.max_tokens < 2:
        problems.append(
            f"data.max_tokens must be 2 or more for task = {recipe.task!r}, which "
            f"learns tokens from others of a window, not {recipe.data.max_tokens}"
        )
    if recipe.training.measure not in ("loss", *task.measures):
        problems.append(
            f"training.measure must be one of loss, {', '.join(task.measures)} for "
            f"task = {recipe.task!r}, not {recipe.training.measure!r}"
        )
    if recipe.training.backend == "torch_compile" and recipe.task != "translation":
        problems.append(
            "training.backend = 'torch_compile' is for task = 'translation', not "
            f"{recipe.task!r}; 'auto' and 'torch' train every model"
        )
    return problems


def _kind_problems(recipe: Tables) -> list[str]:
    """Return problems of training settings that other kinds of models lack."""
    training = recipe.training
    of_transformers = {
        "backend = 'native'": training.backend == "native",
        "backend = 'torch_compile'": training.backend == "torch_compile",
        "activation_checkpointing = true": training.activation_checkpointing,
        "devices = 'shard'": training.devices == "shard",
    }
    return [
        f"training.{name} is for model.kind = 'transformer', not "
        f"{recipe.model.kind!r}; leave it out"
        for name, is_set in of_transformers.items()
        if is_set and recipe.model.kind != "transformer"
    ]


def _variant_problems(recipe: Tables) -> list[str]:
    """Return problems of training settings that cannot train variants of the model."""
    training, variants = recipe.training, variants_of(recipe.model)
    needs_known = {
        "backend = 'native'": training.backend == "native",
        "backend = 'torch_compile'": training.backend == "torch_compile",
        "devices = 'shard'": training.devices == "shard",
    }
    problems = [
        f"training.{name} has no code for {', '.join(variants)}; leave it out"
        for name, is_set in needs_known.items()
        if is_set and variants
    ]
    own_window = getattr(getattr(recipe, recipe.task, None), "window", None)
    if own_window is not None and recipe.model.attention_window is not None:
        problems.append(
            f"{recipe.task}.window = {own_window} and model.attention_window = "
            f"{recipe.model.attention_window} are two windows of one attention; set "
            "one of them"
        )
    in_one_pass = {
        "activation_checkpointing = true": training.activation_checkpointing,
        f"processes = {training.processes}": training.processes not in (None, 1),
    }
    return problems + [
        f"training.{name} would compute the statistics of model.norm_kind = 'batch' "
        "more than once, or of a part of each batch; leave it out"
        for name, is_set in in_one_pass.items()
        if is_set and recipe.model.norm_kind == "batch"
    ]


def _drawn_text_problems(recipe: Tables) -> list[str]:
    """Return problems of settings that draw other texts in each epoch."""
    training, text = recipe.training, recipe.text
    set_names = {
        "bpe_dropout": training.bpe_dropout > 0,
        "unigram_alpha": training.unigram_alpha is not None,
        "source_noise": training.source_noise.is_active,
    }
    used = [name for name, is_set in set_names.items() if is_set]
    able = [name for name, task in TASKS.items() if task.pair_format in TEXT_PAIRS]
    if recipe.task not in able:
        return [
            f"training.{name} is for task = {', '.join(map(repr, able))}, whose "
            f"pairs are texts; {recipe.task!r} needs the segmentation that it was "
            "prepared with: leave it out"
            for name in used
        ]
    kinds = {"source": text.source_kind, "target": text.target_kind}
    if training.sampled_sides != "both":
        kinds = {training.sampled_sides: kinds[training.sampled_sides]}
    there = " and ".join(f"{kind!r} for the {side}" for side, kind in kinds.items())
    problems = [
        f"training.{name} samples a tokenizer of kind {kind!r}; there is {there}: "
        f"leave it out, or prepare the text with text.tokenizer = {kind!r}"
        for name, kind in (("bpe_dropout", "bpe"), ("unigram_alpha", "unigram"))
        if name in used and kind not in kinds.values()
    ]
    if "source_noise" in used and text.source_kind not in CHANGEABLE:
        problems.append(
            f"training.source_noise needs text.tokenizer = "
            f"{', '.join(map(repr, CHANGEABLE))}, not {text.source_kind!r}, of "
            "which a changed word is another word"
        )
    return problems


def _source_text_problems(recipe: Tables) -> list[str]:
    """Return problems of what is done to source texts, which some tasks lack."""
    task = find_task(recipe.task)
    problems = []
    has_source_text = not task.pair_format.reads_pictures and "encoder" in task.stacks
    has_source_text = has_source_text and task.pair_format is not DOCUMENTS
    if recipe.training.word_dropout and not has_source_text:
        problems.append(
            "training.word_dropout is for tasks that have a source text; "
            f"{recipe.task!r} has none: leave it out"
        )
    if not recipe.text.placeholders:
        problems += [
            f"decoding.{name} needs text.placeholders above 0, so that the model "
            "learns where what is copied goes; 0.1 would do"
            for name in ("copy_numbers", "copy_names")
            if getattr(recipe.decoding, name)
        ]
    if recipe.text.placeholders and task.pair_format is not TRANSLATION:
        problems.append(
            "text.placeholders is for task = 'translation', not "
            f"{recipe.task!r}: leave it out"
        )
    return problems


def _direction_problems(recipe: Tables) -> list[str]:
    """Return problems of pairs that are to be learned in both directions."""
    if not recipe.data.both_directions:
        return []
    if find_task(recipe.task).pair_format is not TRANSLATION:
        return [
            "data.both_directions is for pairs of which either side can be the source, "
            f"those of task = 'translation', not {recipe.task!r}; leave it out"
        ]
    if not recipe.text.joint:
        return [
            "data.both_directions needs one vocabulary of both languages: set "
            "text.joint = true, or leave it out"
        ]
    return []


def _two_pass_problems(recipe: Tables) -> list[str]:
    """Return problems of R-Drop and SimCut, which make two passes."""
    training, model, task = recipe.training, recipe.model, find_task(recipe.task)
    if training.num_passes == 1:
        return []
    name = "training.r_drop" if training.r_drop else "training.simcut"
    if not task.has_two_pass_loss:
        others = [each for each in TASKS if TASKS[each].has_two_pass_loss]
        return [
            f"{name} is for outputs that are distributions: task = "
            f"{', '.join(others)}, not {recipe.task!r}; leave it out"
        ]
    if training.simcut and task.pair_format.reads_pictures:
        return [f"{name} cuts tokens of a text, and {recipe.task!r} reads pictures"]
    rates = model.dropout, model.attention_dropout, model.feed_forward_dropout
    if training.r_drop and not any(rates):
        return [
            f"{name} = {training.r_drop} does nothing without dropout, in which "
            "its two passes differ: set model.dropout, or leave r_drop out"
        ]
    return []


def _teacher_problems(recipe: Tables) -> list[str]:
    """Return problems of teachers, which only translation has."""
    if not recipe.training.teacher or recipe.task == "translation":
        return []
    return [
        f"training.teacher is for task = 'translation', not {recipe.task!r}; leave it "
        "out"
    ]


def _picture_problems(recipe: Tables) -> list[str]:
    """Return problems of pictures where texts are read, and the other way round."""
    reads_pictures = find_task(recipe.task).pair_format.reads_pictures
    problems = []
    if (recipe.text.source_kind == "patches") != reads_pictures:
        wanted = "" if reads_pictures else "another than "
        problems.append(
            f"text.tokenizer must be {wanted}'patches' for task = {recipe.task!r}, "
            f"not {recipe.text.source_kind!r}"
        )
    if not reads_pictures:
        problems += [
            f"data: {each.source} has format = 'pictures', which is not for task = "
            f"{recipe.task!r}"
            for each in (*recipe.data.corpora, recipe.data.dev)
            if each is not None and each.layout == "pictures"
        ]
    return problems


def _length_problems(recipe: Tables) -> list[str]:
    """Return problems of the search, and of learned positions that are too few."""
    model, max_tokens = recipe.model, recipe.data.max_tokens
    problems = []
    what, longest = "a text", max_tokens + 1
    if find_task(recipe.task).searches:
        problems += [
            f"decoding.{each}"
            for each in recipe.decoding.head_problems(*model.cross_attention_shape)
        ]
        what = "the translation of a source"
        longest = max(
            search.max_length(max_tokens) for search in (greedy(), recipe.decoding)
        )
    if model.position_limit is not None and model.position_limit < longest:
        beyond = "learned positions" if model.positions == "learned" else "fractions"
        problems.append(
            f"model.max_positions must be at least {longest}, not "
            f"{model.max_positions}: {what} of data.max_tokens={max_tokens} may be "
            f"that long, which is beyond the {beyond}"
        )
    return problems

"""Prepared corpora that trials share: one for each choice of data and text settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.data.prepare import fingerprint, prepare
from headwise.recipe import Recipe
from headwise.run_folder.pretrained import given_tokenizers
from headwise.settings import as_table
from headwise.sweep.ledger import CORPORA
from headwise.tasks import TASKS

NAME_LENGTH = 12
"""Digits of a SHA-256 that name a corpus, or a text."""


@dataclass(frozen=True, slots=True)
class SharedCorpus:
    """A prepared corpus, and what tells it from others."""

    folder: Path
    validation_text: str
    """Start of the SHA-256 of the validation text: values on other text cannot be
    compared."""

    @property
    def name(self) -> str:
        """The start of its fingerprint, which tells it from others."""
        return self.folder.name


@dataclass
class Corpora:
    """The prepared corpora of a sweep in ``folder``.

    All are prepared with ``seed``, whatever the seeds of the trials are, so that these
    are validated on the same text.
    """

    folder: Path
    seed: int
    say: Callable[[str], None]
    _found: dict[str, SharedCorpus] = field(default_factory=dict)

    def get(self, recipe: Recipe) -> SharedCorpus:
        """Return the corpus of ``recipe``, which is prepared if it was not yet.

        Raises ``DataError`` for text that cannot be used.
        """
        settings = {
            "task": recipe.task,
            "data": as_table(recipe.data),
            "text": as_table(recipe.text),
            "patch_size": recipe.patch_size,
            "initialize_from": recipe.initialize_from,
            "teacher": recipe.training.teacher,
        }
        key = json.dumps(settings, sort_keys=True)
        if key not in self._found:
            self._found[key] = self._prepare(recipe)
        return self._found[key]

    def _prepare(self, recipe: Recipe) -> SharedCorpus:
        pair_format = TASKS[recipe.task].pair_format
        options: dict[str, Any] = {
            "seed": self.seed,
            "pair_format": pair_format,
            "tokenizers": given_tokenizers(recipe, self.folder),
            "patch_size": recipe.patch_size,
        }
        name = fingerprint(recipe.data, recipe.text, **options)
        folder = self.folder / CORPORA / name[:NAME_LENGTH]
        corpus = prepare(
            recipe.data, recipe.text, folder, name=name, say=self.say, **options
        )
        text = hashlib.sha256()
        for side in corpus.dev_text:
            text.update(json.dumps(side).encode())
        return SharedCorpus(folder, text.hexdigest()[:NAME_LENGTH])

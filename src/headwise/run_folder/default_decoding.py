"""The default decoding settings of a model folder; reading them needs no torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError
from headwise.run_folder.paths import GENERATION
from headwise.settings import read

if TYPE_CHECKING:
    from headwise.data.prepared import SplitFacts  # it needs NumPy

OLD_DEFAULTS = {"patience": 1.0}
"""Decoding settings of folders older than the setting."""


def read_default_decoding(folder: Path) -> DecodingSettings:
    """Read ``generation.json`` of a model folder, of an older version too.

    Raises ``ModelError`` if it is missing or has settings that are not valid.
    """
    path = folder / GENERATION
    try:
        return read(DecodingSettings, {**OLD_DEFAULTS, **storage.read_json(path)})
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path} cannot be used:\n{error}") from None


SEVERAL_SENTENCES = 0.05
"""Share of training sources with several sentences from which on lines stay whole."""


def default_decoding(decoding: DecodingSettings, train: SplitFacts) -> DecodingSettings:
    """Return the settings that are stored with a model that was trained on ``train``.

    Unless the recipe says it, the training text tells whether the sentences of a line
    are translated one by one. That is not set where its sentences were not counted: the
    text has no such lines, or was prepared by an older version.
    """
    if decoding.split_sentences is not None or train.several_sentences is None:
        return decoding
    several = train.several_sentences / max(1, train.pairs)
    return replace(decoding, split_sentences=several < SEVERAL_SENTENCES)

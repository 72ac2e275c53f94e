"""The default decoding settings of a model folder; reading them needs no torch."""

from __future__ import annotations

from pathlib import Path

from headwise import storage
from headwise.decoding.settings import DecodingSettings
from headwise.errors import ModelError, SettingsError
from headwise.run_folder.paths import GENERATION
from headwise.settings import read

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

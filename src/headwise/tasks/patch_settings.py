"""Settings of tasks that read pictures: how these are cut into patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.errors import SettingsError
from headwise.text.patch_tokenizer import PatchTokenizer

if TYPE_CHECKING:
    from headwise.text.tokenizer import TokenizerPair


def check_patches(patch_size: int, max_shift: int) -> None:
    """Raise ``SettingsError`` for a patch without pixels, or a shift below 0."""
    problems = [
        f"{name} must be {least} or more, not {value}"
        for name, least, value in (
            ("patch_size", 1, patch_size),
            ("max_shift", 0, max_shift),
        )
        if value < least
    ]
    if problems:
        raise SettingsError(problems)


def check_prepared(tokenizers: TokenizerPair, patch_size: int, task: str) -> None:
    """Raise ``SettingsError`` if pictures were prepared with another patch size."""
    cutter = tokenizers.source
    assert isinstance(cutter, PatchTokenizer)
    if cutter.patch_size != patch_size:
        raise SettingsError(
            [
                f"{task}.patch_size is {patch_size}, but the pictures were prepared "
                f"with {cutter.patch_size}; prepare them again"
            ]
        )

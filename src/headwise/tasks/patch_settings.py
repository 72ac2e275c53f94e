"""Settings of tasks that read pictures: how these are cut into patches."""

from __future__ import annotations

from headwise.errors import SettingsError
from headwise.text.patch_tokenizer import PatchTokenizer
from headwise.text.tokenizer import TokenizerPair


def check_patch_size(patch_size: int) -> None:
    """Raise ``SettingsError`` for a patch without pixels."""
    if patch_size < 1:
        raise SettingsError([f"patch_size must be 1 or more, not {patch_size}"])


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

"""Every form that a trained model can be written in, under the name users choose."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from headwise.interop.ctranslate2 import write_ctranslate2
from headwise.interop.huggingface import write_huggingface
from headwise.interop.limits import CTRANSLATE2, HUGGINGFACE, check_export
from headwise.run_folder.model_folder import ModelFolder


class Export(Protocol):
    """Writes a model folder in another form."""

    def __call__(
        self, out: Path, opened: ModelFolder, *, quantization: str = "float32"
    ) -> list[str]:
        """Write ``out``, whole or not at all; return what its user should know."""


EXPORTS: dict[str, Export] = {
    CTRANSLATE2: write_ctranslate2,
    HUGGINGFACE: write_huggingface,
}


def export(
    out: Path, opened: ModelFolder, *, target: str, quantization: str = "float32"
) -> list[str]:
    """Write ``opened`` for ``target``; return what the user should know of it."""
    check_export(target, quantization)
    return EXPORTS[target](out, opened, quantization=quantization)

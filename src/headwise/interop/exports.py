"""All export formats by name, and the function that writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from headwise.interop.ctranslate2 import write_ctranslate2
from headwise.interop.huggingface import write_huggingface
from headwise.interop.unsupported_models import CTRANSLATE2, HUGGINGFACE, check_export
from headwise.run_folder.model_folder import ModelFolder


class Export(Protocol):
    """Writes a model folder in another format."""

    def __call__(
        self, out: Path, opened: ModelFolder, *, quantization: str = "float32"
    ) -> list[str]:
        """Write ``out`` atomically; return notes for the user."""


EXPORTS: dict[str, Export] = {
    CTRANSLATE2: write_ctranslate2,
    HUGGINGFACE: write_huggingface,
}


def export(
    out: Path, opened: ModelFolder, *, target: str, quantization: str = "float32"
) -> list[str]:
    """Export ``opened`` to ``target``; return notes for the user."""
    check_export(target, quantization)
    return EXPORTS[target](out, opened, quantization=quantization)

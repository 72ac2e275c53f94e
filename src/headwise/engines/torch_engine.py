"""The engine that can do everything: the model itself, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.model.stepping_boxes import Precision
from headwise.model.transformer import Transformer
from headwise.model.writing import WritingDecoder
from headwise.run_folder.model_folder import ModelFolder


class TorchEngine:
    """Searches with the model of an opened folder, on the device it is on.

    On a CPU it writes by compiled kernels, where they can be had; without ``compiled``
    by PyTorch (:mod:`headwise.model.writing`). Without ``cached`` every step runs the
    whole stack again: the same words by the readable way, slowly
    (:mod:`headwise.model.refill`).
    """

    name = "torch"

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        cached: bool = True,
        compiled: bool = True,
    ) -> None:
        if precision not in get_args(Precision):
            raise UsageError(
                f"the engine torch computes in {' or '.join(get_args(Precision))}, not "
                f"{precision!r}; --engine ctranslate2 has float16 and int8"
            )
        if precision != "float32" and not cached:
            raise UsageError(
                f"the engine torch-readable computes in float32, not {precision!r}; "
                "--engine torch has bf16"
            )
        self.precision = cast(Precision, precision)
        self.laid_out: dict[Transformer, WritingDecoder] = {}
        self.model = opened.model
        self.task = opened.task
        self.cached = cached
        self.compiled = compiled
        self.used = {self.name: ""}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.task.search(
            self.model,
            sources,
            settings,
            prefixes=prefixes,
            cached=self.cached,
            laid_out=self.laid_out,
            precision=self.precision,
            compiled=self.compiled,
        )

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return True

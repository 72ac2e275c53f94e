"""The engine that can do everything: the model itself, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import cast, get_args

from headwise.backends.api import DecoderBackend, Precision
from headwise.backends.native.compiler import requested, why_unavailable
from headwise.backends.native.selection import prefers_native, why_not_preferred
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inference.engines.background import SearchAside
from headwise.inference.engines.engine import Search, SearchWhenAsked
from headwise.model.transformer import Transformer
from headwise.run_folder.model_folder import ModelFolder

WORTH_A_THREAD = 64
"""Sources of a search from which it is done aside."""


class TorchEngine:
    """Searches with the model of an opened folder, on the device it is on.

    On a CPU it writes by kernels in C, where they can be had; without ``compiled`` by
    PyTorch, and where that is None by the faster of them
    (:mod:`headwise.backends.select`). Without ``cached`` every step runs the whole
    stack again: the same words, slowly (``backends.pytorch.uncached_decoder``).
    """

    name = "torch"

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        cached: bool = True,
        compiled: bool | None = True,
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
        self.laid_out: dict[Transformer, DecoderBackend] = {}
        self.model = opened.model
        self.task = opened.task
        self.cached = cached
        self.compiled = compiled
        self.turn = Lock()
        self.used = {self.name: self._slower_because()}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
        *,
        stop: Callable[[], None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first; ``stop`` may end it."""
        return self.task.search(
            self.model,
            sources,
            settings,
            prefixes=prefixes,
            cached=self.cached,
            laid_out=self.laid_out,
            precision=self.precision,
            compiled=self.compiled,
            stop=stop,
        )

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Search:
        """Begin what ``search`` does: aside, where compiled kernels do the work.

        PyTorch would hold the interpreter most of the time.
        """
        if len(sources) < WORTH_A_THREAD or not self._is_compiled():
            return SearchWhenAsked(self, sources, settings, prefixes)

        def search(stop: Callable[[], None]) -> list[list[Hypothesis]]:
            return self.search(sources, settings, prefixes, stop=stop)

        return SearchAside(search, self.turn)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return True

    def _is_compiled(self) -> bool:
        """Tell whether kernels in C do the work."""
        if not self.cached or self.model.device.type != "cpu" or why_unavailable():
            return False
        return prefers_native("decoding") if self.compiled is None else self.compiled

    def _slower_because(self) -> str:
        """Say so where kernels were asked for that others are faster than."""
        if not self.compiled or not self._is_compiled() or requested():
            return ""
        reason = why_not_preferred("decoding", "ctranslate2")
        return f"{reason}; --engine auto takes what is faster" if reason else ""

"""The torch engine: the model itself, by C kernels or PyTorch; supports any search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast, get_args

from headwise.backends.native.library import requested, why_unavailable
from headwise.backends.native.measured_speed import prefers_native, why_not_preferred
from headwise.backends.precision import Precision
from headwise.backends.reference import why_reference_only
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.fork_safe_lock import ForkSafeLock
from headwise.inference.engines.background_search import BackgroundSearch
from headwise.inference.engines.engine import (
    MIN_BACKGROUND_SOURCES,
    DeferredSearch,
    Outputs,
    SearchFuture,
)
from headwise.run_folder.model_folder import ModelFolder


class TorchEngine:
    """Searches with the model of an opened folder, on its device.

    On a CPU it uses the native backend (C kernels) if that is available; without
    ``native`` PyTorch, and if that is None the faster of them
    (:mod:`headwise.backends.select_decoder`). Without ``cached`` each step runs the
    whole model: the same outputs, slowly (``backends.pytorch.uncached_decoder``).
    """

    name = "torch"

    def __init__(
        self,
        opened: ModelFolder,
        *,
        precision: str = "float32",
        cached: bool = True,
        native: bool | None = True,
    ) -> None:
        if precision not in get_args(Precision):
            raise UsageError(
                f"the engine torch computes in {' or '.join(get_args(Precision))}, not "
                f"{precision!r}; --engine ctranslate2 has float16 and int8"
            )
        if precision != "float32" and not cached:
            raise UsageError(
                f"--backend reference computes in float32, not {precision!r}; "
                "--backend torch has bf16"
            )
        self.model = opened.model
        self.generator = opened.task.generator(
            opened.model,
            cached=cached,
            precision=cast(Precision, precision),
            native=native,
        )
        self.background_lock = ForkSafeLock()
        self.used = {self.name: self._note()}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source, best first."""
        return self.generator.search(sources, settings, prefixes)

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> SearchFuture:
        """Search in a background thread if the C kernels run, which release the GIL."""
        if len(sources) < MIN_BACKGROUND_SOURCES or not self._is_native():
            return DeferredSearch(
                partial(self.generator.search, sources, settings, prefixes)
            )

        def search(check_stop: Callable[[], None]) -> Outputs:
            generator = replace(self.generator, check_stop=check_stop)
            return generator.search(sources, settings, prefixes)

        return BackgroundSearch(search, self.background_lock)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return True: every search is supported."""
        return True

    def _is_native(self) -> bool:
        """Return whether the C kernels are used."""
        generator = self.generator
        if not generator.cached or self.model.device.type != "cpu" or why_unavailable():
            return False
        if why_reference_only(self.model):
            return False
        if generator.native is None:
            return prefers_native("decoding")
        return generator.native

    def _note(self) -> str:
        """Return a note if C kernels were asked for and another engine is faster."""
        if not self.generator.native or not self._is_native() or requested():
            return ""
        reason = why_not_preferred("decoding", "ctranslate2")
        return f"{reason}; --engine auto takes what is faster" if reason else ""

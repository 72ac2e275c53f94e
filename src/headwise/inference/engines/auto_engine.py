"""The engine that chooses the fastest of those with the same outputs, per search.

If the C kernels were measured to be faster than CTranslate2
(``backends/native/measured_speed.py``), that is the native engine, which does without
torch, for the searches that it supports, and torch with the same kernels for the
others. Else it is CTranslate2, for the searches that it supports; else torch, with C
kernels or PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwise.backends.native.library import build
from headwise.backends.native.measured_speed import why_not_preferred
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import HeadwiseError, ModelError
from headwise.fork_safe_lock import ForkSafeLock
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.ctranslate2_support import (
    unsupported_lengths,
    unsupported_model,
    unsupported_prefixes,
    unsupported_search,
    why_not_same_scores,
)
from headwise.inference.engines.engine import Engine, Outputs, SearchFuture, submit
from headwise.inference.engines.engine_names import PRECISIONS_OF
from headwise.inference.engines.native_engine import NativeEngine, why_no_native_engine
from headwise.run_folder.model_folder import ModelFolder

if TYPE_CHECKING:
    from headwise.inference.engines.torch_engine import TorchEngine


class AutoEngine:
    """Chooses an engine for each search; ``name`` is the one that ran last.

    There is no choice for float16 and int8, which CTranslate2 alone has, nor for
    deterministic results: the choice depends on all sources of a search, and engines
    differ in the last bits of a score.
    """

    def __init__(self, opened: ModelFolder, *, precision: str = "float32") -> None:
        self.opened = opened
        self.precision = precision
        self.name = "auto"
        self.used: dict[str, str] = {}
        self._loading_lock = ForkSafeLock()
        self._loaded: TorchEngine | None = None
        self._weight_versions: list[tuple[int, int]] = []
        self._ctranslate2_lock = ForkSafeLock()
        self._ctranslate2_error = ""
        self._ctranslate2: CTranslate2Engine | None = None
        self._only: Engine | None = None
        self._native: NativeEngine | None = None
        if precision not in PRECISIONS_OF["torch"]:
            self._only = CTranslate2Engine(opened, precision=precision)
        elif why_not_preferred("decoding", "ctranslate2") is None:
            self._open_native()
        if self._only is None and self._native is None:
            self._load()
        if opened.deterministic:
            self._only = self._only or self._loaded

    @property
    def _torch(self) -> TorchEngine:
        """The torch engine; torch and the model are loaded on first use."""
        with self._loading_lock.held():
            if self._loaded is None:
                self._load()
        assert self._loaded is not None
        return self._loaded

    def _load(self) -> None:
        self._loaded = _torch_engine(self.opened, self.precision)
        self._weight_versions = _weight_versions(self.opened)
        self._native = None  # the weights may change from now on

    def _open_native(self) -> None:
        """Try to make the engine; the torch engine says what is wrong with a file."""
        if why_no_native_engine(self.opened) is None:
            try:
                self._native = NativeEngine(self.opened, precision=self.precision)
            except ModelError:
                self._native = None

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source, best first."""
        return self.submit(sources, settings, prefixes).result() if sources else []

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> SearchFuture:
        """Choose an engine, and start what ``search`` does."""
        engine, note = self._choose(sources, settings, prefixes)
        self.name = engine.name
        self.used.setdefault(engine.name, note)
        return submit(engine, sources, settings, prefixes)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return whether ``search`` supports these settings."""
        return self._only is None or self._only.can_search(settings)

    def _choose(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None,
    ) -> tuple[Engine, str]:
        """Return the engine for this search, and a note that says why."""
        if self._only is not None:
            return self._only, self._only.used.get(self._only.name, "")
        native = self._native
        if (
            native is not None
            and self.opened.weights.model is None  # else its weights may have changed
            and native.can_search(settings)
            and not any(prefixes or ())
        ):
            return native, native.used[native.name]
        torch_engine = self._torch  # loads torch and the model
        if self.precision != "float32":  # in that CTranslate2 is a choice too
            return torch_engine, torch_engine.used[torch_engine.name]
        from headwise.backends.reference import why_reference_only
        from headwise.backends.select_decoder import runs_natively

        if reason := why_reference_only(self.opened.model):
            return torch_engine, reason
        slower: str | None = ""
        if runs_natively(self.opened.model):
            slower = why_not_preferred("decoding", "ctranslate2")
        if slower is None:
            return torch_engine, f"by the native backend, with {build().vectors}"
        engine, note = self._choose_without_kernels(sources, settings, prefixes)
        return engine, "; ".join(each for each in (note, slower) if each)

    def _choose_without_kernels(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None,
    ) -> tuple[Engine, str]:
        """Return the engine for this search if the C kernels are not the fastest."""
        if reason := why_not_same_scores(self.opened):
            return self._torch, reason
        unsupported = [
            *unsupported_model(self.opened),
            *unsupported_search(settings),
            *unsupported_prefixes(prefixes),
            *unsupported_lengths(self.opened, sources, settings),
        ]
        if unsupported:
            return self._torch, "; ".join(each.reason for each in unsupported)
        if _weight_versions(self.opened) != self._weight_versions:
            return self._torch, "the weights were changed after they were loaded"
        with self._ctranslate2_lock.held():
            if self._ctranslate2 is None and not self._ctranslate2_error:
                self._open_ctranslate2()
        if self._ctranslate2 is None:
            return self._torch, self._ctranslate2_error
        return self._ctranslate2, self._ctranslate2.note

    def _open_ctranslate2(self) -> None:
        """Try to make the engine, once; if it fails, torch has the same outputs."""
        try:
            self._ctranslate2 = CTranslate2Engine(self.opened)
        except HeadwiseError as error:
            self._ctranslate2_error = str(error)


def _torch_engine(opened: ModelFolder, precision: str) -> TorchEngine:
    """Return the torch engine, which gets the threads of ``opened`` if it is first."""
    is_first = "torch" not in sys.modules
    from headwise.inference.engines.torch_engine import TorchEngine

    if is_first and opened.threads:
        import torch

        torch.set_num_threads(opened.threads)
    return TorchEngine(opened, precision=precision, native=None)


def _weight_versions(opened: ModelFolder) -> list[tuple[int, int]]:
    """Return a value that changes if weights are moved, replaced or overwritten."""
    tensors = [*opened.model.parameters(), *opened.model.buffers()]
    return [(each.data_ptr(), each._version) for each in tensors]

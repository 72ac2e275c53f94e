"""The engine that chooses the fastest of those that give the same words.

That is torch where kernels in C write and were measured to be faster than CTranslate2
(:mod:`headwise.backends.native.selection`); else CTranslate2, for the searches that it
has; else torch, by those kernels or by PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from headwise.backends.native.compiler import build
from headwise.backends.native.selection import why_not_preferred
from headwise.backends.select import runs_natively
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.errors import HeadwiseError
from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
from headwise.inference.engines.ctranslate2_support import (
    reasons_against_lengths,
    reasons_against_model,
    reasons_against_prefixes,
    reasons_against_search,
)
from headwise.inference.engines.engine import Engine, Search, begun
from headwise.inference.engines.torch_engine import TorchEngine
from headwise.run_folder.model_folder import ModelFolder


class AutoEngine:
    """Asks for each search anew; ``name`` is the engine that ran last.

    Of smaller numbers than float32 each engine has its own, so there is no choice then;
    nor where results shall be deterministic: what is chosen for a search depends on all
    that is searched with it, and engines differ in the last bits of a score.
    """

    def __init__(self, opened: ModelFolder, *, precision: str = "float32") -> None:
        self.opened = opened
        self.precision = precision
        self.name = "auto"
        self.used: dict[str, str] = {}
        self._torch = TorchEngine(opened, compiled=None)
        self._weights = _stamp(opened)
        self._one_at_a_time = Lock()
        self._refusal = ""
        self._fast: CTranslate2Engine | None = None
        self._only: Engine | None = None
        if precision == "bf16":
            self._only = TorchEngine(opened, precision=precision, compiled=None)
        elif precision != "float32":
            self._only = CTranslate2Engine(opened, precision=precision)
        elif opened.deterministic:
            self._only = self._torch

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first."""
        return self.begin(sources, settings, prefixes).outputs() if sources else []

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Search:
        """Choose, and begin what ``search`` does."""
        engine, note = self._chosen(sources, settings, prefixes)
        self.name = engine.name
        self.used.setdefault(engine.name, note)
        return begun(engine, sources, settings, prefixes)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        return self._only is None or self._only.can_search(settings)

    def _chosen(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None,
    ) -> tuple[Engine, str]:
        """Return the engine for this search, and why it is that one."""
        if self._only is not None:
            return self._only, self._only.used.get(self._only.name, "")
        slower: str | None = ""
        if runs_natively(self.opened.model):
            slower = why_not_preferred("decoding", "ctranslate2")
        if slower is None:
            found = build()
            made = f"by kernels in C, {found.compiler} for {found.vectors}"
            return self._torch, made
        engine, note = self._chosen_of_others(sources, settings, prefixes)
        return engine, "; ".join(each for each in (note, slower) if each)

    def _chosen_of_others(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None,
    ) -> tuple[Engine, str]:
        """Return the engine for this search where kernels in C are not the fastest."""
        against = [
            *reasons_against_model(self.opened),
            *reasons_against_search(settings),
            *reasons_against_prefixes(prefixes),
            *reasons_against_lengths(self.opened, sources, settings),
        ]
        if against:
            return self._torch, "; ".join(each.fact for each in against)
        if _stamp(self.opened) != self._weights:
            return self._torch, "the weights were changed after they were loaded"
        with self._one_at_a_time:
            if self._fast is None and not self._refusal:
                self._try_the_fast_one()
        if self._fast is None:
            return self._torch, self._refusal
        return self._fast, self._fast.note

    def _try_the_fast_one(self) -> None:
        """Make the engine, once; whatever the reason, the words can be had without."""
        try:
            self._fast = CTranslate2Engine(self.opened)
        except HeadwiseError as error:
            self._refusal = str(error)


def _stamp(opened: ModelFolder) -> list[tuple[int, int]]:
    """Return what changes when weights are moved, replaced or written over."""
    tensors = [*opened.model.parameters(), *opened.model.buffers()]
    return [(each.data_ptr(), each._version) for each in tensors]

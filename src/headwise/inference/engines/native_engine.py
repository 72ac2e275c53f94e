"""The native engine: the C kernels on the weights of a model folder, without torch.

It has the outputs of the torch engine with the native backend, which runs the same
kernels; ``tests/inference/engines/test_native_engine.py`` holds them equal. Importing
torch takes longer than a translation, and more memory than a small model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast, get_args

import numpy as np

from headwise.backends.native.arrays_of_file import arrays_of_file, why_not_from_file
from headwise.backends.native.encoder_decoder import NativeEncoderDecoder
from headwise.backends.native.library import build, why_unavailable
from headwise.backends.precision import Precision
from headwise.data.token_budget import BATCH_TOKENS
from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.native_search import (
    NativeRequest,
    native_search,
    why_not_searched,
)
from headwise.decoding.settings import DecodingSettings
from headwise.errors import SettingsError, UsageError
from headwise.fork_safe_lock import ForkSafeLock
from headwise.inference.engines.background_search import BackgroundSearch
from headwise.inference.engines.default_threads import num_threads
from headwise.inference.engines.engine import (
    MIN_BACKGROUND_SOURCES,
    DeferredSearch,
    Outputs,
    SearchFuture,
)
from headwise.run_folder.model_folder import ModelFolder
from headwise.run_folder.paths import WEIGHTS
from headwise.run_folder.weight_file import read_arrays
from headwise.tasks.translation.text_codec import FORBIDDEN_TOKENS, placeholder_token
from headwise.tasks.translation.thread_pool import (
    cut_batches,
    run_in_threads,
    tokens_per_batch,
)
from headwise.text.vocabulary import END, START


def why_no_native_engine(opened: ModelFolder) -> str | None:
    """Return why this engine cannot run the model; None if it can."""
    if reason := why_unavailable():
        return reason
    if opened.device.partition(":")[0] != "cpu":
        return f"the model is on {opened.device}"
    if opened.task_name != "translation":
        return f"it is a model of {opened.task_name}"
    if opened.weights.model is not None:
        return "the model is in memory, where its weights may change"
    if opened.deterministic:
        return "each sentence is to be computed alone"
    return why_not_from_file(opened.config)


class NativeEngine:
    """Searches by the native library, with the weights of an opened folder.

    Raises ``UsageError`` for a model that it cannot run (:func:`why_no_native_engine`),
    and ``ModelError`` for a file that does not fit it.
    """

    name = "native"

    def __init__(self, opened: ModelFolder, *, precision: str = "float32") -> None:
        if precision not in get_args(Precision):
            raise UsageError(
                f"the native engine computes in {' or '.join(get_args(Precision))}, "
                f"not {precision!r}"
            )
        if reason := why_no_native_engine(opened):
            raise UsageError(f"the native engine cannot be used: {reason}")
        self.opened = opened
        self.threads = opened.threads or num_threads()
        pair = opened.tokenizers
        self.source_placeholder = placeholder_token(pair.source, pair.settings)
        self.target_placeholder = placeholder_token(pair.target, pair.settings)
        sizes = pair.source.size, pair.target.size
        sha256 = opened.manifest["files"][WEIGHTS]["sha256"]
        tensors = read_arrays(opened.location / WEIGHTS, sha256)
        self.steps = NativeEncoderDecoder(
            arrays_of_file(opened.config, *sizes, tensors),
            *sizes,
            cast(Precision, precision),
        )
        # bfloat16 takes half as much memory.
        self.batch_tokens = BATCH_TOKENS * (2 if precision == "bf16" else 1)
        self.background_lock = ForkSafeLock()
        self.used = {self.name: f"C kernels with {build().vectors}, without torch"}

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source, best first."""
        self._check(settings, prefixes)
        return self._search(sources, settings, lambda: None)

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> SearchFuture:
        """Search many sources in a background thread: the kernels release the GIL."""
        self._check(settings, prefixes)
        if len(sources) < MIN_BACKGROUND_SOURCES:
            return DeferredSearch(
                partial(self._search, sources, settings, lambda: None)
            )
        search = partial(self._search, sources, settings)
        return BackgroundSearch(search, self.background_lock)

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return whether ``search`` supports these settings."""
        return why_not_searched(settings) is None

    def _check(
        self, settings: DecodingSettings, prefixes: Sequence[Prefix] | None
    ) -> None:
        reason = why_not_searched(settings)
        if reason is None and any(prefixes or ()):
            reason = "outputs have a forced prefix"
        if reason:
            raise SettingsError([f"{reason}; --engine torch would do"])

    def _search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        check_stop: Callable[[], None],
    ) -> Outputs:
        """Search in batches of similar lengths, one per thread."""
        width = settings.num_candidates
        sizes = [(len(source) + 1) * width for source in sources]
        limit = tokens_per_batch(sum(sizes), self.threads, limit=self.batch_tokens)
        batches = cut_batches(sizes, limit, alone=False)

        def work(indices: Sequence[int], check: Callable[[], None]) -> Outputs:
            batch = [sources[index] for index in indices]
            return self._search_batch(batch, settings, check)

        if self.threads > 1 and len(batches) > 1:
            # Largest first, so that all threads end at about the same time.
            results = run_in_threads(
                work, batches[::-1], threads=self.threads, check_stop=check_stop
            )[::-1]
        else:
            results = [work(batch, check_stop) for batch in batches]
        found: Outputs = [[] for _ in sources]
        for indices, outputs in zip(batches, results, strict=True):
            for index, hypotheses in zip(indices, outputs, strict=True):
                found[index] = hypotheses
        return found

    def _search_batch(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        check_stop: Callable[[], None],
    ) -> Outputs:
        forbidden: tuple[int, ...] = FORBIDDEN_TOKENS
        copied, copies = self.target_placeholder, [0]
        if self.source_placeholder is not None:
            copies = [list(each).count(self.source_placeholder) for each in sources]
        if copied is not None and not any(copies):
            forbidden, copied = (*forbidden, copied), None
        lengths = [len(source) for source in sources]
        request = NativeRequest(
            source_lengths=lengths,
            start=START,
            end=END,
            forbidden=forbidden,
            copied=copied,
            copies=copies,
            check_stop=check_stop,
        )
        tokens = [token for source in sources for token in (*source, END)]
        positions = [np.arange(length + 1) for length in lengths]
        state = self.steps.start(
            np.array(tokens), np.concatenate(positions), np.array(lengths) + 1
        )
        return native_search(self.steps, state, settings, request)

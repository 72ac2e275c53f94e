"""Protocols of engines: source tokens in, hypotheses out, directly or as a future."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from headwise.decoding.forced_prefix import Prefix
from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.model_folder import ModelFolder

Outputs = list[list[Hypothesis]]
"""The hypotheses of each source, best first."""

MIN_BACKGROUND_SOURCES = 64
"""Least sources of a search for which a background thread pays."""


class Engine(Protocol):
    """Runs one trained model, or an ensemble."""

    name: str

    @property
    def used(self) -> Mapping[str, str]:
        """The engines that ran or will, each with a note for the user, or ""."""
        ...

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Outputs:
        """Return the hypotheses of each source (tokens without END), best first."""
        ...

    def can_search(self, settings: DecodingSettings) -> bool:
        """Return whether ``search`` supports these settings."""
        ...


class SearchFuture(Protocol):
    """A submitted search: the part of ``concurrent.futures.Future`` that is used."""

    def done(self) -> bool:
        """Return whether ``result`` would not wait for other threads."""
        ...

    def result(self) -> Outputs:
        """Return what ``Engine.search`` returns, or raise what it raises; call once."""
        ...

    def cancel(self) -> object:
        """End the search soon; its result is no longer wanted."""
        ...


@runtime_checkable
class AsyncEngine(Protocol):
    """An engine with threads of its own, which search while the caller goes on."""

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> SearchFuture:
        """Start what ``Engine.search`` does."""
        ...


@dataclass(frozen=True, slots=True)
class DeferredSearch:
    """A search that runs in the caller's thread when its result is asked for."""

    run: Callable[[], Outputs]

    def done(self) -> bool:
        """Return True: ``result`` waits for no other thread."""
        return True

    def result(self) -> Outputs:
        """Run the search."""
        return self.run()

    def cancel(self) -> None:
        """Do nothing: the search has not been started."""


def submit(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: DecodingSettings,
    prefixes: Sequence[Prefix] | None = None,
) -> SearchFuture:
    """Start a search in the engine's threads; if it has none, defer it."""
    if isinstance(engine, AsyncEngine):
        return engine.submit(sources, settings, prefixes)
    return DeferredSearch(partial(engine.search, sources, settings, prefixes))


class MakeEngine(Protocol):
    """Makes an engine for an opened model folder."""

    def __call__(self, opened: ModelFolder, *, precision: str = "float32") -> Engine:
        """Return the engine; ``precision`` is that of its weights."""
        ...

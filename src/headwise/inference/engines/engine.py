"""What every engine does: batches of source tokens in, hypotheses out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headwise.decoding.hypothesis import Hypothesis
from headwise.decoding.prefix import Prefix
from headwise.decoding.settings import DecodingSettings
from headwise.run_folder.model_folder import ModelFolder


class Engine(Protocol):
    """Runs one trained model."""

    name: str

    @property
    def used(self) -> Mapping[str, str]:
        """The engines that ran or will, each with what should be known of that."""
        ...

    def search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, best first, each with its beginning."""
        ...

    def can_search(self, settings: DecodingSettings) -> bool:
        """Tell whether ``search`` would not refuse these settings."""
        ...


class Search(Protocol):
    """A search that was begun."""

    def ready(self) -> bool:
        """Tell whether what remains to be done will not wait for other threads."""
        ...

    def outputs(self) -> list[list[Hypothesis]]:
        """Return what ``Engine.search`` returns; to be asked once."""
        ...

    def give_up(self) -> None:
        """Tell that nobody will ask for outputs."""
        ...


@runtime_checkable
class WorksAside(Protocol):
    """An engine with threads of its own: it searches while its caller goes on."""

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Prefix] | None = None,
    ) -> Search:
        """Begin what ``Engine.search`` does."""
        ...


@dataclass(frozen=True, slots=True)
class SearchWhenAsked:
    """The search of an engine that works in the thread of its caller."""

    engine: Engine
    sources: Sequence[Sequence[int]]
    settings: DecodingSettings
    prefixes: Sequence[Prefix] | None = None

    def ready(self) -> bool:
        """Tell that nobody else is at work."""
        return True

    def outputs(self) -> list[list[Hypothesis]]:
        """Search."""
        return self.engine.search(self.sources, self.settings, self.prefixes)

    def give_up(self) -> None:
        """Do nothing, as nothing was begun."""


def begun(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    settings: DecodingSettings,
    prefixes: Sequence[Prefix] | None = None,
) -> Search:
    """Begin a search, as far as this engine can without its caller."""
    if isinstance(engine, WorksAside):
        return engine.begin(sources, settings, prefixes)
    return SearchWhenAsked(engine, sources, settings, prefixes)


class MakeEngine(Protocol):
    """Makes an engine for an opened model folder."""

    def __call__(self, opened: ModelFolder, *, precision: str = "float32") -> Engine:
        """Return it; ``precision`` names the numbers that weights are held in."""
        ...

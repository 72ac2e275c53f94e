"""What views ask of a model with its task, and how one that cannot answer says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inspection.attention import Attention, attention_of
from headwise.inspection.attribution import AttributedOutput
from headwise.inspection.beam_tree import BeamTree
from headwise.inspection.comparison import Answer
from headwise.inspection.head_ranking import References
from headwise.inspection.logit_lens import LogitLens
from headwise.inspection.output import Output
from headwise.inspection.patching import Patching
from headwise.inspection.places import Head
from headwise.inspection.token_pair import TokenPair
from headwise.model.sequence_model import SequenceModel
from headwise.settings import changed_by
from headwise.tasks.task import Task

VIEWS = (
    "output",
    "attention",
    "attribution",
    "beam",
    "word",
    "lens",
    "patch",
    "compare",
)
"""The views that depend on the task, by the names of the methods of ``Inspector``."""


class InspectedModel(ABC):
    """A model with its task: how a text becomes tokens, and what its output is.

    A view that makes no sense for the task has its reason in ``refusals``; the method
    behind it is then never called.
    """

    refusals: ClassVar[Mapping[str, str]] = {}
    """View -> why it makes no sense."""

    def __init__(
        self, task: Task, model: SequenceModel, decoding: DecodingSettings
    ) -> None:
        self.task: Any = task
        self.model: Any = model
        self.decoding = decoding

    def why_not(self, view: str) -> str | None:
        """Return why a view makes no sense for this model; None if it does."""
        return self.refusals.get(view)

    def require(self, view: str) -> None:
        """Raise ``UsageError`` for a view that makes no sense."""
        if reason := self.why_not(view):
            others = ", ".join(each for each in VIEWS if self.why_not(each) is None)
            raise UsageError(
                f"a model of {self.task.name} has no view {view}: {reason}; it has "
                f"{others}"
            )

    @abstractmethod
    def pair(
        self, text: str, target: str | None, prefix: str, search: Mapping[str, Any]
    ) -> TokenPair:
        """Return the tokens of a text, and of its output.

        The output is ``target``, or else what the model itself makes of the text,
        beginning with ``prefix``. Raises ``UsageError`` for a target or a prefix where
        there can be none.
        """

    @abstractmethod
    def output(self, pair: TokenPair, count: int) -> Output:
        """Return the probabilities of an output, each with alternatives."""

    @abstractmethod
    def attributed(self, pair: TokenPair) -> AttributedOutput:
        """Return the output as a function of the input."""

    @abstractmethod
    def answers(
        self, text: str, prefix: str, search: Mapping[str, Any]
    ) -> list[Answer]:
        """Return the outputs of the model for a text, best first."""

    @abstractmethod
    def log_probability(self, text: str, answer: Answer) -> float | None:
        """Return ln p of an answer, as the model is now."""

    def attention(
        self,
        pair: TokenPair,
        *,
        heads: Collection[Head] | None,
        norms: bool,
        rollout: bool,
    ) -> Attention:
        """Return the attention weights."""
        return attention_of(self.model, pair, heads=heads, norms=norms, rollout=rollout)

    def beam(self, text: str, prefix: str, search: Mapping[str, Any]) -> BeamTree:
        """Return what the beam search of a text did."""
        raise NotImplementedError

    def lens(self, pair: TokenPair, count: int) -> LogitLens:
        """Return what each layer of the decoder would say."""
        raise NotImplementedError

    def patch(self, text: str, donor: str, target: str, other: str) -> Patching:
        """Return which activations carry the difference between two texts."""
        raise NotImplementedError

    def references(self, sources: Sequence[str], targets: Sequence[str]) -> References:
        """Return the right outputs of inputs, as many of both, to rank heads by.

        Raises ``UsageError`` for a task that has none with a probability.
        """
        raise UsageError(
            "heads are ranked by how probable references are, which are translations, "
            f"trees, captions or labels: a model of {self.task.name} has none of them"
        )

    def settings(self, search: Mapping[str, Any]) -> DecodingSettings:
        """Return the decoding settings of the model with those of ``search``."""
        return changed_by(self.decoding, search)

    def refuse_target(self, target: str | None, prefix: str, what: str) -> None:
        """Raise ``UsageError`` for a target or a prefix: the output is no text."""
        given = [
            name
            for name, value in (("target", target), ("forced beginning", prefix))
            if value
        ]
        if given:
            raise UsageError(
                f"the output of a model of {self.task.name} is {what}, so there is no "
                f"{given[0]}; leave it out"
            )

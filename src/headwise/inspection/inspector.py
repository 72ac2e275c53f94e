"""The Python interface to a look inside: text in, typed results out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inspection.arguments import (
    check_index,
    check_indices,
    check_text,
    require_text,
)
from headwise.inspection.attention import Attention
from headwise.inspection.attribution import Attribution, attribution_of
from headwise.inspection.beam_tree import BeamTree
from headwise.inspection.comparison import Comparison
from headwise.inspection.head_ranking import (
    HeadRanking,
    References,
    heads_zeroed,
    rank_heads,
)
from headwise.inspection.head_statistics import HeadStatistics, head_statistics
from headwise.inspection.inspected.base import VIEWS
from headwise.inspection.inspected.kinds import inspected_model
from headwise.inspection.inspected.translator import InspectedTranslator
from headwise.inspection.interventions import Intervention, intervene
from headwise.inspection.logit_lens import LogitLens
from headwise.inspection.output import Output
from headwise.inspection.patching import Patching
from headwise.inspection.places import Head, as_head, as_heads
from headwise.inspection.token_pair import TokenPair
from headwise.inspection.word_steps import WordSteps, word_steps
from headwise.model.encoder_decoder import EncoderDecoder
from headwise.model.sequence_model import SequenceModel
from headwise.tasks.task import Task
from headwise.tasks.translation.task import Translation
from headwise.tasks.translation.thread_pool import CheckStop
from headwise.text_arguments import checked_sides


class Inspector:
    """Looks into one model of any task: ``headwise.load(FOLDER).inspector``.

    A text is one line: of pictures, the path of a PNG file. Where a ``target`` may be
    given, that output is looked at, and else the model's own, which starts with
    ``prefix``. :meth:`views` lists what a model can be asked for; anything else raises
    ``UsageError``. Hooks are swapped into the model meanwhile, so one thread at a time
    may use it. ``check_stop`` is called now and then during long computations, and may
    raise; without it that of the task is.
    """

    def __init__(
        self,
        task: Task,
        model: SequenceModel,
        decoding: DecodingSettings,
        *,
        check_stop: CheckStop | None = None,
    ) -> None:
        self.task = task if check_stop is None else task.with_check_stop(check_stop)
        self.model = model
        self.decoding = decoding
        self._inspected = inspected_model(self.task, model, decoding)

    def views(self) -> tuple[str, ...]:
        """Return the names of the methods that this model can answer."""
        return tuple(view for view in VIEWS if self.why_not(view) is None)

    def why_not(self, view: str) -> str | None:
        """Return why a view makes no sense for this model; None if it does.

        Raises ``UsageError`` for what is no view of any model.
        """
        if view not in VIEWS:
            raise UsageError(f"{view!r} is not a view; views are {', '.join(VIEWS)}")
        return self._inspected.why_not(view)

    def pair(
        self, text: str, target: str | None = None, *, prefix: str = "", **search: Any
    ) -> TokenPair:
        """Return the tokens of a text and its output, as the model reads them.

        Raises ``DataError`` for a blank text, ``UsageError`` for a target where the
        output is no text.
        """
        require_text(text, "the text")
        check_text(prefix, "the prefix")
        if target is not None:
            check_text(target, "the target")
        return self._inspected.pair(text, target, prefix, search)

    def attention(
        self,
        text: str,
        target: str | None = None,
        *,
        prefix: str = "",
        heads: Head | str | Collection[Head | str] | None = None,
        norms: bool = False,
        rollout: bool = False,
    ) -> Attention:
        """Return the attention weights; see :func:`attention_of`.

        Heads may be given by their names, such as ``cross.1.3``.
        """
        self._inspected.require("attention")
        chosen = None if heads is None else as_heads(heads)
        pair = self.pair(text, target, prefix=prefix)
        return self._inspected.attention(
            pair, heads=chosen, norms=norms, rollout=rollout
        )

    def output(
        self,
        text: str,
        target: str | None = None,
        *,
        prefix: str = "",
        count: int = 5,
    ) -> Output:
        """Return the probability of each part of the output, and ``count`` others.

        A part is a token, a label, a tag or a masked word.
        """
        self._inspected.require("output")
        check_index(count, "count")
        return self._inspected.output(self.pair(text, target, prefix=prefix), count)

    def beam(self, text: str, *, prefix: str = "", **search: Any) -> BeamTree:
        """Return what the beam search of a text did; see :func:`beam_tree`.

        ``search`` overrides decoding settings, such as ``beam=5``; the output starts
        with ``prefix``.
        """
        self._inspected.require("beam")
        require_text(text, "the text")
        check_text(prefix, "the prefix")
        return self._inspected.beam(text, prefix, search)

    def word(
        self,
        text: str,
        head: Head | str,
        position: int,
        target: str | None = None,
        *,
        prefix: str = "",
    ) -> WordSteps:
        """Return every step of a head at one position; see :func:`word_steps`."""
        self._inspected.require("word")
        head = as_head(head)
        check_index(position, "the position")
        pair = self.pair(text, target, prefix=prefix)
        return word_steps(self.model, pair, head, position)

    def attribution(
        self,
        text: str,
        target: str | None = None,
        *,
        prefix: str = "",
        positions: Sequence[int] | None = None,
    ) -> Attribution:
        """Return what each part of the output owes to each token of the input."""
        self._inspected.require("attribution")
        if positions is not None:
            check_indices(positions, "positions")
        pair = self.pair(text, target, prefix=prefix)
        return attribution_of(
            self._inspected.attributed(pair),
            positions=positions,
            check_stop=self.task.check_stop,
        )

    def lens(
        self,
        text: str,
        target: str | None = None,
        *,
        prefix: str = "",
        count: int = 3,
    ) -> LogitLens:
        """Return what each layer of the decoder would say."""
        self._inspected.require("lens")
        check_index(count, "count")
        return self._inspected.lens(self.pair(text, target, prefix=prefix), count)

    def patch(self, text: str, donor: str, target: str, other: str) -> Patching:
        """Return which activations carry the difference between two texts.

        ``target`` and ``other`` are two translations, or beginnings of them, that are
        the same up to one word: their first tokens that differ are the answers.
        """
        self._inspected.require("patch")
        return self._inspected.patch(text, donor, target, other)

    def statistics(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> list[HeadStatistics]:
        """Return what each head attends to over lines and their translations."""
        self._translation("statistics of heads")
        inspected = cast(InspectedTranslator, self._inspected)
        pairs = inspected.token_pairs(*checked_sides(sources, targets))
        return head_statistics(inspected.model, pairs)

    def rank_heads(
        self,
        sources: Sequence[str],
        references: Sequence[str],
        *,
        on_head: Callable[[Head], None] = lambda head: None,
    ) -> HeadRanking:
        """Rank the heads by what references lose without them: :func:`rank_heads`.

        References are translations, trees, captions or labels.
        """
        found = self.references(sources, references)
        return rank_heads(self.model, found, on_head=on_head)

    def references(
        self, sources: Sequence[str], references: Sequence[str]
    ) -> References:
        """Return the right outputs of inputs, as rankings read them.

        Raises ``UsageError`` unless there are as many of both, and for a task whose
        outputs have no probability.
        """
        return self._inspected.references(*checked_sides(sources, references))

    def bleu_without(
        self,
        heads: Head | str | Sequence[Head | str],
        sources: Sequence[str],
        references: Sequence[str],
        **search: Any,
    ) -> float:
        """Return the BLEU of translations by the model without ``heads``."""
        translation = self._translation("BLEU")
        sources, references = checked_sides(sources, references)
        model = cast(EncoderDecoder, self.model)
        settings = self._inspected.settings({**search, "num_best": 1})
        with heads_zeroed(self.model, as_heads(heads)):
            outputs = translation.predict(model, sources, settings)
        return translation.measure("bleu", outputs, references).value

    @contextmanager
    def intervene(self, *changes: Intervention) -> Iterator[None]:
        """Change the model for a while; everything here then looks at the change."""
        with intervene(self.model, *changes):
            yield

    def compare(
        self, text: str, *changes: Intervention, prefix: str = "", **search: Any
    ) -> Comparison:
        """Return the output with and without ``changes``; ``search`` may be any search.

        With ``prefix`` the output after them starts with it: a forced next word.
        """
        self._inspected.require("compare")
        require_text(text, "the text")
        check_text(prefix, "the prefix")
        if not changes and not prefix:
            raise UsageError("there is nothing to compare; give a change or a prefix")
        before = self._inspected.answers(text, "", search)
        with self.intervene(*changes):
            after = self._inspected.answers(text, prefix, search)
            changed = self._inspected.log_probability(text, before[0])
        names = [str(each) for each in changes]
        if prefix:
            names.append(f"output starts with {prefix!r}")
        return Comparison(
            text,
            tuple(names),
            tuple(each.output for each in before),
            tuple(each.output for each in after),
            changed,
        )

    def _translation(self, what: str) -> Translation:
        """Return the task if it is translation; raise ``UsageError`` for others."""
        if self.task.name != Translation.name:
            raise UsageError(
                f"{what} is of models of translation, not of {self.task.name}"
            )
        return cast(Translation, self.task)

"""Every way to look into a model, under its name, for all who ask: commands, pages.

Nothing here needs torch until something is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwise.errors import UsageError
from headwise.model.config_checks import RECURRENT

if TYPE_CHECKING:
    from headwise.inspection.inspector import Inspector
    from headwise.inspection.places import Head


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for; each view reads what it needs."""

    text: str
    target: str | None = None
    donor: str | None = None
    other: str | None = None
    prefix: str = ""
    heads: Sequence[Head] = ()
    position: int | None = None
    count: int = 5
    changes: Sequence[Any] = ()
    search: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """One way to look into a model."""

    summary: str
    compute: Callable[[Inspector, Request], Any]
    options: frozenset[str] = frozenset()
    """What has an effect besides the text."""

    suits: Callable[[Inspector], bool] | None = None
    """Whether a model can be looked at like this; None: ``Inspector.why_not`` knows."""


def look(inspector: Inspector, name: str, request: Request) -> Any:
    """Return what the view ``name`` finds, in the model with the changes asked for.

    Raises ``UsageError`` and ``DataError`` for what cannot be looked at.
    """
    view = VIEWS[name]
    if name == "compare":  # it looks at the model with and without them
        return view.compute(inspector, request)
    with inspector.intervene(*request.changes):
        return view.compute(inspector, request)


def views_of(inspector: Inspector) -> list[str]:
    """Return the names of the views that suit a model."""
    return [
        name
        for name, view in VIEWS.items()
        if (
            view.suits(inspector)
            if view.suits is not None
            else inspector.why_not(name) is None
        )
    ]


def _reads_text(inspector: Inspector) -> bool:
    from headwise.model.captioner import Captioner
    from headwise.model.decoder_only import DecoderOnly
    from headwise.model.encoder_decoder import EncoderDecoder
    from headwise.model.encoder_only import EncoderOnly

    return any(
        isinstance(each, EncoderDecoder | EncoderOnly | DecoderOnly)
        and not isinstance(each, Captioner)
        for each in inspector.model.modules()
    )


def _encodes_positions(inspector: Inspector) -> bool:
    from headwise.inspection.places import config_of

    if not _reads_text(inspector):
        return False
    return config_of(inspector.model).kind not in RECURRENT


def _attention(inspector: Inspector, request: Request) -> Any:
    return inspector.attention(
        request.text,
        request.target,
        prefix=request.prefix,
        heads=request.heads or None,
        norms=True,
        rollout=not request.heads,
    )


def _output(inspector: Inspector, request: Request) -> Any:
    return inspector.output(
        request.text, request.target, prefix=request.prefix, count=request.count
    )


def _beam(inspector: Inspector, request: Request) -> Any:
    return inspector.beam(request.text, prefix=request.prefix, **request.search)


def _word(inspector: Inspector, request: Request) -> Any:
    if len(request.heads) != 1 or request.position is None:
        raise UsageError(
            "word needs one head and one position, such as --head encoder.0.1 "
            "--position 2; positions are counted from 0"
        )
    return inspector.word(
        request.text,
        request.heads[0],
        request.position,
        request.target,
        prefix=request.prefix,
    )


def _attribution(inspector: Inspector, request: Request) -> Any:
    positions = None if request.position is None else [request.position]
    return inspector.attribution(
        request.text, request.target, prefix=request.prefix, positions=positions
    )


def _lens(inspector: Inspector, request: Request) -> Any:
    return inspector.lens(
        request.text, request.target, prefix=request.prefix, count=request.count
    )


def _patch(inspector: Inspector, request: Request) -> Any:
    if request.donor is None or request.target is None or request.other is None:
        raise UsageError(
            "patch needs --donor TEXT, a sentence of the same length, and "
            "--target and --other: two outputs that are the same up to one word"
        )
    return inspector.patch(request.text, request.donor, request.target, request.other)


def _compare(inspector: Inspector, request: Request) -> Any:
    if not request.changes and not request.prefix:
        raise UsageError(
            "compare needs a change: --off NAME, --no-residual NAME or --prefix TEXT"
        )
    return inspector.compare(
        request.text, *request.changes, prefix=request.prefix, **request.search
    )


def _positions(inspector: Inspector, request: Request) -> Any:
    from headwise.inspection.positions import positions_of

    pair = inspector.pair(request.text, request.target, prefix=request.prefix)
    return positions_of(inspector.model, pair)


def _embeddings(inspector: Inspector, request: Request) -> Any:
    from headwise.inspection.embeddings import embeddings_of

    pair = inspector.pair(request.text, request.target, prefix=request.prefix)
    tokenizers = inspector.task.tokenizers
    return embeddings_of(inspector.model, pair, tokenizers, count=request.count)


VIEWS: dict[str, View] = {
    "output": View(
        "the probability of each output token, label or tag, and alternatives",
        _output,
        frozenset({"target", "prefix", "count"}),
    ),
    "attention": View(
        "the weights of each head, norms and attention rollout",
        _attention,
        frozenset({"target", "prefix", "head"}),
    ),
    "attribution": View(
        "what each part of the output owes to each token of the input",
        _attribution,
        frozenset({"target", "prefix", "position"}),
    ),
    "beam": View(
        "the beam search as a tree",
        _beam,
        frozenset({"prefix", "search"}),
    ),
    "word": View(
        "one word through one head, step by step",
        _word,
        frozenset({"target", "prefix", "head", "position"}),
    ),
    "lens": View(
        "what each layer of the decoder would say",
        _lens,
        frozenset({"target", "prefix", "count"}),
    ),
    "patch": View(
        "which heads carry the difference between two sentences",
        _patch,
        frozenset({"target", "donor", "other"}),
    ),
    "compare": View(
        "the output before and after a change",
        _compare,
        frozenset({"prefix", "search"}),
    ),
    "positions": View(
        "the positional encodings beside binary numbers, and their wavelengths",
        _positions,
        frozenset({"target", "prefix"}),
        _encodes_positions,
    ),
    "embeddings": View(
        "the nearest pieces of the vocabulary, and a map of both",
        _embeddings,
        frozenset({"target", "prefix", "count"}),
        _reads_text,
    ),
}

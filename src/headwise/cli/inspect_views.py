"""What ``headwise inspect`` can show, each under its name; torch is imported late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwise.errors import UsageError

if TYPE_CHECKING:
    from headwise.inspection.inspector import Inspector
    from headwise.inspection.places import Head
    from headwise.reports.drawing import Drawing


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of ``headwise inspect`` that views read."""

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
    text: str
    """Name of the function in ``reports.inspection_text``."""

    drawing: str = ""
    """Name of the function in ``reports.inspection_drawings``; empty: JSON only."""

    options: frozenset[str] = frozenset()
    """Options besides TEXT that have an effect."""


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
            "--show word needs one head and one position, such as --head encoder.0.1 "
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
            "--show patch needs --donor TEXT, a sentence of the same length, and "
            "--target and --other: two outputs that are the same up to one word"
        )
    return inspector.patch(request.text, request.donor, request.target, request.other)


def _compare(inspector: Inspector, request: Request) -> Any:
    if not request.changes and not request.prefix:
        raise UsageError(
            "--show compare needs a change: --off NAME, --no-residual NAME or --prefix "
            "TEXT"
        )
    return inspector.compare(
        request.text, *request.changes, prefix=request.prefix, **request.search
    )


VIEWS: dict[str, View] = {
    "output": View(
        "the probability of each output token, label or tag, and alternatives",
        _output,
        "output_text",
        "draw_output",
        frozenset({"target", "prefix", "count"}),
    ),
    "attention": View(
        "the weights of each head, norms and attention rollout",
        _attention,
        "attention_text",
        "draw_attention",
        frozenset({"target", "prefix", "head"}),
    ),
    "attribution": View(
        "what each part of the output owes to each token of the input",
        _attribution,
        "attribution_text",
        "draw_attribution",
        frozenset({"target", "prefix", "position"}),
    ),
    "beam": View(
        "the beam search as a tree",
        _beam,
        "beam_text",
        "draw_beam",
        frozenset({"prefix", "search"}),
    ),
    "word": View(
        "one word through one head, step by step",
        _word,
        "word_text",
        "draw_word",
        frozenset({"target", "prefix", "head", "position"}),
    ),
    "lens": View(
        "what each layer of the decoder would say",
        _lens,
        "lens_text",
        "draw_lens",
        frozenset({"target", "prefix", "count"}),
    ),
    "patch": View(
        "which heads carry the difference between two sentences",
        _patch,
        "patch_text",
        "draw_patching",
        frozenset({"target", "donor", "other"}),
    ),
    "compare": View(
        "the output before and after a change",
        _compare,
        "comparison_text",
        options=frozenset({"prefix", "search"}),
    ),
}


def text_of(view: View, found: Any) -> list[str]:
    """Return a result as lines for a terminal."""
    from headwise.reports import inspection_text

    lines: list[str] = getattr(inspection_text, view.text)(found)
    return lines


def drawing_of(view: View, found: Any) -> Drawing:
    """Return a result as a drawing."""
    from headwise.reports import inspection_drawings

    drawing: Drawing = getattr(inspection_drawings, view.drawing)(found)
    return drawing

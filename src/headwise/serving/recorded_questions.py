"""What a page is saved with that Python writes: each view that has what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headwise.errors import HeadwiseError, UsageError
from headwise.serving.inspected_model import InspectedModel
from headwise.serving.snapshot import (
    MAX_BYTES,
    Question,
    check_size,
    page_with,
    recorded,
)
from headwise.tasks.translation.thread_pool import CheckStop

COUNTS = {"output": 6, "lens": 5, "embeddings": 5}
"""View -> alternatives or neighbours of each token that the page asks for."""


NORMS_BYTES = 4_000_000
"""Most bytes of attention that is saved with its norms, which double it."""

NEEDED = ("output", "attention")
"""Views without which there is no page."""


def record_page(
    model: InspectedModel,
    table: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    check_stop: CheckStop = lambda: None,
    on_left_out: Callable[[str, Exception], None] = lambda view, error: None,
    max_bytes: int = MAX_BYTES,
) -> str:
    """Return the page about ``table``, the body of a request, open at ``state``.

    Views that cannot be computed, or would make the page too large, are left out, and
    ``on_left_out`` is called. Raises what output and attention raise, or
    ``ResourceError`` if these two alone are too large.
    """
    answers: list[str] = []
    size = 0
    for each in questions_of(model, table):
        try:
            answer = _recorded(model, each, check_stop)
            check_size(size + len(answer.encode("utf-8")), max_bytes)
        except HeadwiseError as error:
            if each.view in NEEDED:
                raise
            on_left_out(each.view, error)
            continue
        answers.append(answer)
        size += len(answer.encode("utf-8"))
    return page_with(model, answers, state)


def questions_of(model: InspectedModel, table: Mapping[str, Any]) -> list[Question]:
    """Return what is asked about ``table``, in the words of the page.

    Text, target, prefix and changes are of all views, donor and other of ``patch``,
    heads and position of ``word``; heads of ``attention`` too. Raises ``UsageError``
    for a model without views.
    """
    if not model.views:
        raise UsageError(
            f"a model of {model.inspector.task.name} cannot be looked at: it reads no "
            "text, or has no attention"
        )
    shared = ("text", "target", "prefix", "changes")
    base = {name: table[name] for name in shared if table.get(name)}
    found = []
    for view in sorted(model.views, key=lambda view: view not in NEEDED):
        body = {**base, **({"count": COUNTS[view]} if view in COUNTS else {})}
        if view == "attention" and table.get("heads"):
            body["heads"] = table["heads"]
        elif view == "compare":
            if not base.get("changes") and not base.get("prefix"):
                continue
            body.pop("target", None)
        elif view == "word":
            body["heads"] = [*table.get("heads", []), *model.heads][:1]
            body["position"] = table.get("position") or 0
        elif view == "patch":
            names = ("text", "target", "donor", "other")
            if not all(table.get(name) for name in names):
                continue
            body = {name: table[name] for name in names}
            body |= {"changes": base.get("changes", [])}
        found.append(Question(view, body))
    return found


def _recorded(model: InspectedModel, question: Question, check_stop: CheckStop) -> str:
    """Return an answer; attention has norms unless that is large."""
    if question.view != "attention":
        return recorded(model, question, check_stop)
    with_norms = Question("attention", {**question.table, "norms": True})
    answer = recorded(model, with_norms, check_stop)
    if len(answer) <= NORMS_BYTES:
        return answer
    return recorded(model, question, check_stop)

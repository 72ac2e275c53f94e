"""Drawings of predicted trees: ``headwise predict --draw``."""

from __future__ import annotations

from collections.abc import Callable

from headwise.errors import UsageError
from headwise.reports.tree_drawing import tree_svg, tree_text
from headwise.text.trees import Tree, parse_tree


def check_drawing(drawing: str | None, *, task: str, as_json: bool) -> None:
    """Raise ``UsageError`` for a drawing that there is not, or cannot be made."""
    if drawing is None:
        return
    if drawing not in DRAWINGS:
        raise UsageError(
            f"--draw must be one of {', '.join(DRAWINGS)}, not {drawing!r}"
        )
    if task != "parsing":
        raise UsageError(
            f"--draw is for trees, and this is a model of {task}; leave it out"
        )
    if as_json:
        raise UsageError("--draw and --json are two forms of an output; give one")


def draw(tree: str, drawing: str) -> str:
    """Draw a tree in brackets; empty for a blank line."""
    return DRAWINGS[drawing](parse_tree(tree)) if tree.strip() else ""


def _text(tree: Tree) -> str:
    return f"{tree_text(tree)}\n"


def _svg(tree: Tree) -> str:
    return " ".join(tree_svg(tree).split("\n"))


DRAWINGS: dict[str, Callable[[Tree], str]] = {"text": _text, "svg": _svg}
"""text: several lines and a blank one after them; svg: one line."""

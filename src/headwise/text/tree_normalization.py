"""Normalization of treebank trees: what parsers are trained on and scored by."""

from __future__ import annotations

import re

from headwise.text.trees import Tree, without_outer

TRACE = "-NONE-"
"""Tag of a trace: an empty category, which is no word of the sentence."""

ROOTS = ("", "TOP", "ROOT", "S1")
"""Labels that treebanks and parsers put around a whole sentence."""

_SYNTACTIC_LABEL = re.compile(r"[^-=]+")


def normalize_tree(
    tree: Tree,
    *,
    remove_traces: bool = True,
    strip_function_tags: bool = True,
    remove_root: bool = True,
) -> Tree | None:
    """Return ``tree`` without what parsers do not predict; None if nothing is left.

    remove_traces
        Leave out words with the tag ``-NONE-``, and phrases that become empty.
    strip_function_tags
        Cut labels before the first ``-`` or ``=``, as in ``NP-SBJ-1`` and ``NP=2``.
        A label that begins with one, as ``-LRB-``, stays as it is.
    remove_root
        Leave out an outermost ``TOP``, ``ROOT`` or ``S1`` around one phrase.

    Nothing else changes; chains of unary brackets stay.
    """
    levels: list[list[Tree]] = [[]]  # finished children of each open phrase
    for event, node in tree.walk():
        label = syntactic_label(node.label) if strip_function_tags else node.label
        if event == "open":
            levels.append([])
        elif event == "close":
            if children := levels.pop():
                levels[-1].append(Tree(label, tuple(children)))
        elif not (remove_traces and node.label == TRACE):
            levels[-1].append(Tree(label, node.word))
    if not levels[0]:
        return None
    (normal,) = levels[0]
    return without_outer(normal, ROOTS) if remove_root else normal


def syntactic_label(label: str) -> str:
    """Return ``label`` without function tags and indices: NP for NP-SBJ-1."""
    match = _SYNTACTIC_LABEL.match(label)
    return match[0] if match else label

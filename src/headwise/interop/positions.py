"""How many positions an export has, where a program keeps a table of them."""

from __future__ import annotations

from headwise.run_folder.model_folder import ModelFolder

LEAST_POSITIONS = 1024
"""Positions that are written out at least where positions are a formula."""


def num_positions(opened: ModelFolder) -> int:
    """Return how many positions a text may have in the export, END among them."""
    config, facts = opened.config, opened.facts
    if config.positions == "learned":
        return config.max_positions
    longest = max(facts.longest_source, facts.longest_target)
    return max(LEAST_POSITIONS, opened.decoding.max_length(longest) + 1)

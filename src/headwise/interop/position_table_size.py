"""Number of positions in an export, for programs that store a table of them."""

from __future__ import annotations

from headwise.run_folder.model_folder import ModelFolder

MIN_POSITIONS = 1024
"""Fewest positions stored for sinusoidal encodings."""


def num_positions(opened: ModelFolder) -> int:
    """Return the number of positions of an export, end of sentence included."""
    config, facts = opened.config, opened.facts
    if config.positions == "learned":
        return config.max_positions
    longest = max(facts.longest_source, facts.longest_target)
    return max(MIN_POSITIONS, opened.decoding.max_length(longest) + 1)

"""The views of an inspection as lines for a terminal, and as drawings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwise.reports.drawing import Drawing
from headwise.reports.input_drawings import draw_embeddings, draw_positions
from headwise.reports.input_text import embeddings_text, positions_text
from headwise.reports.inspection_drawings import (
    draw_attention,
    draw_attribution,
    draw_beam,
    draw_lens,
    draw_output,
    draw_patching,
    draw_word,
)
from headwise.reports.inspection_text import (
    attention_text,
    attribution_text,
    beam_text,
    comparison_text,
    lens_text,
    output_text,
    patch_text,
    word_text,
)

TEXTS: dict[str, Callable[[Any], list[str]]] = {
    "output": output_text,
    "attention": attention_text,
    "attribution": attribution_text,
    "beam": beam_text,
    "word": word_text,
    "lens": lens_text,
    "patch": patch_text,
    "compare": comparison_text,
    "positions": positions_text,
    "embeddings": embeddings_text,
}
"""View -> its result as lines for a terminal."""

DRAWINGS: dict[str, Callable[[Any], Drawing]] = {
    "output": draw_output,
    "attention": draw_attention,
    "attribution": draw_attribution,
    "beam": draw_beam,
    "word": draw_word,
    "lens": draw_lens,
    "patch": draw_patching,
    "positions": draw_positions,
    "embeddings": draw_embeddings,
}
"""View -> its result as a drawing; the others have none."""

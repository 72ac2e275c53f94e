"""Every source file can be read in one sitting."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    file for kind in ("*.py", "*.c", "*.h") for file in (ROOT / "src").rglob(kind)
)
AT_MOST = 400


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_file_is_short_enough_to_read(file):
    lines = len(file.read_text(encoding="utf-8").splitlines())
    assert lines <= AT_MOST, f"{lines} lines: does it answer more than one question?"


SETTINGS_OF_THE_PAPER = {"config.py", "config_checks.py", "presets.py"}
ONE_STACK = {"encoder_only.py", "decoder_only.py", "heads.py"}
OF_PICTURES = {"captioner.py", "patches.py", "picture_encoder.py"}
BEYOND_THE_PAPER = {"rotary_positions.py", "deep_norm.py"} | OF_PICTURES
AROUND_THE_MODEL = {"attention_hooks.py", "activation_checkpointing.py"}
BEFORE_THE_PAPER = {"source_attention.py", "stateful_decoding.py"}
OTHER_MODELS = {"sequence_model.py"} | ONE_STACK | BEYOND_THE_PAPER | BEFORE_THE_PAPER
LIST_OF_MODELS = {"__init__.py", "kinds.py"}
NOT_COUNTED = SETTINGS_OF_THE_PAPER | OTHER_MODELS | LIST_OF_MODELS | AROUND_THE_MODEL
"""Variants are in a folder of their own, which is not counted either."""

PAPER_AT_MOST = 900


def test_the_model_is_at_most_900_lines_that_are_not_blank():
    """The paper in code, docstrings included: one can read all of it in an hour."""
    lines = {
        file.name: sum(map(bool, file.read_text(encoding="utf-8").split("\n")))
        for file in (ROOT / "src" / "headwise" / "model").glob("*.py")
        if file.name not in NOT_COUNTED
    }
    assert sum(lines.values()) <= PAPER_AT_MOST, lines

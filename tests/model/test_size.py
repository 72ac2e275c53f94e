"""The files of the paper's path through the code stay short."""

import ast
from pathlib import Path

import headwise.model

LAYERS = "attention feed_forward add_and_norm positions embeddings masks"
CORE = f"{LAYERS} encoder decoder transformer".split()
"""What a reader of Figure 1 passes; settings, memory and dropout stand beside."""

MOST_LINES = 420


def code_lines(path):
    """Count lines of code: no imports, docstrings, comments or empty lines."""
    text = path.read_text(encoding="utf-8")
    left_out = set()
    for node in ast.walk(ast.parse(text)):
        told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if told or isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, node.end_lineno + 1))
    return sum(
        bool(line.strip())
        and not line.strip().startswith("#")
        and number not in left_out
        for number, line in enumerate(text.splitlines(), start=1)
    )


def test_the_core_path_has_about_400_lines_of_code():
    folder = Path(headwise.model.__file__).parent

    lines = {name: code_lines(folder / f"{name}.py") for name in CORE}

    assert sum(lines.values()) <= MOST_LINES, lines


def test_every_file_of_the_model_can_be_read_in_one_sitting():
    for path in Path(headwise.model.__file__).parent.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 250, path.name

"""docs/paper.md and docs/references.md point at code and tests that exist.

The numbers that they print are so.
"""

import ast
import re
from pathlib import Path

import pytest
import torch

from headwise.decoding.settings import PRESETS as SEARCHES
from headwise.model import PRESETS
from headwise.model.transformer import Transformer

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")

REFERENCES = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")


def files_in(page):
    """Return the files, and the tests in them, that a page names."""
    quoted = sorted(set(re.findall(r"`([^`\n]+)`", page)))
    return [each for each in quoted if re.search(r"\w\.(py|md|toml)$|\.py::", each)]


FILES = files_in(PAGE)
ROWS = re.findall(r"^\| [^|]* \| `([\w-]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE, re.M)


@pytest.mark.parametrize("quoted", sorted({*FILES, *files_in(REFERENCES)}))
def test_what_the_page_points_at_exists(quoted):
    path, _, name = quoted.partition("::")

    found = [
        folder / path
        for folder in (ROOT, ROOT / "src" / "headwise")
        if (folder / path).is_file()
    ]

    assert found, f"{path} is named on a page but is not in the repository"
    if name:
        tree = ast.parse(found[0].read_text(encoding="utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def test_the_page_names_files_and_tests():
    assert len([path for path in FILES if path.startswith("tests/")]) > 40
    assert len([path for path in FILES if not path.startswith("tests/")]) > 20


def test_every_row_of_table_3_is_on_the_page():
    of_the_paper = {
        name for name, p in PRESETS.items() if p.about.startswith("Table 3")
    }

    assert {name for name, _, _ in ROWS} == of_the_paper


@pytest.mark.parametrize(("name", "printed", "ours"), ROWS)
def test_the_sizes_on_the_page_are_so(name, printed, ours):
    with torch.device("meta"):
        model = Transformer(PRESETS[name].config, 37_000)
    count = sum(weight.numel() for weight in model.parameters())

    assert ours.strip() == f"{count / 1e6:.1f}"
    assert printed.strip() == str(PRESETS[name].published_millions or "")


def test_the_search_that_the_page_calls_the_papers_exists():
    assert "paper" in SEARCHES

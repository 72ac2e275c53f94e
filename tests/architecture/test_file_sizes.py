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

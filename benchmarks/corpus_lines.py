"""Read the files of corpora, which may be packed."""

from __future__ import annotations

import gzip
from pathlib import Path


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of ``path``, or of ``path.gz`` in its place; they end at \n."""
    if path.is_file():
        content = path.read_bytes()
    else:
        content = gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())
    return content.decode("utf-8").removesuffix("\n").split("\n")

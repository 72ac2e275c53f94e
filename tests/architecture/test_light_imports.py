"""What answers at once stays light: no torch, no numpy before they are needed."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "headwise"

PROBE = """
import sys
{code}
print(*sorted({{"torch", "numpy"}} & sys.modules.keys()))
"""

HELP = """
from headwise.__main__ import main
sys.argv = ["headwise", "--help"]
try:
    main()
except SystemExit:
    pass
"""


def heavy_after(code: str) -> str:
    """Run ``code`` in a fresh Python; return which heavy libraries it brought in."""
    probe = [sys.executable, "-c", PROBE.format(code=code)]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()[-1]


def modules(pattern: str) -> list[str]:
    return [
        ".".join(["headwise", *file.relative_to(PACKAGE).with_suffix("").parts])
        for file in sorted(PACKAGE.glob(pattern))
        if file.stem not in ("__init__", "__main__")
    ]


LIGHT = {
    "the package": ["headwise"],
    "the base": [
        f"headwise.{name}" for name in ("errors", "settings", "storage", "subprocesses")
    ],
    "text": modules("text/**/*.py"),
    "settings": [
        *modules("**/settings.py"),
        "headwise.model.config",
        "headwise.inference.engines.engine_names",
    ],
    "the recipe": ["headwise.recipe"],
    "the command line": ["headwise.__main__", *modules("cli/**/*.py")],
}


@pytest.mark.parametrize("what", LIGHT)
def test_importing_it_brings_in_neither_torch_nor_numpy(what):
    assert heavy_after("\n".join(f"import {name}" for name in LIGHT[what])) == ""


def test_help_brings_in_neither_torch_nor_numpy():
    assert heavy_after(HELP) == ""


def test_the_probe_sees_what_is_heavy():
    assert heavy_after("import numpy") == "numpy"

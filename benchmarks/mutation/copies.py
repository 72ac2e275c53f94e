"""A copy of the repository to put faults into, and what is kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COSMIC_RAY = "cosmic-ray==8.7.0"


def cache_folder() -> Path:
    """Return where environments and notes are kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folder = root / "headwise" / "mutation"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_copy(folder: Path) -> Path:
    """Copy every file that git knows or would add into an empty ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def generator() -> list[str]:
    """Return the command of ``generate``, in an environment with cosmic-ray."""
    folder = cache_folder() / COSMIC_RAY.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", COSMIC_RAY], check=True
        )
        (folder / "ready").touch()
    return [str(python), str(Path(__file__).with_name("generate.py"))]

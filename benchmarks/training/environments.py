"""A virtual environment for each rival, made once from the package registry.

torch is named exactly and comes first, so that nothing may bring another one. What a
package demands beyond what its training step imports is left out (``BARE``): some pins
forbid this torch or this Python, and none of it takes part in a training step.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Environment:
    """What is installed: with what it demands, and bare, without."""

    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the packages that matter for speed."""
        pinned = [each for each in (*self.packages, *self.bare) if "==" in each]
        return [each.partition("==")[0] for each in (TORCH, *pinned)]


NUMPY = "numpy==2.4.6"
ENVIRONMENTS = {
    "plain": Environment((NUMPY,)),
    "marian": Environment((NUMPY, "transformers==5.23.0")),
    "opennmt-py": Environment(
        (
            *("numpy==1.26.4", "pyonmttok==1.38.1", "configargparse", "pyyaml"),
            *("sacrebleu", "rapidfuzz", "six", "tensorboard", "setuptools"),
        ),
        bare=("OpenNMT-py==3.0.4",),
    ),
    "joeynmt": Environment(
        (
            *(NUMPY, "pyyaml", "tensorboard", "sacrebleu", "sacremoses", "matplotlib"),
            *("sentencepiece", "subword-nmt", "packaging", "importlib_metadata"),
            "tokenizers",
        ),
        bare=("joeynmt==2.3.0",),
    ),
    "eole": Environment(
        (
            *(NUMPY, "pyonmttok==1.38.1", "pydantic", "configargparse", "pyyaml"),
            *("safetensors", "sacrebleu", "rapidfuzz", "tensorboard", "rich"),
            *("sentencepiece", "huggingface-hub", "pyahocorasick", "pandas"),
            "tokenizers",
        ),
        bare=("eole==0.6.0",),
    ),
}
"""Rivals, and what each needs."""


class InstallationError(Exception):
    """An environment could not be made; the text is what pip said last."""


def made(name: str, work: Path) -> Path:
    """Return the python of a rival's environment, made if it is not there."""
    wanted = ENVIRONMENTS[name]
    folder = work / "environments" / name
    python = folder / "bin" / "python"
    receipt = folder / "installed.json"
    what = {"packages": [TORCH, *wanted.packages], "bare": list(wanted.bare)}
    if receipt.is_file() and json.loads(receipt.read_text("utf-8")) == what:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"making an environment for {name}: {what}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pin = folder / "constraints.txt"
    pin.write_text(TORCH + "\n", encoding="utf-8")
    pip(python, "install", TORCH)
    if wanted.packages:
        pip(python, "install", "--constraint", str(pin), *wanted.packages)
    if wanted.bare:
        pip(python, "install", "--no-deps", *wanted.bare)
    receipt.write_text(json.dumps(what) + "\n", encoding="utf-8")
    return python


def pip(python: Path, *words: str) -> None:
    """Run pip in an environment."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InstallationError(last_words(done.stderr))


def last_words(text: str, most: int = 600) -> str:
    """Return the end of what a process said, which is where its error is."""
    return text.strip()[-most:].partition("\n")[2] or text.strip()[-most:]


def versions(name: str, python: Path) -> dict[str, str]:
    """Ask an environment for the versions of what was named."""
    ask = (
        "import json, sys; from importlib.metadata import version; "
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    names = ENVIRONMENTS[name].names
    done = subprocess.run(
        [python, "-c", ask, *names], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def default_work() -> Path:
    """Return the cache folder of this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "headwise-benchmarks"

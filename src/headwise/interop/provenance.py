"""Where an export came from: what its manifest and its card say of that."""

from __future__ import annotations

import re
from typing import Any

from headwise import __version__, storage
from headwise.run_folder.model_folder import CARD, WEIGHTS, ModelFolder


def described(opened: ModelFolder, *, target: str, **more: Any) -> dict[str, Any]:
    """Name the target, and the weights by their SHA-256."""
    return {
        "kind": "export",
        "target": target,
        **more,
        "headwise": __version__,
        "weights_sha256": weights_sha256(opened),
    }


def weights_sha256(opened: ModelFolder) -> str:
    """Return the SHA-256 of the weights, which opening the folder has checked."""
    manifest = storage.read_manifest(opened.path)
    found: str = manifest["files"][WEIGHTS]["sha256"]
    return found


def model_name(opened: ModelFolder) -> str:
    """Return the model's name: the title of its card, or else its folder's name."""
    card = (opened.path / CARD).read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    return title[1].strip() if title else opened.path.resolve().name

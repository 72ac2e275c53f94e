"""Where an export came from: what its manifest and its card say of that."""

from __future__ import annotations

import re
from typing import Any

from headwise import __version__
from headwise.run_folder.model_folder import CARD, WEIGHTS, ModelFolder
from headwise.run_folder.paths import EXPORT
from headwise.storage.manifests import seal


def described(opened: ModelFolder, *, target: str, **more: Any) -> dict[str, Any]:
    """Name the target, and what it was made of: weights and folder by their SHA-256.

    Both are those of the files that were opened, whatever stands there by now.
    """
    return {
        "kind": EXPORT,
        "target": target,
        **more,
        "headwise": __version__,
        "weights_sha256": opened.manifest["files"][WEIGHTS]["sha256"],
        "model_manifest_sha256": seal(dict(opened.manifest)),
    }


def model_name(opened: ModelFolder) -> str:
    """Return the model's name: the title of its card, or else its folder's name."""
    card = (opened.path / CARD).read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    return title[1].strip() if title else opened.path.resolve().name

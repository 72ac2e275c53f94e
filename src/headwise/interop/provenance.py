"""The origin of an export, for its manifest and its card."""

from __future__ import annotations

import re
from typing import Any

from headwise import __version__
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import ModelFolder
from headwise.run_folder.paths import EXPORT, WEIGHTS
from headwise.storage.manifests import manifest_sha256


def export_description(
    opened: ModelFolder, *, target: str, **more: Any
) -> dict[str, Any]:
    """Return manifest entries: the target, and SHA-256 of the weights and the folder.

    Both are of the files that were opened, even if they have been replaced since.
    """
    return {
        "kind": EXPORT,
        "target": target,
        **more,
        "headwise": __version__,
        "weights_sha256": opened.manifest["files"][WEIGHTS]["sha256"],
        "model_manifest_sha256": manifest_sha256(dict(opened.manifest)),
    }


def model_name(opened: ModelFolder) -> str:
    """Return the title of the model card, or the name of its folder."""
    card = (opened.path / CARD).read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    return title[1].strip() if title else opened.path.resolve().name

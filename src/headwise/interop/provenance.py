"""What the manifest of an export says of where it came from."""

from __future__ import annotations

from typing import Any

from headwise import __version__, storage
from headwise.run_folder.model_folder import WEIGHTS, ModelFolder


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

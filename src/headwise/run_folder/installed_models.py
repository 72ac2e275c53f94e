"""Models that installed packages provide; nothing here needs torch.

A package declares an entry point for each, ``en-fr = "its_package"`` in the group
``headwise.models``: the model folder ``en-fr`` inside of that package. No code of the
package runs.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from headwise.errors import UsageError
from headwise.run_folder.card_fields import card_fields

GROUP = "headwise.models"
CARD = "README.md"


def installed_models() -> dict[str, Path]:
    """Return the folders of installed models by name, in alphabetical order.

    Those whose package does not have them are left out.
    """
    found: dict[str, Path] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if not entry.value.isidentifier():
            continue  # to find a module inside of a package, its code would run
        spec = find_spec(entry.value)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (folder := Path(place) / entry.name).is_dir():
                found.setdefault(entry.name, folder)
    return found


def find_installed(name: Path) -> Path | None:
    """Return the installed model of this name; None if there is none, or a folder."""
    return None if name.exists() else installed_models().get(str(name))


def installed_translator(target: str, source: str | None = None) -> Path:
    """Return the installed model that translates into ``target``.

    Languages are those of its card. Raises ``UsageError`` if there is none, or several
    and ``source`` does not tell which.
    """
    target, source = target.lower(), source and source.lower()
    pairs: dict[tuple[str, ...], Path] = {}
    for folder in installed_models().values():
        with suppress(OSError):
            card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
            languages = tuple(map(str.lower, card_fields(card).languages))
            pairs.setdefault(languages, folder)
    translated = [each for each in pairs if len(each) == 2]
    found = [
        each for each in translated if each[1] == target and source in (None, each[0])
    ]
    if not translated:
        raise UsageError(
            "no model is installed that says its languages; name a model folder in "
            "place of --to, or install a package of models"
        )
    if not found:
        known = ", ".join(" to ".join(each) for each in sorted(translated))
        wanted = f"{source} to {target}" if source else f"into {target}"
        raise UsageError(f"no installed model translates {wanted}; there are: {known}")
    if len(found) > 1:
        sources = ", ".join(sorted(each[0] for each in found))
        raise UsageError(
            f"several installed models translate into {target}; say from which "
            f"language, by --from: {sources}"
        )
    return pairs[found[0]]

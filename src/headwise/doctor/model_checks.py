"""Checks of a model folder: files, weights, tokenizers, translations, card, exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from headwise.backends.reference import why_reference_only
from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Check
from headwise.doctor.export_checks import check_exports
from headwise.doctor.file_checks import check_files
from headwise.doctor.golden_translation_checks import check_golden_translations
from headwise.errors import HeadwiseError
from headwise.run_folder.card_edit import edit_command, missing_fields
from headwise.run_folder.installed_models import CARD
from headwise.run_folder.model_folder import ModelFolder, open_model_folder
from headwise.storage import MANIFEST
from headwise.wording import count_of

NOT_USED = "not checked: a model is used only if all of its files are intact"


def check_model(path: Path) -> Iterator[Check]:
    """Check a model folder and the exports in it."""
    before = _manifest(path)
    checks, opened = _opened(path)
    if opened is None and _manifest(path) != before:
        # A run replaced the folder meanwhile: files of two models, none damaged.
        checks, opened = _opened(path)
    yield from checks
    if opened is None:
        yield Check("all other checks", SKIPPED, NOT_USED)
        return
    if reason := why_reference_only(opened.model):
        advice = "outputs are right, and take longer than those of fast backends"
        yield Check("backend", NOTE, reason, advice)
    yield _tokenizers(opened)
    yield from check_golden_translations(opened)
    yield _card(opened)
    yield from check_exports(opened)


def _card(opened: ModelFolder) -> Check:
    """Check that the card names languages and licence."""
    card = (opened.path / CARD).read_text(encoding="utf-8")
    unknown = missing_fields(card, opened.task_name)
    if not unknown:
        return Check("card", OK, "it names languages and licence")
    found = f"it names no {' and no '.join(unknown)}"
    return Check(
        "card", NOTE, found, edit_command(opened.path, unknown, opened.task_name)
    )


def _opened(path: Path) -> tuple[list[Check], ModelFolder | None]:
    """Check the files of a model folder, and open it if all are intact."""
    checks = list(check_files(path, "files"))
    if any(check.status == FAILED for check in checks):
        return checks, None
    try:
        opened = open_model_folder(path)
    except HeadwiseError as error:
        advice = "copy the folder again; a newer format needs a newer headwise"
        return [*checks, Check("weights", FAILED, str(error), advice)], None
    count = sum(weight.numel() for weight in opened.model.parameters())
    found = f"{count_of(count, 'parameter')}, shapes as in config.json, all finite"
    return [*checks, Check("weights", OK, found)], opened


def _manifest(path: Path) -> bytes | None:
    try:
        return (path / MANIFEST).read_bytes()
    except OSError:
        return None


def check_finite(what: str, tensors: Mapping[str, Tensor], advice: str) -> Check:
    """Check ``tensors`` for NaN and infinity."""
    bad = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    if not bad:
        return Check(what, OK, f"{count_of(len(tensors), 'tensor')}, all values finite")
    more = f" and {len(bad) - 1} more contain" if len(bad) > 1 else " contains"
    found = f"{bad[0]}{more} NaN or infinity"
    return Check(what, FAILED, found, advice)


def _tokenizers(opened: ModelFolder) -> Check:
    """Check that decoding and encoding again gives the same text."""
    pair = opened.tokenizers
    sides = [
        ("source", pair.source, [each.source for each in opened.golden]),
        ("target", pair.target, [each.output for each in opened.golden]),
    ]
    for side, tokenizer, texts in sides:
        for text in texts:
            once = tokenizer.decode(tokenizer.encode(text))
            if tokenizer.decode(tokenizer.encode(once)) != once:
                return Check(
                    "tokenizers",
                    FAILED,
                    f"the {side} tokenizer does not round-trip {once!r}",
                    "its vocabulary is too small for this text, or it was replaced",
                )
    if not opened.golden:
        found = "there are no golden translations to try"
        return Check("tokenizers", SKIPPED, found)
    found = f"{pair.source.size:,} and {pair.target.size:,} entries; text round-trips"
    return Check("tokenizers", OK, found)

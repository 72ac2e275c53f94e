"""A model folder: its files, its numbers, its tokenizers, and what it translates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor

from headwise.doctor.check import FAILED, NOTE, OK, SKIPPED, Finding
from headwise.doctor.exports import look_at_exports
from headwise.doctor.files import look_at_files
from headwise.doctor.precisions import look_at_precisions
from headwise.errors import HeadwiseError
from headwise.run_folder.card_edit import edit_command, unknown_in
from headwise.run_folder.model_folder import CARD, ModelFolder, open_model_folder
from headwise.storage import MANIFEST
from headwise.wording import count_of

NOT_USED = "not looked at: a folder is used only where every file of it can be trusted"


def look_at_model(path: Path) -> Iterator[Finding]:
    """Check a model folder and the exports that lie in it."""
    before = _manifest(path)
    findings, opened = _opened(path)
    if opened is None and _manifest(path) != before:
        # A run has replaced it: files of two models met, and none of them is damaged.
        findings, opened = _opened(path)
    yield from findings
    if opened is None:
        yield Finding("all else", SKIPPED, NOT_USED)
        return
    yield _tokenizers(opened)
    yield from look_at_precisions(opened)
    yield _card(opened)
    yield from look_at_exports(opened)


def _card(opened: ModelFolder) -> Finding:
    """See that the card says what only the model's maker can know."""
    card = (opened.path / CARD).read_text(encoding="utf-8")
    unknown = unknown_in(card)
    if not unknown:
        return Finding("card", OK, "it names languages and licence")
    found = f"it names no {' and no '.join(unknown)}"
    return Finding("card", NOTE, found, edit_command(opened.path, unknown))


def _opened(path: Path) -> tuple[list[Finding], ModelFolder | None]:
    """Open a model folder of which every file can be trusted."""
    findings = list(look_at_files(path, "files"))
    if any(finding.status == FAILED for finding in findings):
        return findings, None
    try:
        opened = open_model_folder(path)
    except HeadwiseError as error:
        advice = "copy the folder again; a newer one needs a newer headwise"
        return [*findings, Finding("weights", FAILED, str(error), advice)], None
    count = sum(weight.numel() for weight in opened.model.parameters())
    found = f"{count_of(count, 'parameter')}, as config.json asks for, all finite"
    return [*findings, Finding("weights", OK, found)], opened


def _manifest(path: Path) -> bytes | None:
    try:
        return (path / MANIFEST).read_bytes()
    except OSError:
        return None


def look_at_numbers(what: str, tensors: Mapping[str, Tensor], advice: str) -> Finding:
    """Look for numbers that are none."""
    bad = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    if not bad:
        return Finding(
            what, OK, f"{count_of(len(tensors), 'tensor')}, every number finite"
        )
    more = f" and {len(bad) - 1} more hold" if len(bad) > 1 else " holds"
    found = f"{bad[0]}{more} numbers that are not finite"
    return Finding(what, FAILED, found, advice)


def _tokenizers(opened: ModelFolder) -> Finding:
    """Check that text survives the tokenizers: what they wrote once, they keep."""
    pair = opened.tokenizers
    sides = [
        ("source", pair.source, [each.source for each in opened.golden]),
        ("target", pair.target, [each.output for each in opened.golden]),
    ]
    for side, tokenizer, texts in sides:
        for text in texts:
            once = tokenizer.decode(tokenizer.encode(text))
            if tokenizer.decode(tokenizer.encode(once)) != once:
                return Finding(
                    "tokenizers",
                    FAILED,
                    f"the {side} tokenizer does not keep {once!r}",
                    "its vocabulary is too small for this text, or it was exchanged",
                )
    if not opened.golden:
        found = "the folder holds no golden translations, whose text could be tried"
        return Finding("tokenizers", SKIPPED, found)
    found = f"{pair.source.size:,} and {pair.target.size:,} entries; text survives them"
    return Finding("tokenizers", OK, found)

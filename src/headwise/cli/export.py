"""``headwise export``: a trained model for CTranslate2 or Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.argument_checks import (
    check_files,
    check_models,
    check_translates,
    check_whole_lines,
)
from headwise.cli.options import TrainedModel, output_folder, say
from headwise.errors import SettingsError, UsageError
from headwise.interop.unsupported_models import LIMITS, QUANTIZATIONS, check_export
from headwise.run_folder.paths import EXPORT, model_path
from headwise.storage import check_replaceable

if TYPE_CHECKING:
    from headwise.run_folder.model_folder import ModelFolder


def export(
    folder: TrainedModel,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="|".join(LIMITS),
            help="Format of the export.",
        ),
    ],
    out: Annotated[Path, output_folder("Output folder.")],
    quantization: Annotated[
        str,
        typer.Option(
            metavar="|".join(QUANTIZATIONS),
            help="Number format of the weights. All but float32 are for CTranslate2, "
            "and may change translations.",
        ),
    ] = "float32",
    text: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Source text on which to compare float16 or int8 with float32. "
            "Default: the sources of the model's golden translations.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Export a trained model to CTranslate2 or Hugging Face.

    In float32 the translations are the same. A model that the other program cannot
    express is refused, with all reasons. See docs/export.md.

    \b
    headwise export en-de --to ctranslate2 --out en-de-ct2
    headwise export en-de --to ctranslate2 --out small --quantization int8 \\
        --compare test.en
    headwise export en-de --to huggingface --out en-de-hf
    """
    check_export(target, quantization)
    check_models(folder)
    check_translates(folder, remedy="only that can be exported")
    if text is not None:
        check_files(text)
        check_whole_lines("export --compare", text, piped=False)
    check_replaceable(out, EXPORT)

    from headwise.data.corpus_reader import read_lines
    from headwise.interop.exports import export as write
    from headwise.run_folder.model_folder import open_model_folder

    opened = open_model_folder(model_path(folder))
    sources = [each.source for each in opened.golden]
    if text is not None:
        sources = [line.text for line in read_lines(text, say)]
    notes = write(out, opened, target=target, quantization=quantization)
    for note in notes:
        say(f"note: {note}")
    if quantization != "float32":
        say(_quantization_effect(out, opened, quantization, sources))
    say(f"{out}: {target} in {quantization}; its README.md shows how to run it")


def _quantization_effect(
    out: Path, opened: ModelFolder, quantization: str, sources: list[str]
) -> str:
    """Translate ``sources`` with model and export; return how far they agree."""
    from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
    from headwise.inference.translator import Translator
    from headwise.metrics.registry import measure

    sources = [each for each in sources if each.strip()]
    ours = Translator(opened, engine="torch")
    theirs = Translator(opened, engine="torch")
    try:
        theirs.engine = CTranslate2Engine(opened, precision=quantization, folder=out)
        outputs = [each.text for each in theirs.lines(sources, scores=False)]
    except (UsageError, SettingsError) as error:
        return f"{quantization} was not compared with float32: {error}"
    wanted = [each.text for each in ours.lines(sources, scores=False)]
    if not wanted:
        return f"{quantization} was not compared with float32: there is no text"
    equal = sum(a == b for a, b in zip(outputs, wanted, strict=True))
    bleu = measure("bleu", outputs, wanted)
    return (
        f"{quantization} compared with float32: {equal:,} of {len(wanted):,} "
        f"translations are the same; BLEU between them {bleu.value:.2f}"
    )

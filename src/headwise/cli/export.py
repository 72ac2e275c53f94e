"""``headwise export``: a trained model for programs other than this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.checks import check_files, check_models
from headwise.cli.options import TrainedModel, say, to_folder
from headwise.errors import SettingsError, UsageError
from headwise.interop.limits import LIMITS, QUANTIZATIONS, check_export
from headwise.run_folder.paths import EXPORT, model_path
from headwise.storage import check_replaceable
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.run_folder.model_folder import ModelFolder


def export(
    folder: TrainedModel,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="|".join(LIMITS),
            help="The program that is to run the model.",
        ),
    ],
    out: Annotated[Path, to_folder("Folder to write to.")],
    quantization: Annotated[
        str,
        typer.Option(
            metavar="|".join(QUANTIZATIONS),
            help="Numbers to write the weights in; the smaller ones are for "
            "CTranslate2, and may change words.",
        ),
    ] = "float32",
    text: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="FILE",
            help="Source text, to report what float16 or int8 changes in its "
            "translations. Not given: the few that were noted with the model.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a trained model as a folder that other programs run.

    In float32 they give the same words. What the other program cannot express is
    refused, with every reason. docs/export.md says more.

    \b
    headwise export en-de --to ctranslate2 --out en-de-ct2
    headwise export en-de --to ctranslate2 --out small --quantization int8 \\
        --compare test.en
    headwise export en-de --to huggingface --out en-de-hf
    """
    check_export(target, quantization)
    check_models(folder)
    check_files(text)
    check_replaceable(out, EXPORT)

    from headwise.data.reading import read_lines
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
        say(_what_changed(out, opened, quantization, sources))
    say(
        f"{out}: for {target}, in {quantization}; how to run it stands in its README.md"
    )


def _what_changed(
    out: Path, opened: ModelFolder, quantization: str, sources: list[str]
) -> str:
    """Translate with the export as well, and compare."""
    from headwise.inference.engines.ctranslate2_engine import CTranslate2Engine
    from headwise.inference.translator import Translator
    from headwise.metrics.registry import measure

    ours = Translator(opened, engine="torch")
    theirs = Translator(opened, engine="torch")
    try:
        theirs.engine = CTranslate2Engine(opened, precision=quantization, folder=out)
        outputs = [each.text for each in theirs.lines(sources, scores=False)]
    except (UsageError, SettingsError) as error:
        return f"what {quantization} changes was not measured: {error}"
    wanted = [each.text for each in ours.lines(sources, scores=False)]
    if not wanted:
        return f"what {quantization} changes was not measured: there is no text for it"
    equal = sum(a == b for a, b in zip(outputs, wanted, strict=True))
    bleu = measure("bleu", outputs, wanted)
    return (
        f"{quantization} beside float32: {equal:,} of "
        f"{count_of(len(wanted), 'translation')} "
        f"are the same; BLEU between them {bleu.value:.2f}"
    )

"""``headwise predict``: the output of a model of any task, line by line."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_whole_lines,
)
from headwise.cli.draw_trees import check_drawing, draw
from headwise.cli.options import (
    Deterministic,
    Device,
    Threads,
    TrainedModel,
    resolve_device,
    say,
)
from headwise.cli.standard_streams import flush_output, output
from headwise.cli.text_lines import InputLines, is_terminal, lines_for
from headwise.run_folder.paths import model_path, task_of_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwise.inference.translator import Translator
    from headwise.tasks.prediction import Prediction


def predict(
    folder: TrainedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="Texts, plain or .gz; of pictures .png or .npz files. Default, or -: "
            "standard input.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON Lines, with probabilities."),
    ] = False,
    drawing: Annotated[
        str | None,
        typer.Option(
            "--draw",
            metavar="text|svg",
            help="Draw the trees of a parser: as text, or as SVG, one line each.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Print the output of a model for each line: N lines in, N lines out.

    It is a label for a model of classification, a tag for each word for one of tagging,
    a tree in brackets for one of parsing, a translation for one of translation
    (headwise translate has more options). A blank line gives a blank line. A text
    longer than the model was trained for is read in parts, but parsed whole. Bytes that
    are not UTF-8 are replaced, with a warning. For pictures, each line is the path of a
    PNG file of the size that the model was trained on; FILE may be a PNG file itself,
    or the pictures or videos of a .npz file.

    \b
    echo "What a fine film." | headwise predict sentiment
    headwise predict sentiment reviews.txt --json > labels.jsonl
    headwise predict digits scans/*.png
    echo "The dog barks ." | headwise predict parser --draw text
    """
    check_device(device)
    check_environment()
    check_models(folder)
    check_files(*(files or ()))
    check_input(files or [])
    check_whole_lines("predict", *(files or ()))
    task = task_of_folder(model_path(folder))
    check_drawing(drawing, task=task, as_json=as_json)
    if task == "translation" and not as_json:
        from headwise.cli.translate import translate

        translate(
            str(folder),
            [str(each) for each in files or ()],
            threads=threads,
            device=device,
            deterministic=deterministic,
        )
        return

    from headwise.inference.load import load, load_predictor

    options: dict[str, Any] = {
        "device": resolve_device(device),
        "deterministic": deterministic,
        "threads": threads,
    }
    predictions: Callable[[InputLines], Iterator[Prediction]]
    if task == "translation":
        translator = load(folder, task="translation", **options)
        predictions = partial(_translations, translator)
    else:
        predictions = load_predictor(folder, **options).lines
    at_terminal = is_terminal(files or [])
    if at_terminal:
        say("type a line; Ctrl-D to exit")
    lines = lines_for(
        task,
        files or [],
        refuse_old_mac=False,
        after_each=at_terminal,
        before_waiting=flush_output,
    )
    for each in predictions(lines):
        text = each.output if drawing is None else draw(each.output, drawing)
        output(_json(each) if as_json else text, flush=False)
    flush_output()


def _translations(translator: Translator, lines: InputLines) -> Iterator[Prediction]:
    """Yield the translation of each line, as ``headwise translate`` makes it."""
    from headwise.tasks.prediction import Prediction

    for number, each in enumerate(translator.lines(lines, scores=True), start=1):
        for warning in each.warnings:
            say(f"{lines.where(number)}: {warning}")
        best, *_ = each.candidates
        yield Prediction(output=best.text, log_probability=float(best.log_probability))


def _json(prediction: Prediction) -> str:
    table: dict[str, Any] = {"output": prediction.output}
    if prediction.log_probability is not None:
        table["log_probability"] = prediction.log_probability
        if prediction.output and not prediction.ranked:
            table["probability"] = math.exp(prediction.log_probability)
    if prediction.number is not None:
        table["number"] = prediction.number
    if prediction.ranked:
        table["probabilities"] = dict(prediction.ranked)
    return json.dumps(table, ensure_ascii=False)

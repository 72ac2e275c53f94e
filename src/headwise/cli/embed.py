"""``headwise embed``: what the encoder makes of each text, as vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_out_file,
    check_whole_lines,
)
from headwise.cli.options import (
    Deterministic,
    Device,
    Threads,
    TrainedModel,
    resolve_device,
    say,
)
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import flush_output, output
from headwise.cli.text_lines import lines_for
from headwise.run_folder.paths import model_path, task_of_folder

CHUNK_LINES = 1024
"""Lines whose vectors are printed together."""


def embed(
    folder: TrainedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="Texts, plain or .gz; of pictures .png or .npz files. Default, or -: "
            "standard input.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy",
            help="File to write one array [lines, d_model] of float32 to. Default: "
            "print a JSON list for each line.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Print what the encoder of a model makes of each line: a vector.

    Texts that the model finds similar have vectors that point in similar directions.
    For a model of classification it is the vector that the label is predicted from,
    for other models the mean over the tokens. A blank line gives zeros.

    \b
    headwise embed sentiment reviews.txt --out reviews.npy
    echo "A dog runs." | headwise embed en-de
    """
    check_device(device)
    check_environment()
    check_models(folder)
    check_files(*(files or ()))
    check_input(files or [])
    check_whole_lines("embed", *(files or ()))
    check_out_file("--out", out, inputs=[folder, *(files or ())])

    from itertools import islice

    import numpy as np

    from headwise.inference.load import load_predictor

    model = load_predictor(
        folder,
        device=resolve_device(device),
        deterministic=deterministic,
        threads=threads,
    )
    task = task_of_folder(model_path(folder))
    lines = (x for x in lines_for(task, files or []) if isinstance(x, str))
    found = []
    while chunk := list(islice(lines, CHUNK_LINES)):
        vectors = model.embed(chunk)
        if out is not None:
            found.append(vectors)
            continue
        for vector in vectors:
            output(json.dumps([round(float(x), 6) for x in vector]), flush=False)
        flush_output()
    if out is not None:
        rows = np.concatenate(found) if found else model.embed([])
        write_out_file(out, _npy(rows))
        say(f"{out}: {rows.shape[0]:,} vectors of {rows.shape[1]:,} numbers")


def _npy(array: object) -> bytes:
    """Return the bytes of an ``.npy`` file."""
    from io import BytesIO

    import numpy as np

    file = BytesIO()
    np.save(file, array, allow_pickle=False)  # type: ignore[arg-type]
    return file.getvalue()

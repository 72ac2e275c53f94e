"""``headwise back-translate``: synthetic pairs from text of the target language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.options import (
    BackendName,
    Beam,
    Deterministic,
    Device,
    EngineName,
    Ensemble,
    Precision,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_path,
)
from headwise.cli.synthetic_pairs import BACK, Tag, write_synthetic_pairs


def back_translate(
    folder: TrainedModel,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text of the target language, one sentence a line, plain or .gz.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.tsv",
            help="Pairs to write: synthetic source, TAB, real target.",
            parser=parse_path,
        ),
    ],
    tag: Tag = None,
    beam: Beam = None,
    search: SearchSettings = None,
    ensemble: Ensemble = None,
    engine: EngineName = "auto",
    backend: BackendName = "auto",
    precision: Precision = "float32",
    threads: Threads = None,
    device: Device = "auto",
    deterministic: Deterministic = False,
) -> None:
    """Translate text of the target language back, into pairs to train on.

    FOLDER is a model of the reverse direction: for more pairs of English and German, to
    train English to German, a model of German to English. Its outputs are drawn at
    random (search=sampling), which teaches more than a beam; --beam 4 and --search
    search=sampling --search top_k=10 are other ways. The same seed (--search seed=7)
    gives the same pairs.

    Blank and overlong lines are left out, and so are outputs that are empty, repeat
    themselves, reach their length limit, are far longer or shorter than the line, or
    copy it. FILE.tsv.left-out.tsv names each of them, with the reason. The
    same command resumes after a stop.

    \b
    headwise back-translate de-en news.de --out bt.tsv
    headwise back-translate de-en news.de.gz --beam 4 --tag '<BT>' --out bt.tsv
    """
    write_synthetic_pairs(
        BACK,
        folder,
        files,
        out=out,
        tag=tag,
        beam=beam,
        search=search,
        ensemble=ensemble,
        engine=engine,
        backend=backend,
        precision=precision,
        threads=threads,
        device=device,
        deterministic=deterministic,
    )

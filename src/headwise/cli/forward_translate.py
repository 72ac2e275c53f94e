"""``headwise forward-translate``: translations of a teacher, for a student."""

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
from headwise.cli.synthetic_pairs import FORWARD, Tag, write_synthetic_pairs


def forward_translate(
    folder: TrainedModel,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text of the source language, one sentence a line, plain or .gz.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.tsv",
            help="Pairs to write: real source, TAB, synthetic target.",
            parser=parse_path,
        ),
    ],
    references: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Translations by people, one for each line: of the outputs of the "
            "beam the one nearest to them is written. Once for each FILE.",
            parser=parse_path,
            show_default=False,
        ),
    ] = None,
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
    """Translate text of the source language, into pairs for a student to train on.

    FOLDER is the teacher, a model of the same direction; --ensemble adds further ones,
    whose probabilities are averaged. A student that is trained on their translations
    (sequence-level knowledge distillation, Kim and Rush 2016) needs fewer layers for
    the same quality. The default search is that of the teacher. With --references, a
    line's target is the output of the beam that is nearest, by chrF, to one of its
    references (sequence-level interpolation): a line that stands there several times
    has several, and is written once.

    Blank and overlong lines are left out, and so are outputs that are empty, repeat
    themselves, reach their length limit, are far longer or shorter than the line, or
    copy it. FILE.tsv.left-out.tsv names each of them, with the reason. The
    same command resumes after a stop.

    \b
    headwise forward-translate en-de train.en --beam 4 --out distilled.tsv
    headwise forward-translate one train.en --ensemble two --out distilled.tsv
    headwise forward-translate en-de train.en --references train.de --out near.tsv
    """
    write_synthetic_pairs(
        FORWARD,
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
        references=references,
    )

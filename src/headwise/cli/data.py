"""``headwise data``: public corpora, listed and downloaded."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.command_classes import Command, CommandGroup
from headwise.cli.errors import exit_on_errors
from headwise.cli.options import output_folder, say
from headwise.cli.standard_streams import output
from headwise.errors import UsageError

if TYPE_CHECKING:
    from headwise.data.public.corpus import PublicCorpus

CORPORA_FOLDER = Path("corpora")
"""Where corpora and downloads go by default."""

DOWNLOADS = "downloads"
"""Folder of downloaded files, beside the folder of the corpus."""

data = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Download public corpora.

    \b
    headwise data list
    headwise data get multi30k-en-de
    headwise run --recipe recipes/multi30k-en-de.toml --out en-de
    """,
)


def list_corpora(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the public corpora that headwise data get downloads.

    The licence is the publisher's, or its words where there is no formal one. Of
    checksums, "stated" are known before the download; "first use" means that nobody
    states one, so that the first download is trusted and later ones must equal it.

    \b
    headwise data list
    headwise data list --json
    """
    from headwise.data.public.catalogue import CORPORA

    found = [make() for make in CORPORA.values()]
    if as_json:
        output(json.dumps([_as_table(each) for each in found], indent=2))
        return
    titles = ("name", "pairs", "download", "checksum", "licence", "publisher")
    rows = [titles, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if title in ("pairs", "download") else cell.ljust(width)
            for title, cell, width in zip(titles, row, widths, strict=True)
        ]
        output("  ".join(cells).rstrip())


def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name of headwise data list.")
    ],
    out: Annotated[
        Path | None, output_folder("Folder for its text. Default: corpora/NAME.")
    ] = None,
    local: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FOLDER|URL",
            help="Take the publisher's files from a folder, or the URL of a mirror, "
            "instead; they are verified the same way.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Download a public corpus, verify it, and write its text as plain files.

    The publisher's files are kept in the folder "downloads" beside the corpus, and are
    used again. An interrupted download is resumed by the same command. A file with
    another SHA-256 than the one stated is not used. corpus.json in the folder has the
    licence, whom to cite, and where each file is from.

    \b
    headwise data get multi30k-en-de
    headwise data get wmt14-en-de --out /data/wmt14-en-de
    headwise data get tatoeba-en-fr --from ~/downloads
    """
    from headwise.data.public.get import get_corpus, is_url
    from headwise.wording import count_of

    corpus = _corpus(name)
    if local is not None and not is_url(local) and not (local and Path(local).is_dir()):
        raise UsageError(
            f"--from {local or '(empty)'} is not a folder; name a folder with the "
            "publisher's files, or the http:// or https:// URL of a mirror"
        )
    folder = CORPORA_FOLDER / name if out is None else out
    say(f"{name}: {corpus.license}; cite: {corpus.citation}")
    is_new = get_corpus(
        corpus, folder, downloads=folder.parent / DOWNLOADS, local=local, say=say
    )
    if not is_new:
        say(f"{folder} is complete already")
        return
    files = [each for each in folder.rglob("*") if each.suffix not in (".json", "")]
    say(f"{folder}: {count_of(len(files), 'text file')}; {corpus.split}")


def _corpus(name: str) -> PublicCorpus:
    from headwise.data.public.catalogue import CORPORA

    if name not in CORPORA:
        start, _, target = name.rpartition("-")
        swapped = f"{start.rpartition('-')[0]}-{target}-{start.rpartition('-')[2]}"
        close = [each for each in CORPORA if (name and name in each) or each == swapped]
        close = close or difflib.get_close_matches(name, CORPORA, n=1)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(
            f"{name!r} is not a public corpus that headwise knows{hint} (headwise data "
            "list shows all)"
        )
    return CORPORA[name]()


def _row(corpus: PublicCorpus) -> tuple[str, ...]:
    from headwise.data.public.transfer import size_text

    size = corpus.num_bytes
    return (
        corpus.name,
        f"{corpus.num_pairs:,}",
        "?" if size is None else size_text(size),
        "stated" if _is_pinned(corpus) else "first use",
        corpus.license,
        corpus.publisher,
    )


def _is_pinned(corpus: PublicCorpus) -> bool:
    return all(each.sha256 is not None for each in corpus.downloads)


def _as_table(corpus: PublicCorpus) -> dict[str, Any]:
    return {
        "name": corpus.name,
        "languages": list(corpus.languages),
        "pairs": corpus.num_pairs,
        "bytes": corpus.num_bytes,
        "license": corpus.license,
        "publisher": corpus.publisher,
        "homepage": corpus.homepage,
        "citation": corpus.citation,
        "split": corpus.split,
        "files": [
            {
                "name": each.name,
                "urls": list(each.urls),
                "bytes": each.num_bytes,
                "sha256": each.sha256,
                "sha256_stated_by": each.stated_by or "nobody",
            }
            for each in corpus.downloads
        ],
    }


data.command("list", cls=Command)(exit_on_errors(list_corpora, resumable=False))
data.command(cls=Command)(exit_on_errors(get, resumable=True))

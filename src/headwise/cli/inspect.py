"""``headwise inspect``: look into a model, change it for a while, rank its heads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_models,
    check_out_file,
)
from headwise.cli.inspect_heads import inspect_corpus, open_inspector
from headwise.cli.inspect_page import Page, serve_page, write_page
from headwise.cli.options import (
    Device,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_search,
    resolve_device,
    say,
    use_threads,
)
from headwise.cli.out_files import write_out_file
from headwise.cli.standard_streams import output
from headwise.errors import UsageError
from headwise.inspection.views import VIEWS, Request, look
from headwise.reports.inspection_views import DRAWINGS, TEXTS
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inspection.interventions import Intervention
    from headwise.inspection.places import Head
    from headwise.reports.drawing import Drawing

PAGE = ".html"
SUFFIXES = (".json", ".svg", ".png", PAGE)

Names = list[str] | None


def inspect(
    folder: TrainedModel,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]",
            help="One line of source text; for pictures, the path of a PNG file.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Look at this output: a translation, a tree, a label, what follows "
            "TEXT. Default: the model's own.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(VIEWS),
            help="What to look at. Default: output; compare if something is changed.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a .json, .svg or .png file, or all views as one page (.html); "
            "with --prune, the new model folder. Default: print a summary.",
            show_default=False,
        ),
    ] = None,
    head: Annotated[
        Names,
        typer.Option(
            metavar="NAME",
            help="A head to look at, such as encoder.0.2, decoder.1.0 or cross.1.3: "
            "kind of attention, layer and head, counted from 0. May be repeated.",
            show_default=False,
        ),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The position to look at, counted from 0.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=1000, help="Alternatives of each token.")
    ] = 5,
    off: Annotated[
        Names,
        typer.Option(
            metavar="NAME",
            help="Switch off a head, or a sublayer such as decoder.1.feed_forward. May "
            "be repeated.",
            show_default=False,
        ),
    ] = None,
    no_residual: Annotated[
        Names,
        typer.Option(
            metavar="NAME",
            help="Switch off the residual connection around a sublayer. May be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option(
            help="Force the output to start with this text.", show_default=False
        ),
    ] = "",
    donor: Annotated[
        str | None,
        typer.Option(
            help="For --show patch: the text whose activations are put into the run "
            "on TEXT.",
            show_default=False,
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            help="For --show patch: an output that differs from --target in one word.",
            show_default=False,
        ),
    ] = None,
    rank_heads: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="SOURCE REFERENCE",
            help="Rank all heads by what references lose without each.",
            show_default=False,
        ),
    ] = None,
    head_statistics: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="SOURCE TARGET",
            help="What each head attends to over two files of text.",
            show_default=False,
        ),
    ] = None,
    bleu: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="With --rank-heads: BLEU without each of the first N heads too.",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="With --rank-heads: write a model without the last N heads to --out.",
            show_default=False,
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Serve all views as a page for the browser, at the address that is "
            "printed, until Ctrl-C.",
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="With --serve: the port; 0 for any that is free. Default: 8765.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="With --serve: the address, one of this computer alone. Default: "
            "127.0.0.1.",
            show_default=False,
        ),
    ] = None,
    search: SearchSettings = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Look into a model of any task: what it attends to, computes and discards.

    With --off, --no-residual or --prefix the model is changed for this command, and
    the output is compared with the usual one, or --show looks at the changed model.
    docs/inside.md is a tutorial.

    \b
    headwise inspect en-de --serve
    headwise inspect en-de "A dog runs." --out page.html
    headwise inspect en-de "A dog runs." --out attention.svg --show attention
    headwise inspect en-de "A dog runs." --show beam --search beam=8
    headwise inspect en-de "A dog runs." --off cross.1.0
    headwise inspect sentiment "A fine film." --show attribution
    headwise inspect digits scans/7.png --show attention --out attention.png
    headwise inspect en-de --rank-heads dev.en dev.de --prune 4 --out pruned
    """
    given: dict[str, object]
    check_device(device)
    check_models(folder)
    table = parse_search(search)
    if serve:
        given = {"--out": out, "--rank-heads": rank_heads, "--bleu": bleu}
        given |= {"--head-statistics": head_statistics, "--prune": prune}
        if named := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"{named[0]} and --serve exclude each other")
    elif port is not None or host is not None:
        name = "--host" if port is None else "--port"
        raise UsageError(f"{name} is of the server that --serve starts; add --serve")
    page = Page(
        text=text,
        view=show,
        target=target,
        prefix=prefix,
        donor=donor,
        other=other,
        heads=head or [],
        position=position,
        off=off or [],
        no_residual=no_residual or [],
        search=table,
    )
    page.check_view()
    if serve:
        use_threads(threads)
        serve_page(folder, page, device, host=host, port=port)
        return
    if rank_heads is not None or head_statistics is not None:
        given = {"TEXT": text, "--show": show, "--target": target}
        given |= {"--head": head, "--no-residual": no_residual, "--prefix": prefix}
        given |= {"--off": off, "--donor": donor, "--other": other}
        given |= {"--position": position}
        if named := [name for name, value in given.items() if value not in (None, "")]:
            raise UsageError(
                f"{named[0]} is for one sentence; leave it out, or leave out "
                "--rank-heads and --head-statistics"
            )
        use_threads(threads)
        inspect_corpus(
            folder,
            rank=rank_heads,
            statistics=head_statistics,
            bleu=bleu,
            prune=prune,
            out=out,
            search=table,
            device=device,
        )
        return
    if bleu is not None or prune is not None:
        raise UsageError(
            "--bleu and --prune need --rank-heads SOURCE REFERENCE, which says which "
            "heads matter least"
        )
    if text is None:
        raise UsageError(
            "give a TEXT to look at, or --rank-heads or --head-statistics with two "
            "files of text"
        )
    name = show or ("compare" if off or no_residual or prefix else "output")
    _check_out(out, name)
    page.check_search(folder)
    use_threads(threads)
    if out is not None and out.suffix == PAGE:
        write_page(folder, page, device, out)
        return
    inspector = open_inspector(folder, resolve_device(device))
    heads, changes = _places(head, off, no_residual)
    request = Request(
        text=text,
        target=target,
        donor=donor,
        other=other,
        prefix=prefix,
        heads=heads,
        position=position,
        count=count,
        changes=changes,
        search=table,
    )
    _say_ignored(request, name)
    _write(look(inspector, name, request), name, out)


def _check_out(out: Path | None, name: str) -> None:
    if out is None:
        return
    if out.suffix not in SUFFIXES:
        raise UsageError(
            f"--out {out} must end in {', '.join(SUFFIXES)}, which says what is written"
        )
    if out.suffix not in (".json", PAGE) and name not in DRAWINGS:
        raise UsageError(f"--show {name} is not drawn; give a .json or .html file")
    check_out_file("--out", out, inputs=[])


def _places(
    head: Names, off: Names, no_residual: Names
) -> tuple[list[Head], list[Intervention]]:
    """Read the names of heads and sublayers."""
    from headwise.inspection.interventions import parse_no_residual, parse_off
    from headwise.inspection.places import parse_head

    changes: list[Intervention] = [parse_off(name) for name in off or []]
    changes += [parse_no_residual(name) for name in no_residual or []]
    return [parse_head(name) for name in head or []], changes


def _say_ignored(request: Request, name: str) -> None:
    given: dict[str, Any] = {
        "target": request.target,
        "donor": request.donor,
        "other": request.other,
        "prefix": request.prefix,
        "head": request.heads,
        "position": request.position is not None,
        "search": request.search,
    }
    ignored = [f"--{key}" for key, value in given.items() if value]
    ignored = [each for each in ignored if each[2:] not in VIEWS[name].options]
    if ignored:
        say(f"note: --show {name} does without {', '.join(ignored)}")


def _write(found: Any, name: str, out: Path | None) -> None:
    if out is None:
        for line in TEXTS[name](found):
            output(line, flush=False)
        return
    if out.suffix == ".json":
        from headwise.inspection.json_form import json_text

        write_out_file(out, json_text(found, show=name) + "\n")
    else:
        _draw(DRAWINGS[name](found), out)
    say(f"{out}: written")


def _draw(drawing: Drawing, out: Path) -> None:
    from headwise.reports.drawing import missing_letters, to_png, to_svg

    if out.suffix == ".svg":
        write_out_file(out, to_svg(drawing))
        return
    missing = missing_letters(drawing)
    if missing:
        say(
            f"note: no font here has {count_of(len(missing), 'letter')} of this "
            f"drawing ({''.join(missing[:10])}), which PNG shows as boxes; an .svg "
            "is drawn by the viewer's fonts"
        )
    write_out_file(out, to_png(drawing))

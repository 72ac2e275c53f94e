"""``headwise runs``: list runs with their scores, or compare two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.argument_checks import check_out_file
from headwise.cli.command_classes import Command, CommandGroup
from headwise.cli.errors import exit_on_errors
from headwise.cli.options import parse_path, say
from headwise.cli.standard_streams import output
from headwise.errors import UsageError

DEPTH = 3
"""Levels of folders that are searched for runs."""


class ListsByDefault(CommandGroup):
    """Parses ``headwise runs FOLDER`` as ``headwise runs list FOLDER``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``list`` where no command is named."""
        first = next((each for each in args if each != "--debug"), None)
        if first not in (*self.commands, *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


runs = typer.Typer(
    cls=ListsByDefault,
    rich_markup_mode=None,
    help="""List runs with their scores, or compare two.

    \b
    headwise runs
    headwise runs experiments other/run --json
    headwise runs diff experiments/a experiments/b
    headwise runs diff experiments/a experiments/b --html comparison.html
    """,
)


def list_runs(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Runs, or folders with runs in them. Default: the current folder.",
            parser=parse_path,
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs in each FOLDER and up to three levels below it.

    A run is running while a process works in it; ended when training is complete;
    stopped or failed if it can be resumed; died if its process was killed. The command
    that started a run also resumes it.

    \b
    headwise runs
    headwise runs experiments --json
    """
    import json

    from headwise.reports.listing import as_lines, find_runs, run_facts
    from headwise.run_folder.lock import is_held

    found: dict[Path, None] = {}
    for folder in folders or [Path()]:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name one that contains runs")
        here = list(find_runs(folder, DEPTH))
        if folders and not here:
            raise UsageError(
                f"{folder} is not a run, and there is none up to {DEPTH} levels below; "
                "headwise run and headwise train create runs"
            )
        found.update(dict.fromkeys(here))
    facts = [run_facts(folder, is_held=is_held(folder)) for folder in found]
    if as_json:
        output(json.dumps([each.as_json() for each in facts], indent=2))
    elif facts:
        output("\n".join(as_lines(facts)))
    else:
        say("there are no runs here; try headwise runs FOLDER")


def diff(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="A run folder.", parser=parse_path)
    ],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="Another run folder.", parser=parse_path)
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write an HTML page with the curves of both.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compare settings and learning curves of two runs.

    \b
    headwise runs diff experiments/a experiments/b
    headwise runs diff experiments/a experiments/b --html comparison.html
    """
    from headwise.reports.comparison import ComparedRun, as_lines, as_page
    from headwise.storage import write_text

    check_out_file("--html", html, inputs=[first, second])
    one, other = ComparedRun.open(first), ComparedRun.open(second)
    output("\n".join(as_lines(one, other)))
    if html is not None:
        write_text(html, as_page(one, other))
        say(f"{html}: open it in a browser")


runs.command("list", cls=Command)(exit_on_errors(list_runs, resumable=False))
runs.command(cls=Command)(exit_on_errors(diff, resumable=False))

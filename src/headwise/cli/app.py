"""The command line as a whole."""

from __future__ import annotations

from contextlib import redirect_stderr
from typing import Annotated

import typer

from headwise import __version__
from headwise.cli.demo import demo
from headwise.cli.doctor import doctor
from headwise.cli.edit import edit
from headwise.cli.errors import reported
from headwise.cli.evaluate import evaluate
from headwise.cli.export import export
from headwise.cli.prepare import prepare
from headwise.cli.recipe import recipe
from headwise.cli.run import run
from headwise.cli.runs import runs
from headwise.cli.score import score
from headwise.cli.streams import messages, open_closed_streams
from headwise.cli.train import train
from headwise.cli.translate import translate
from headwise.cli.verbs import Group, Verb

EPILOG = (
    "Exit codes: 0 ok, 1 bug, 2 usage (the command line is wrong, or names what is not "
    "there), 3 settings (a name or value is refused), 4 data, 5 model, 6 resources, 7 "
    "numerics, 75 saved after a stop signal, 130 interrupted."
)

app = typer.Typer(
    cls=Group,
    help="From two text files to a translator: the Transformer of "
    '"Attention Is All You Need", trained, measured and used.',
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
RESUMABLE = (run, prepare, train, demo)
"""Verbs that a stop signal ends in good order, to be typed again."""

VERBS = (
    run,
    prepare,
    train,
    translate,
    evaluate,
    score,
    export,
    edit,
    recipe,
    doctor,
    demo,
)

for verb in VERBS:
    app.command(cls=Verb)(reported(verb, resumable=verb in RESUMABLE))
app.add_typer(runs, name="runs")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwise {__version__}")
        raise typer.Exit


@app.callback()
def headwise(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Read the options that stand before the verb."""


def main() -> None:
    """Run the command line; every error becomes a message and an exit code."""
    open_closed_streams()
    with redirect_stderr(messages()):  # the parser writes its errors there itself
        app(prog_name="headwise")

"""The command line: all commands, exit codes, and the entry point."""

from __future__ import annotations

import atexit
from contextlib import redirect_stderr
from typing import Annotated, ClassVar

import typer

from headwise import __version__
from headwise.cli.average import average
from headwise.cli.back_translate import back_translate
from headwise.cli.chat import chat
from headwise.cli.command_classes import Command, CommandGroup
from headwise.cli.complexity import complexity
from headwise.cli.data import data
from headwise.cli.demo import demo
from headwise.cli.doctor import doctor
from headwise.cli.edit import edit
from headwise.cli.embed import embed
from headwise.cli.errors import exit_on_errors
from headwise.cli.evaluate import evaluate
from headwise.cli.export import export
from headwise.cli.forward_translate import forward_translate
from headwise.cli.generate import generate
from headwise.cli.inspect import inspect
from headwise.cli.models import models
from headwise.cli.predict import predict
from headwise.cli.prepare import prepare
from headwise.cli.recipe import recipe
from headwise.cli.run import run
from headwise.cli.runs import runs
from headwise.cli.score import score
from headwise.cli.standard_streams import message_stream, open_closed_streams
from headwise.cli.sweep import sweep
from headwise.cli.train import train
from headwise.cli.translate import translate
from headwise.training.signals import ignore_stop_signals

EPILOG = (
    "Exit codes: 0 ok, 1 bug, 2 usage (wrong arguments, or a path that does not "
    "exist), 3 settings (unknown name or invalid value), 4 data, 5 model, 6 resources, "
    "7 numerics (NaN), 75 saved after a stop signal, 130 interrupted."
)


class MainGroup(CommandGroup):
    """``headwise`` itself."""

    groups: ClassVar = {
        "Train": ("run", "prepare", "train", "sweep", "demo"),
        "Data": ("data", "back-translate", "forward-translate"),
        "Use": ("translate", "predict", "generate", "chat", "embed", "models"),
        "Measure": ("evaluate", "score", "inspect", "doctor", "runs", "complexity"),
        "Change": ("export", "edit", "average", "recipe"),
    }


app = typer.Typer(
    cls=MainGroup,
    help="Train, evaluate and run the Transformer of "
    '"Attention Is All You Need": from text files to a model of your own.',
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
RESUMABLE = (run, prepare, train, sweep, back_translate, forward_translate, demo)
"""Commands that save on a stop signal; the same command resumes."""

COMMANDS = (
    run,
    prepare,
    train,
    sweep,
    back_translate,
    forward_translate,
    translate,
    predict,
    generate,
    chat,
    embed,
    models,
    evaluate,
    score,
    inspect,
    export,
    edit,
    average,
    recipe,
    doctor,
    complexity,
    demo,
)

for command in COMMANDS:
    app.command(cls=Command)(exit_on_errors(command, resumable=command in RESUMABLE))
app.add_typer(runs, name="runs")
app.add_typer(data, name="data")


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
    """Parse the options before the command."""


def main() -> None:
    """Run the command line; errors become messages and exit codes."""
    atexit.register(ignore_stop_signals)  # leaving takes long enough to be stopped in
    open_closed_streams()
    with redirect_stderr(message_stream()):  # the parser writes its errors there itself
        app(prog_name="headwise")

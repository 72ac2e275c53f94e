"""The command line as a whole: its verbs, and what an error looks like."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from headwise import __version__
from headwise.cli.demo import demo
from headwise.cli.doctor import doctor
from headwise.cli.evaluate import evaluate
from headwise.cli.prepare import prepare
from headwise.cli.recipe import recipe
from headwise.cli.run import run
from headwise.cli.train import train
from headwise.cli.translate import translate
from headwise.errors import HeadwiseError, ResourceError

EPILOG = "Exit codes: 0 ok, 1 bug, 2 usage, 3 settings, 4 data, 5 model, 6 resources, 7 numerics, 75 saved after a stop signal, 130 interrupted."  # noqa: E501

app = typer.Typer(
    help="From two text files to a translator: the Transformer of "
    '"Attention Is All You Need", trained, measured and used.',
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (run, prepare, train, translate, evaluate, recipe, doctor, demo):
    app.command()(verb)


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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the code an error arose.")
    ] = False,
) -> None:
    """Read the options that stand before the verb."""
    if debug:
        os.environ["HEADWISE_DEBUG"] = "1"


def main() -> None:
    """Run the command line; every error becomes a message and an exit code."""
    try:
        app()
    except HeadwiseError as error:
        _end(error, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        _end(error, "interrupted", 130)
    except MemoryError as error:
        message = (
            "there is not enough memory; a smaller training.batch_tokens needs less"
        )
        _end(error, message, ResourceError.exit_code)
    except OSError as error:
        _end(error, str(error), ResourceError.exit_code)
    except Exception as error:
        message = (
            f"{type(error).__name__}: {error}\nThis is a fault of headwise; please "
            "report it with the output of: headwise --debug ..."
        )
        _end(error, message, 1)


def _end(error: BaseException, message: str, code: int) -> None:
    if os.environ.get("HEADWISE_DEBUG"):
        traceback.print_exception(error)
    print(f"headwise: {message}", file=sys.stderr)
    sys.exit(code)

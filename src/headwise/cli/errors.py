"""What an error looks like on the command line: a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from typing import ParamSpec

import typer

from headwise.cli.streams import ReaderLeftError, flush_output
from headwise.errors import (
    HeadwiseError,
    ResourceError,
    SettingsError,
    is_out_of_memory,
)
from headwise.training.signals import stop_signals_raise

P = ParamSpec("P")

DEBUG = "HEADWISE_DEBUG"
"""Environment variable that asks for tracebacks."""


def reported(verb: Callable[P, None], *, resumable: bool) -> Callable[P, None]:
    """Return ``verb`` with every error made into a message and an exit code.

    One that is ``resumable`` makes an error of SIGTERM too.
    """

    @wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with every_error_in_words():
            with stop_signals_raise() if resumable else nullcontext():
                verb(*args, **kwargs)
            flush_output()

    return run


@contextmanager
def every_error_in_words() -> Iterator[None]:
    """Make a message and ``typer.Exit`` with its code of every error inside."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except ReaderLeftError:
        raise typer.Exit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        with suppress(OSError):  # of a stderr that cannot be written
            if os.environ.get(DEBUG):
                traceback.print_exception(error)
            message, code = _message(error)
            print(f"headwise: {message}", file=sys.stderr)
        raise typer.Exit(code) from None


def _message(error: BaseException) -> tuple[str, int]:
    if isinstance(error, SettingsError):
        return f"these settings cannot be used:\n{error}", error.exit_code
    if isinstance(error, HeadwiseError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted", 130
    if is_out_of_memory(error):
        return (
            "there is not enough memory; a smaller training.batch_tokens, model or "
            "--beam needs less",
            ResourceError.exit_code,
        )
    if isinstance(error, OSError):
        return str(error), ResourceError.exit_code
    return (
        f"{type(error).__name__}: {error}\nThis is a fault of headwise; please report "
        "it with the output of the same command and --debug",
        1,
    )

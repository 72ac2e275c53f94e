"""Turn exceptions into messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from typing import ParamSpec

import typer

from headwise.cli.standard_streams import ReaderLeftError, flush_output
from headwise.errors import (
    HeadwiseError,
    ResourceError,
    SettingsError,
    UsageError,
    is_out_of_memory,
)
from headwise.training.signals import stop_signals_raise

P = ParamSpec("P")

DEBUG = "HEADWISE_DEBUG"
"""Environment variable that turns tracebacks on."""


def exit_on_errors(command: Callable[P, None], *, resumable: bool) -> Callable[P, None]:
    """Return ``command`` with each exception turned into a message and an exit code.

    With ``resumable``, SIGTERM raises too, so that the command can save and exit.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with errors_to_exit_codes():
            with stop_signals_raise() if resumable else nullcontext():
                command(*args, **kwargs)
            flush_output()

    return run


@contextmanager
def errors_to_exit_codes() -> Iterator[None]:
    """Print an exception as a message, and raise ``typer.Exit`` with its exit code."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except ReaderLeftError:
        raise typer.Exit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        with suppress(OSError):  # stderr may be closed
            if os.environ.get(DEBUG):
                traceback.print_exception(error)
            message, code = _message(error)
            print(f"headwise: {message}", file=sys.stderr)
        raise typer.Exit(code) from None


def _is_ours(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] == "headwise"


def _message(error: BaseException) -> tuple[str, int]:
    if isinstance(error, SettingsError):
        return f"invalid settings:\n{error}", error.exit_code
    if isinstance(error, HeadwiseError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted", 130
    if is_out_of_memory(error):
        return (
            "out of memory; a smaller training.batch_tokens, model or --beam needs "
            "less",
            ResourceError.exit_code,
        )
    if isinstance(error, PermissionError) and error.filename:
        return (
            f"{error.filename}: permission denied; the permissions of this file and of "
            "the folders that it is in do not allow it",
            ResourceError.exit_code,
        )
    if isinstance(error, OSError):
        return str(error), ResourceError.exit_code
    if isinstance(error, ModuleNotFoundError) and not _is_ours(error):
        return (
            f"this needs the Python package {error.name}, which is not installed: pip "
            "install headwise, without --no-deps, installs all that is needed. Beam "
            "and greedy search of translations need less",
            UsageError.exit_code,
        )
    return (
        f"{type(error).__name__}: {error}\nThis is a bug in headwise; please report it "
        "with the output of the same command and --debug",
        1,
    )

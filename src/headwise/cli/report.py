"""What an error looks like on the command line: a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import ParamSpec

import typer

from headwise.errors import (
    HeadwiseError,
    ResourceError,
    SettingsError,
    is_out_of_memory,
)
from headwise.training.signals import stopping_at_once

P = ParamSpec("P")

DEBUG = "HEADWISE_DEBUG"
"""Environment variable that asks for tracebacks."""


def reported(verb: Callable[P, None], *, resumable: bool) -> Callable[P, None]:
    """Return ``verb`` with every error made into a message and an exit code.

    One that is ``resumable`` makes an error of SIGTERM too.
    """

    @wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with stopping_at_once() if resumable else nullcontext():
                verb(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _end_quietly()
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(DEBUG):
                traceback.print_exception(error)
            message, code = _message(error)
            print(f"headwise: {message}", file=sys.stderr)
            raise typer.Exit(code) from None

    return run


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
        "it with the output of: headwise --debug ...",
        1,
    )


def _end_quietly() -> None:
    """End well: whoever read our output, such as ``head -1``, has had enough."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    raise typer.Exit(0)

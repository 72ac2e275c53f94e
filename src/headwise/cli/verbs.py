"""Verbs and groups of verbs: what all of them have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from headwise.cli.errors import DEBUG, every_error_in_words
from headwise.cli.streams import output_error


def debug_option() -> typer.core.TyperOption:
    """Return ``--debug``, which a verb takes as ``headwise`` itself does."""

    def remember(ctx: Any, option: Any, wanted: bool) -> None:
        if wanted:
            os.environ[DEBUG] = "1"

    return typer.core.TyperOption(
        param_decls=["--debug"],
        is_flag=True,
        default=False,
        expose_value=False,
        is_eager=True,
        callback=remember,
        show_default=False,
        help="Show where in the code an error arose.",
    )


EXAMPLES = {
    "--languages": "en de",
    "--dev": "dev.en dev.de",
    "--test": "test.en test.de",
}
"""Values of the options that want two."""


class Verb(typer.core.TyperCommand):
    """A verb of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an option that lacks a value is told by example."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", None)
            wanted = [each.metavar for each in self.params if option in each.opts]
            if option in EXAMPLES and wanted:
                error.message = (  # type: ignore[attr-defined]
                    f"{option} wants two values, {wanted[0]}, such as "
                    f"{option} {EXAMPLES[option]}"
                )
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        """Return what the verb takes, and what every verb takes."""
        *own, help_option = super().get_params(ctx)
        return [*own, debug_option(), help_option]


class Group(typer.core.TyperGroup):
    """Verbs under one name."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return what the group takes, and what every verb takes."""
        *own, help_option = super().get_params(ctx)
        return [*own, debug_option(), help_option]

    def make_context(self, *args: Any, **named: Any) -> Any:
        """Parse the command line, which may write the help."""
        with _help_is_written():
            return super().make_context(*args, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run a verb, whose parser may write its help."""
        with _help_is_written():
            return super().invoke(ctx)


@contextmanager
def _help_is_written() -> Iterator[None]:
    """Make words of an error of standard output, as verbs do of theirs."""
    try:
        yield
    except OSError as error:
        with every_error_in_words():
            raise output_error(error) from None

"""``headwise generate``: continue a prompt with a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_input,
    check_models,
    check_search,
    check_whole_lines,
    use_command,
)
from headwise.cli.options import (
    Device,
    SearchSettings,
    Threads,
    TrainedModel,
    parse_search,
    resolve_device,
    say,
    say_ignored_settings,
    use_threads,
)
from headwise.cli.standard_streams import flush_output, output
from headwise.cli.text_lines import InputLines
from headwise.errors import UsageError
from headwise.run_folder.paths import model_path, task_of_folder
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.inference.text_generator import TextGenerator


def generate(
    folder: TrainedModel,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Prompts, one per line, plain or .gz; - for standard input.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Text to continue; \\n in it is a line end. Default: none, so that "
            "the text is all the model's.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            min=1,
            metavar="NUMBER",
            help="Generate at most so many tokens.",
            show_default="the model's",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Random seed of sampling.", show_default="the model's"),
    ] = None,
    search: SearchSettings = None,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Continue a text with a language model, and print it as it is generated.

    The prompt is printed with its continuation. With FILE, each line is a prompt, and
    what is printed for it is one line, its line ends written as \\n and its backslashes
    as \\\\: N lines in, N lines out. A text may be longer than what the model was
    trained on: then the later half of its context is the prompt of a new one.

    \b
    headwise generate shakespeare --prompt "ROMEO:" --tokens 500
    headwise generate shakespeare --search temperature=0.8 --search top_k=20 --seed 7
    headwise generate shakespeare prompts.txt --search search=beam --search beam=4
    """
    if prompt is not None and files:
        raise UsageError("--prompt and FILE both give prompts; use one of them")
    check_device(device)
    check_environment()
    check_models(folder)
    check_files(*(files or ()))
    if files:
        check_input(files)
        check_whole_lines("generate", *files)
    task = task_of_folder(model_path(folder))
    if task != "language_model":
        raise UsageError(
            f"{folder} is a model of {task}, which continues no text; use headwise "
            f"{use_command(task)}"
        )
    table = parse_search(search)
    if table.get("num_best", 1) != 1:
        raise UsageError(
            f"num_best must be 1, not {table['num_best']}: one continuation of each "
            "prompt is printed; other seeds give others"
        )
    if tokens is not None:
        table |= {"max_length_factor": 0.0, "max_length_offset": tokens}
    if seed is not None:
        table["seed"] = seed
    say_ignored_settings(table, check_search(folder, table))

    from headwise.inference.text_generator import TextGenerator

    use_threads(threads)
    generator = TextGenerator.open(folder, device=resolve_device(device))
    if files:
        for line in InputLines(files, refuse_old_mac=False):
            if isinstance(line, str):
                _say_unread(generator, line)
                output(_one_line(generator.generate(line, **table)))
        return
    text = (prompt or "").replace("\\n", "\n")
    _say_unread(generator, text)
    if not generator.can_stream(**table):
        output(generator.generate(text, **table))
        return
    output(text, end="", flush=False)
    for piece in generator.stream(text, **table):
        output(piece, end="", flush=False)
        flush_output()
    output("")


def _say_unread(generator: TextGenerator, prompt: str) -> None:
    """Say how much of a prompt the model does not read."""
    if unread := generator.unread_tokens(prompt):
        start = prompt[:30] + ("…" if len(prompt) > 30 else "")
        say(
            f"warning: the prompt {start!r} is longer than the model's context of "
            f"{generator.task.context:,} tokens: its first "
            f"{count_of(unread, 'token')} are not read"
        )


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")

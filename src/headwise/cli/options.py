"""Options that several verbs share, each defined once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.checks import check_assignments, check_device
from headwise.cli.streams import messages
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inference.engines.settings import MAX_THREADS, PRECISIONS


def named(text: str) -> Path:
    """Return a path; an empty name is refused.

    An unset variable in a script would otherwise mean the folder one stands in.
    """
    if not text:
        raise typer.BadParameter("it is empty; name a folder, or . for this one")
    return Path(text)


def to_folder(help: str) -> Any:
    """Return the option that says where to write."""
    return typer.Option(metavar="FOLDER", help=help, parser=named)


TrainedModel = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="A run folder or a model folder.", parser=named
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="Another model of the same vocabulary to work with. May be repeated.",
        parser=named,
        show_default=False,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Architecture and training by name; see headwise recipe --list. "
        "Not given: chosen by the amount of data.",
        show_default=False,
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", help="A recipe file (TOML).", show_default=False),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change one setting, such as training.steps=60. May be repeated.",
        show_default=False,
    ),
]
BatchTokens = Annotated[
    str | None,
    typer.Option(
        "--batch-tokens",
        metavar="NUMBER|auto",
        help="Target tokens of a batch at most, padding counted; auto: as many as fit "
        "into memory, up to the paper's 25,000.",
        show_default="the recipe's",
    ),
]
MaxTime = Annotated[
    str | None,
    typer.Option(
        "--max-time",
        metavar="TIME",
        help="Time of training at most, such as 30m, 90s or 2h: from the making of the "
        "model to the last save, validations counted. Not counted: the start of the "
        "program, preparing text, and the score that run takes at the end.",
        show_default=False,
    ),
]
Dev = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Held-out text for validation. Not given: split off.",
        show_default=False,
    ),
]
Languages = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Languages, as codes such as en de: the keys of the texts in JSON Lines, "
        "and, in a run, what the model card says.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_THREADS,
        help="Processor threads to use.",
        show_default="all cores",
    ),
]
Device = Annotated[
    str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")
]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1, help="Hypotheses kept in the search.", show_default="the model's"
    ),
]
SearchSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="NAME=VALUE",
        help="Change one setting of the search, such as no_repeat_ngram=3. May be "
        "repeated; docs/decoding.md has them all.",
        show_default=False,
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="auto: the fastest that gives the same words; torch: on a CPU by "
        "kernels of our own in C, faster than ctranslate2 with AVX-512 only; "
        "torch-eager: without them; torch-readable: the whole stack again at every "
        "step.",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="|".join(PRECISIONS),
        help="Numbers of the weights: float32 in every engine, bf16 in torch, float16 "
        "and int8 in ctranslate2; smaller ones may change words.",
    ),
]

Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="The same bits, words and scores, whatever the number of threads and "
        "whatever else is translated: each sentence is computed alone, which takes "
        "longer.",
    ),
]


UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0}


def minutes(time: str) -> float:
    """Turn ``90s``, ``30m`` or ``2h`` into minutes."""
    unit = UNITS.get(time[-1:].lower())
    try:
        amount = float(time[:-1])
    except ValueError:
        amount = -1.0
    if unit is None or not 0 < amount < float("inf"):
        raise UsageError(
            f"--max-time must be a number above 0 with s, m or h, such as 30m, "
            f"not {time!r}"
        )
    return amount * unit


def search_table(assignments: list[str] | None) -> dict[str, Any]:
    """Return what ``--search`` says, as a table of decoding settings."""
    from headwise.settings import overridden

    check_assignments("--search", "alpha=0.6", assignments)
    return overridden({}, assignments or [], option="--search")


def say_without_effect(names: Iterable[str], chosen: DecodingSettings) -> None:
    """Tell the user which of the settings that they named the search passes over."""
    for note in chosen.without_effect(dict.fromkeys(names)):
        say(f"note: {note}")


def use_threads(threads: int | None) -> None:
    """Let torch use so many processor threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def chosen_device(name: str) -> str:
    """Return a device that is there; ``auto`` takes a GPU if there is one."""
    check_device(name)
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise UsageError(
            f"--device {name} cannot be used here ({reason}); cpu always works"
        ) from None
    return name


def refuse_several_processes(verb: str) -> None:
    """Refuse what only one process can do, where ``torchrun`` started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            f"headwise {verb} is for one process; under torchrun, let one process "
            "prepare the text first (headwise prepare), and all of them train: "
            "torchrun ... -m headwise train CORPUS --out RUN"
        )


def say_engines(used: Mapping[str, str], asked: str = "auto") -> None:
    """Tell the user which engine ran, where it was not theirs to choose.

    Of ``asked``, the engine torch alone is told what there is to know of it.
    """
    named = [f"{name} ({note})" if note else name for name, note in used.items()]
    if named and (asked == "auto" or (asked == "torch" and any(used.values()))):
        say(f"engine: {', '.join(named)}")


def say(text: str) -> None:
    """Tell the user something, on stderr: stdout is for data only.

    Of several processes that ``torchrun`` started, the first one speaks.
    """
    if os.environ.get("RANK", "0") == "0":
        typer.echo(text, file=messages())

"""Options that several commands share, each defined once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.argument_checks import check_assignments, check_device
from headwise.cli.standard_streams import message_stream
from headwise.decoding.settings import DecodingSettings
from headwise.errors import UsageError
from headwise.inference.engines.engine_names import BACKENDS, MAX_THREADS, PRECISIONS
from headwise.tasks import TASKS


def parse_path(text: str) -> Path:
    """Return a path; refuse an empty one.

    An unset variable in a script would otherwise mean the current folder.
    """
    if not text:
        raise typer.BadParameter("it is empty; name a folder, or . for the current one")
    return Path(text)


def output_folder(help: str) -> Any:
    """Return an option for an output folder."""
    return typer.Option(metavar="FOLDER", help=help, parser=parse_path)


TrainedModel = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="A run folder, a model folder, or the name of an installed model.",
        parser=parse_path,
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="Another model of the same vocabulary, for an ensemble. May be repeated.",
        parser=parse_path,
        show_default=False,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Named architecture and training settings; see headwise recipe --list. "
        "Default: chosen by the kind and amount of data.",
        show_default=False,
    ),
]
InitializeFrom = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FOLDER",
        help="Trained model whose encoder, decoder or both training starts from, with "
        "its tokenizer: pre-training, then fine-tuning. May be repeated.",
        parser=parse_path,
        show_default=False,
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", help="Recipe file (TOML).", show_default=False),
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
        help="Batch size: at most so many target tokens, padding included. auto: as "
        "many as fit into memory, up to the paper's 25,000.",
        show_default="the recipe's",
    ),
]
MaxTime = Annotated[
    str | None,
    typer.Option(
        "--max-time",
        metavar="TIME",
        help="Time limit of training, such as 30m, 90s or 2h, from the creation of the "
        "model to the last checkpoint, with validations; one step, one validation and "
        "one checkpoint are made in any case. Not included: program start, data "
        "preparation, and the final evaluation of headwise run.",
        show_default=False,
    ),
]
DryRunJson = Annotated[bool, typer.Option("--json", help="Print the dry run as JSON.")]
Dev = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Validation set. Default: split off the training text.",
        show_default=False,
    ),
]
DevFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Validation set in one file, TSV or JSON Lines.",
        show_default=False,
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="|".join(TASKS),
        help="What to learn: "
        + "; ".join(f"{name}: {task.summary}" for name, task in TASKS.items())
        + ".",
        show_default="the recipe's, or translation",
    ),
]
Columns = Annotated[
    tuple[int, int] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Columns of TSV files, counted from 1.",
        show_default="1 2",
    ),
]
Fields = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Keys of JSON Lines files, such as text label.",
        show_default="source target",
    ),
]
Languages = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="SOURCE TARGET",
        help="Language codes, such as en de: the languages of the model card and, "
        "without --fields, the keys of JSON Lines to read.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_THREADS,
        help="CPU threads.",
        show_default="all cores",
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU if there is one.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Beam size.", show_default="the model's"),
]
SearchSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="NAME=VALUE",
        help="Change one decoding setting, such as no_repeat_ngram=3. May be "
        "repeated; docs/decoding.md lists them.",
        show_default=False,
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="What runs the search. auto: the fastest with the same translations, "
        "which may be the C engine native; torch: has every search; ctranslate2.",
    ),
]
BackendName = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="|".join(BACKENDS),
        help="How torch computes. auto: C kernels on a CPU, if there are any; native: "
        "them, or an error; torch: PyTorch; reference: without a KV cache.",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="|".join(PRECISIONS),
        help="Number format of the weights: float32 in every engine, bf16 in all but "
        "ctranslate2, float16 and int8 in that alone. All but float32 may change "
        "translations.",
    ),
]

Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Bitwise reproducible scores, whatever the number of threads and "
        "the other lines of a batch: each sentence is computed alone, which is slower.",
    ),
]


UNITS = {"s": 1 / 60, "m": 1.0, "h": 60.0}


def parse_minutes(time: str) -> float:
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


def parse_search(assignments: list[str] | None) -> dict[str, Any]:
    """Return the assignments of ``--search`` as a table of decoding settings."""
    from headwise.settings import with_overrides

    check_assignments("--search", "alpha=0.6", assignments)
    return with_overrides({}, assignments or [], option="--search")


def say_ignored_settings(names: Iterable[str], chosen: DecodingSettings) -> None:
    """Name the given settings that have no effect with the others."""
    for note in chosen.without_effect(dict.fromkeys(names)):
        say(f"note: {note}")


def use_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def resolve_device(name: str) -> str:
    """Return the device to use; ``auto`` is a GPU if there is one.

    Raises ``UsageError`` if the device cannot be used. Torch is imported only where
    there may be a GPU.
    """
    check_device(name)
    if name == "cpu" or (name == "auto" and not may_have_gpu()):
        return "cpu"
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


GPU_DEVICES = ("nvidiactl", "nvhost-ctrl", "dxg", "kfd")
"""Names in /dev of drivers of GPUs: NVIDIA's, Tegra's, those of WSL, and AMD's."""


def may_have_gpu(devices: Path = Path("/dev")) -> bool:
    """Tell whether torch may find a GPU here, without importing it."""
    if not sys.platform.startswith("linux"):
        return True
    return any((devices / name).exists() for name in GPU_DEVICES)


def require_single_process(command: str) -> None:
    """Raise ``UsageError`` if ``torchrun`` started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            f"headwise {command} runs in a single process; with torchrun, prepare the "
            "text first in one process (headwise prepare), then train in all of them: "
            "torchrun ... -m headwise train CORPUS --out RUN"
        )


def say_engines(used: Mapping[str, str], asked: str = "auto") -> None:
    """Print the engine that ran, if the user left the choice open.

    Of an engine that was asked for, only what is noted about torch is printed.
    """
    named = [f"{name} ({note})" if note else name for name, note in used.items()]
    if named and (asked == "auto" or (asked == "torch" and any(used.values()))):
        say(f"engine: {', '.join(named)}")


def say(text: str) -> None:
    """Print a message to stderr (stdout is for data), in rank 0 only."""
    if os.environ.get("RANK", "0") == "0":
        typer.echo(text, file=message_stream())

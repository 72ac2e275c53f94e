"""``headwise sweep``: train a recipe with several values of its settings, and seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from headwise.cli.argument_checks import (
    check_device,
    check_environment,
    check_files,
    check_set,
)
from headwise.cli.build_recipe import recipe_from_options
from headwise.cli.options import (
    Assignments,
    Device,
    MaxTime,
    Preset,
    output_folder,
    parse_minutes,
    parse_path,
    require_single_process,
    resolve_device,
    say,
)
from headwise.cli.standard_streams import output
from headwise.errors import UsageError
from headwise.inference.engines.default_threads import cores
from headwise.inference.engines.engine_names import MAX_THREADS
from headwise.wording import count_of

if TYPE_CHECKING:
    from headwise.recipe import Recipe
    from headwise.sweep.ledger import Ledger, Search
    from headwise.sweep.recipes import RecipeOf
    from headwise.sweep.space import Varied
    from headwise.sweep.table import Baseline, Row

MAX_SEEDS = 1000

SHOWN_ROWS = 10
"""Rows of the table that are shown while trials run."""

SEARCHES = ("grid", "optuna")
BASELINES = ("best", "first")


def sweep(
    recipe_file: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="Recipe file (TOML), as for headwise run --recipe.",
            parser=parse_path,
        ),
    ],
    out: Annotated[Path, output_folder("Folder of the sweep, new or to resume.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="PATH=A,B,...",
            help="Values of a setting. May be repeated: every combination is trained. "
            "With --search optuna also a range, PATH=LOW..HIGH, or PATH=log:LOW..HIGH "
            "on a logarithmic scale.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            metavar="N|A,B,...",
            help="Train each combination with seeds 1 to N, or with these.",
        ),
    ] = "1",
    preset: Preset = None,
    assignments: Assignments = None,
    max_time: MaxTime = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Trials at a time.",
            show_default="cores / threads; 1 on a GPU",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, max=MAX_THREADS, help="CPU threads of each trial.")
    ] = 1,
    device: Device = "auto",
    pruning: Annotated[
        bool,
        typer.Option(
            "--pruning/--no-pruning",
            help="Stop trials early that are worse than the median of the others after "
            "as many updates. --no-pruning also resumes those that were stopped.",
        ),
    ] = True,
    search: Annotated[
        str,
        typer.Option(
            metavar="|".join(SEARCHES),
            help="grid: every combination; optuna: Optuna proposes --trials of them.",
        ),
    ] = "grid",
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Combinations that --search optuna proposes.",
            show_default=False,
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Run failed trials again.")
    ] = False,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="|".join(BASELINES),
            help="Compare with the best combination, or with the first: the first "
            "value of each --vary.",
        ),
    ] = "best",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every trial.")
    ] = False,
) -> None:
    """Train a recipe with several values and seeds; compare them.

    Each trial is a run of its own in OUT/trials, with the same limit of updates or
    time; trials share their prepared text. The table, best first, has mean and spread
    over seeds and paired tests; OUT/report.html has the curves. The same command
    resumes an interrupted sweep; values and seeds may be added to it.

    \b
    headwise sweep my.toml --vary training.learning_rate=0.001,0.003 --seeds 3 --out lr
    headwise sweep my.toml --vary model.dropout=0,0.1,0.3 --vary model.norm=pre,post \\
        --max-time 10m --out sizes
    headwise sweep my.toml --search optuna --trials 20 --out search \\
        --vary training.learning_rate=log:1e-4..1e-2 --vary model.encoder_layers=1..6
    """
    from headwise.sweep.ledger import FOLDERS, REPORT, check_sweep_folder
    from headwise.sweep.recipes import check_recipes
    from headwise.sweep.space import parse_varied

    require_single_process("sweep")
    check_files(recipe_file)
    check_set(assignments)
    check_device(device)
    check_environment()
    minutes = None if max_time is None else parse_minutes(max_time)
    chosen_seeds = parse_seeds(seeds)
    if baseline not in BASELINES:
        raise UsageError(f"--baseline must be best or first, not {baseline!r}")
    varied = parse_varied(vary or (), assignments or ())
    check_search(search, trials, varied)
    check_sweep_folder(out)
    recipe_of = _recipes(recipe_file, preset, assignments or (), minutes, out)
    base = check_recipes(recipe_of, varied)

    from headwise.sweep.run_sweep import Request, check_any_ended_well, run_sweep
    from headwise.sweep.table import as_json as table_as_json
    from headwise.sweep.table import as_lines, as_tsv, notes

    device = resolve_device(device)
    request = Request(
        folder=out,
        recipe_of=recipe_of,
        base=base,
        varied=varied,
        search=cast("Search", search),
        seeds=chosen_seeds,
        trials=trials,
        device=device,
        threads=threads,
        jobs=jobs or default_jobs(device, threads),
        prunes=pruning,
        retries=retry,
        baseline=cast("Baseline", baseline),
    )

    def show(ledger: Ledger, rows: Sequence[Row]) -> None:
        lines = ["", *as_lines(ledger, rows[:SHOWN_ROWS])]
        if (left := len(rows) - SHOWN_ROWS) > 0:
            lines.append(f"and {count_of(left, 'combination')} more")
        say("\n".join([*lines, ""]))

    ledger, rows = run_sweep(request, say, show)
    say("\n".join(["", *as_lines(ledger, rows), ""]))
    for note in notes(ledger, rows):
        say(f"note: {note}")
    if as_json:
        output(json.dumps(table_as_json(ledger, rows), indent=2))
    else:
        output(as_tsv(ledger, rows))
    say(f"{out / REPORT}: open it in a browser; the trials are in {out / FOLDERS}")
    check_any_ended_well(ledger)


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of ``3`` (1, 2 and 3) or of ``1,5,7``.

    Raises ``UsageError`` for anything else.
    """
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in parts):
        raise UsageError(
            "--seeds takes their number, such as 3, or a list, such as 1,5,7, not "
            f"{text!r}"
        )
    seeds = [int(each) for each in parts]
    if len(seeds) == 1:
        if not 1 <= seeds[0] <= MAX_SEEDS:
            raise UsageError(
                f"--seeds {text} is a number of seeds, which must be from 1 to "
                f"{MAX_SEEDS}; for one seed of that number use --set seed={text}"
            )
        return list(range(1, seeds[0] + 1))
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"--seeds {text} has a seed twice")
    return seeds


def check_search(search: str, trials: int | None, varied: Sequence[Varied]) -> None:
    """Raise ``UsageError`` if the options of a search do not fit together.

    Raises ``MissingOptunaError`` without Optuna.
    """
    from headwise.sweep.space import check_grid

    if search not in SEARCHES:
        raise UsageError(f"--search must be grid or optuna, not {search!r}")
    if search == "grid":
        check_grid(varied)
        if trials is not None:
            raise UsageError(
                "--trials is for --search optuna; a grid trains every combination"
            )
        return
    if trials is None:
        raise UsageError(
            "--search optuna needs --trials N, the number of combinations to propose"
        )
    from headwise.sweep.optuna_search import import_optuna

    import_optuna()


def default_jobs(device: str, threads: int) -> int:
    """Return how many trials run at a time: as many as have cores; 1 on a GPU."""
    return max(1, cores() // threads) if device == "cpu" else 1


def _recipes(
    recipe_file: Path,
    preset: str | None,
    assignments: Sequence[str],
    minutes: float | None,
    out: Path,
) -> RecipeOf:
    """Return a function that resolves the recipe of a trial.

    A message that all trials would give is printed once.
    """
    said: set[str] = set()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            say(text)

    def recipe_of(more: Sequence[str]) -> Recipe:
        return recipe_from_options(
            None,
            None,
            preset=preset,
            recipe_file=recipe_file,
            assignments=[*assignments, *more],
            max_minutes=minutes,
            out=out,
            on_message=say_once,
        )

    return recipe_of

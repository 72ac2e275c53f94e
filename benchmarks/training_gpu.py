"""Measure training on a GPU: headwise beside the plain loop, and the time to quality.

python benchmarks/training_gpu.py --corpora FOLDER --work FOLDER
python benchmarks/training_gpu.py --corpora FOLDER --parts speed --sizes big
python benchmarks/training_gpu.py --rehearse

The FOLDER of --corpora holds multi30k/train.en.gz and its like. What stands in --out
stays there, but for what is measured anew: so parts can be run one after the other.
--rehearse goes through all of it on a CPU, with a small text of its own, and writes to
--work alone, since its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from result_file import TRAINING, Measurement, write_json
from training import plan
from training.on_gpu import GPU_SIZES, TRAINERS

from headwise.demo_corpus import demo_corpus

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "training_gpu.json"
RECIPE = ROOT / "recipes" / "multi30k.toml"
PEAK = 989e12
"""bf16 operations a second of the tensor cores of an H100 or H200, dense, by their data
sheets."""

AIMS = {"base": 0.40, "big": 0.50}
"""Shares of ``PEAK`` to reach."""

QUALITY_AIM = {"multi30k-bleu": 41.0, "seconds": 60}
QUALITY = (
    "training.backend=torch_compile",
    "training.precision=bf16",
    "training.batch_tokens=16384",
    "training.steps=2400",
    "training.warmup_steps=240",
    "training.learning_rate=0.004",
    "training.validate_every=800",
    "training.average_last=1",
    "training.data_workers=1",
    "model.dropout=0.3",
)
"""What is changed of the recipe: the batches of a GPU, and the dropout of long runs."""

SMALL = (
    "text.vocab_size=400",
    "training.steps=4",
    "training.validate_every=2",
    "training.warmup_steps=2",
    "training.batch_tokens=512",
)
"""What is changed besides for a rehearsal."""


def main() -> None:
    arguments = parsed()
    with tempfile.TemporaryDirectory() as folder:
        work = (arguments.work or Path(folder)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        if arguments.rehearse:
            arguments.out = work / RESULTS.name
            arguments.corpora = small_text(work / "text")
        out: Path = arguments.out
        result = json.loads(out.read_text("utf-8")) if out.is_file() else {}
        corpus = prepared(arguments, work)
        for part in arguments.parts:
            arguments.measurement = Measurement.begin(
                [*TRAINING, "benchmarks/training/*.py", "recipes/multi30k.toml"]
            )
            PARTS[part](arguments, corpus, work, result)
        print(json.dumps({name: result.get(name) for name in ("ratios", "quality")}))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ROOT.parent / "shared" / "data"
    corpora = Path(os.environ.get("HEADWISE_CORPORA", default))
    parser.add_argument("--corpora", type=Path, default=corpora)
    parser.add_argument("--work", type=Path, help="default: a folder for the moment")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", nargs="+", choices=GPU_SIZES)
    parser.add_argument("--only", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--updates", type=int)
    parser.add_argument("--warm-up", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--rehearse", action="store_true")
    arguments = parser.parse_args()
    small = arguments.rehearse
    usual: dict[str, Any] = {
        "sizes": ["tiny"] if small else ["base", "big"],
        "batch_tokens": 512 if small else 25_000,
        "updates": 3 if small else 60,
        "warm_up": 2 if small else 20,
        "rounds": 1 if small else 5,
    }
    for name, value in usual.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def small_text(folder: Path) -> Path:
    """Write headwise's own small corpus in the place of Multi30k."""
    corpus = demo_corpus(num_train=600, num_held_out=20, seed=1)
    (folder / "multi30k").mkdir(parents=True, exist_ok=True)
    parts = {
        "train": corpus.train,
        "val": corpus.dev[:20],
        "test_2016_flickr": corpus.held_out,
    }
    for part, pairs in parts.items():
        for side, language in (("en", "english"), ("de", "french")):
            text = "".join(getattr(pair, language) + "\n" for pair in pairs)
            target = folder / "multi30k" / f"{part}.{side}.gz"
            target.write_bytes(gzip.compress(text.encode()))
    return folder


def environment() -> dict[str, str]:
    """Return what the processes see: this headwise, and the benchmarks' modules."""
    paths = [str(Path(__file__).parent), str(ROOT / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def headwise(*words: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    command = [sys.executable, "-m", "headwise", *map(str, words)]
    return subprocess.run(command, env=environment(), check=True, text=True, **how)


def prepared(arguments: argparse.Namespace, work: Path) -> Path:
    """Prepare Multi30k by the command line, unless it is there already."""
    multi30k, corpus = arguments.corpora / "multi30k", work / "corpus"
    sides = {
        part: [multi30k / f"{part}.{side}.gz" for side in ("en", "de")]
        for part in ("train", "val")
    }
    size = ["--set", SMALL[0]] if arguments.rehearse else []
    words = [*sides["train"], "--dev", *sides["val"], "--recipe", RECIPE, *size]
    headwise("prepare", *words, "--out", corpus)
    return corpus


def speed(
    arguments: argparse.Namespace, corpus: Path, work: Path, result: dict[str, Any]
) -> None:
    """Let all take turns, each in a process of its own."""
    rows = {(row["size"], row["trainer"]): row for row in result.get("rows", [])}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    failures = result.setdefault("failures", {})
    for number in range(arguments.rounds):
        for size in arguments.sizes:
            for trainer in arguments.only:
                one = run(arguments, corpus, size, trainer)
                if isinstance(one, str):
                    failures[f"{size}, {trainer}"] = one
                    print(f"{size}, {trainer}: {one}", file=sys.stderr)
                    continue
                failures.pop(f"{size}, {trainer}", None)
                found.setdefault((size, trainer), []).append(one)
                rows[size, trainer] = row(found[size, trainer], arguments)
                rate = one["tokens_per_second"]
                print(
                    f"round {number + 1}: {size}, {trainer}: {rate:,.0f} tokens/s",
                    file=sys.stderr,
                )
                result |= {"rows": list(rows.values()), "ratios": ratios(rows)}
                write_json(arguments.out, result)


def run(
    arguments: argparse.Namespace, corpus: Path, size: str, trainer: str
) -> dict[str, Any] | str:
    """Run one case; return what it said last where it failed."""
    words = ["training.on_gpu", trainer, "--corpus", str(corpus), "--size", size]
    words += ["--device", "cpu" if arguments.rehearse else "cuda"]
    for name in ("batch_tokens", "warm_up", "updates"):
        words += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return " ".join(done.stderr.split())[-600:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(rounds: list[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Sum up the rounds of one case."""
    last = rounds[-1]
    median = plan.spread(each["flops_per_second"] for each in rounds)["median"]
    has_peak = any(name in last["device"] for name in ("H100", "H200"))
    return {
        **{name: last[name] for name in ("size", "trainer", "precision", "device")},
        "batch_tokens": arguments.batch_tokens,
        "tokens_per_second": plan.spread(each["tokens_per_second"] for each in rounds),
        "tflop_per_second": round(median / 1e12, 2),
        "share_of_peak": round(median / PEAK, 3) if has_peak else None,
        "aim": AIMS.get(last["size"]) if last["trainer"] == "headwise" else None,
        "seconds_per_update": plan.spread(
            (each["seconds_per_update"] for each in rounds), 4
        ),
        "seconds_to_first_update": plan.spread(
            (each["seconds_to_first_update"] for each in rounds), 1
        ),
        "tokens_per_update": round(last["tokens_per_update"]),
        "peak_memory_mib": last["peak_memory_mib"],
        "losses": [last["first_loss"], last["last_loss"]],
        "rounds": len(rounds),
        **arguments.measurement.provenance(),
    }


def ratios(rows: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Divide headwise by each of the others."""
    table = []
    for (size, trainer), theirs in rows.items():
        ours = rows.get((size, "headwise"))
        if ours is None or trainer == "headwise":
            continue
        medians = [each["tokens_per_second"]["median"] for each in (ours, theirs)]
        table.append(
            {
                "size": size,
                "rival": trainer,
                "times_as_fast": round(medians[0] / max(1, medians[1]), 2),
            }
        )
    return table


def quality(
    arguments: argparse.Namespace, corpus: Path, work: Path, result: dict[str, Any]
) -> None:
    """Train tiny by the command line, and measure what it has learned."""
    trained = work / "run"
    shutil.rmtree(trained, ignore_errors=True)
    changed = [*QUALITY, *(SMALL if arguments.rehearse else ()), *arguments.assignments]
    recipe = ["--recipe", RECIPE, *(w for each in changed for w in ("--set", each))]
    device = ["--device", "cpu" if arguments.rehearse else "cuda"]
    started = time.monotonic()
    headwise("train", corpus, "--out", trained, *recipe, *device)
    whole = time.monotonic() - started
    lines = (trained / "log.jsonl").read_text("utf-8").split("\n")[:-1]
    entries = [json.loads(line) for line in lines]
    updates = [entry for entry in entries if entry["what"] == "update"]
    looks = [entry for entry in entries if entry["what"] == "validation"]
    scores = {}
    for part in ("val", "test_2016_flickr"):
        sides = [
            arguments.corpora / "multi30k" / f"{part}.{s}.gz" for s in ("en", "de")
        ]
        metrics = ["--metric", "multi30k-bleu", "--metric", "bleu", "--language", "de"]
        how = [*metrics, "--engine", "torch", "--json", *device]
        done = headwise("evaluate", trained, *sides, *how, stdout=subprocess.PIPE)
        scores[part] = json.loads(done.stdout)
    result["quality"] = {
        **arguments.measurement.provenance(),
        "recipe": RECIPE.name,
        "changed": changed,
        "aim": QUALITY_AIM,
        "updates": len(updates),
        "tokens": sum(entry["tokens"] for entry in updates),
        "seconds_of_updates": round(sum(entry["seconds"] for entry in updates), 1),
        "seconds_of_the_command": round(whole, 1),
        "looks": [
            {
                "step": entry["step"],
                "loss": round(entry["loss"], 4),
                "bleu": round(entry["scores"]["bleu"]["value"], 2),
                "seconds": round(entry["seconds"], 1),
            }
            for entry in looks
        ],
        "scores": scores,
    }
    write_json(arguments.out, result)


PARTS = {"speed": speed, "quality": quality}


if __name__ == "__main__":
    main()

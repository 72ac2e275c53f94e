"""Send stop signals to the command line at random moments of everything it does.

OMP_NUM_THREADS=1 python -m benchmarks.durability.stops

``headwise run`` prepares text, trains a model whose updates take seconds, and measures
it. SIGTERM or SIGINT comes after a random time; the command must end within five
seconds with status 75 or 130, and no update that was made may be lost. It is then typed
again until it is done, and must have the weights of a run that was left alone.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.durability.reports import arguments_with, finish
from tests.tiny import write_text

from headwise.run_folder.checkpoints import Checkpoints
from headwise.run_folder.paths import BEST, CHECKPOINTS, LOG

CODES = {signal.SIGTERM: 75, signal.SIGINT: 130}
MOST_SECONDS = 5.0

SETTINGS = {
    "text.tokenizer": "unigram",
    "text.vocab_size": 60,
    "data.dev_pairs": 40,
    "model.d_model": 384,
    "model.d_ff": 1536,
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "training.steps": 6,
    "training.batch_tokens": 6144,
    "training.warmup_steps": 4,
    "training.learning_rate": 0.001,
    "training.validate_every": 3,
    "training.validation_pairs": 40,
    "training.average_last": 2,
    "decoding.beam": 2,
    "decoding.max_length_factor": 0.0,
    "decoding.max_length_offset": 12,
}

PHASES = {
    "measuring": "translating ",
    "training": "training: up to",
    "going on": "going on from",
    "preparing": " pairs: preset",
}
"""What the command said last, newest first."""


@dataclass
class Outcome:
    """What came of all signals."""

    stops: Counter[str] = field(default_factory=Counter)
    """Signals by what the command was doing."""

    seconds: list[float] = field(default_factory=list)
    """From each signal to the end of the command."""

    runs: int = 0
    problems: list[str] = field(default_factory=list)


def main() -> None:
    arguments = arguments_with(__doc__, stops=(60, "signals"), seed=(1, "of the times"))
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        outcome = stop_often(Path(scratch), arguments.stops, arguments.seed)
    facts = {
        "stops": outcome.stops.total(),
        "stops while": dict(outcome.stops),
        "seconds to the end": {
            "median": round(statistics.median(outcome.seconds), 2),
            "most": round(max(outcome.seconds), 2),
        },
        "runs that reached their end": outcome.runs,
        "problems": outcome.problems,
    }
    print(json.dumps(facts, indent=2))
    finish("stops", facts, outcome.problems, arguments)


def stop_often(scratch: Path, num_stops: int, seed: int) -> Outcome:
    """Stop runs so many times in all, and let the last one reach its end."""
    outcome = Outcome()
    chance = random.Random(seed)
    text = write_text(scratch / "text", num_pairs=8_000)
    reference, folder = scratch / "alone", scratch / "run"
    began = time.monotonic()
    subprocess.run(command(text, reference), check=True, capture_output=True)
    whole = time.monotonic() - began
    print(f"left alone, a run takes {whole:.0f} s", file=sys.stderr, flush=True)
    number = 0
    while number < num_stops and not outcome.problems:
        number += 1
        sent = chance.choice(list(CODES))
        if stop_once(command(text, folder), folder, sent, chance, whole, outcome):
            outcome.runs += 1
            outcome.problems += differences(reference, folder)
            shutil.rmtree(folder)
    return outcome


def command(text: tuple[Path, Path], out: Path) -> list[str]:
    assignments = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    return [
        *(sys.executable, "-m", "headwise", "run", str(text[0]), str(text[1])),
        *("--out", str(out), *assignments),
    ]


def stop_once(
    line: list[str],
    folder: Path,
    sent: signal.Signals,
    chance: random.Random,
    whole: float,
    outcome: Outcome,
) -> bool:
    """Stop the command once; return whether it was done before."""
    said = folder.with_name("said")
    with said.open("w") as file:
        process = subprocess.Popen(line, stdout=file, stderr=file)
    while not said.read_text() and process.poll() is None:
        time.sleep(0.01)  # until it speaks it has begun nothing
    time.sleep(chance.uniform(0, 0.6 * whole))
    if process.poll() is not None:
        if process.returncode:
            outcome.problems.append(said.read_text())
        return True
    phase = next(
        (name for name, words in PHASES.items() if words in said.read_text()), "begun"
    )
    began = time.monotonic()
    process.send_signal(sent)
    code = process.wait(timeout=120)
    took = time.monotonic() - began
    outcome.stops[phase] += 1
    outcome.seconds.append(took)
    text = said.read_text()
    if code == 0:
        return True  # it came to its end meanwhile
    if code != CODES[sent] or "Traceback" in text:
        outcome.problems.append(f"{sent.name} while {phase}: status {code}\n{text}")
    if took > MOST_SECONDS:
        outcome.problems.append(f"{sent.name} while {phase} took {took:.1f} s\n{text}")
    made, saved = updates_made(folder), updates_saved(folder)
    if made != saved:
        outcome.problems.append(f"{phase}: {made} updates made, {saved} saved\n{text}")
    return False


def updates_made(folder: Path) -> int:
    log = folder / LOG
    if not log.exists():
        return 0
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return max((e["step"] for e in entries if e["what"] == "update"), default=0)


def updates_saved(folder: Path) -> int:
    found = Checkpoints(folder / CHECKPOINTS, print).newest()
    return found.state.step if found else 0


def differences(reference: Path, folder: Path) -> list[str]:
    last = f"{CHECKPOINTS}/step-{SETTINGS['training.steps']:08d}"
    return [
        f"{name} differs from that of the run that was left alone"
        for name in (
            *(f"{last}/model.safetensors", f"{last}/optimizer.safetensors"),
            f"{BEST}/model.safetensors",
        )
        if (reference / name).read_bytes() != (folder / name).read_bytes()
    ]


if __name__ == "__main__":
    main()

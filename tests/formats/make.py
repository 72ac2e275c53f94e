"""Write the small run that is kept of each format: python tests/formats/make.py NEW.

Run it with the version whose format is to be kept, once, before the next format comes.
What was written then is never written again: it is what users have on their disks.
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from headwise.data.prepare import prepare
from headwise.recipe import resolve
from headwise.run_folder.run import train_run

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier"}
SETTINGS = {
    "data": {"corpora": [{"source": "train.en", "target": "train.de"}], "dev_pairs": 6},
    # Without a table of Unicode's normal forms the tokenizer's file is small.
    "text": {"vocab_size": 32, "normalization": "none"},
    "model": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "d_model": 8,
        "d_ff": 16,
        "num_heads": 2,
        "dropout": 0.0,
    },
    "training": {
        "steps": 240,
        "batch_tokens": 256,
        "warmup_steps": 10,
        "learning_rate": 0.03,
        "schedule": "linear",
        "validate_every": 120,
        "validation_pairs": 6,
        "average_last": 1,
    },
}
LEFT_OUT = ("report.html", "tensorboard", ".lock")


def main(out: Path) -> None:
    """Train, and keep what a later version has to open."""
    torch.set_num_threads(1)
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)  # so that recipe and corpus name files, and no folder of ours
        rows = [
            chance.choices(sorted(WORDS), k=chance.randint(1, 4)) for _ in range(60)
        ]
        for name, said in (("train.en", str), ("train.de", WORDS.get)):
            text = "".join(" ".join(map(said, row)) + ".\n" for row in rows)
            Path(name).write_text(text, encoding="utf-8")
        recipe = resolve(extra=SETTINGS)
        corpus = prepare(
            recipe.data, recipe.text, Path("run/prepared"), seed=recipe.seed
        )
        train_run(Path("run"), recipe, corpus)
        ignored = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree("run", out, ignore=ignored)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

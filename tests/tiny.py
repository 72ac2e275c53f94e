"""A language of six words and a model that learns it in seconds."""

import random

WORDS = {
    "one": "eins",
    "two": "zwei",
    "three": "drei",
    "four": "vier",
    "five": "fünf",
    "six": "sechs",
}

SETTINGS = {
    "text": {"vocab_size": 50},
    "model": {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "d_model": 16,
        "d_ff": 32,
        "num_heads": 2,
        "dropout": 0.0,
    },
    "training": {
        "steps": 60,
        "batch_tokens": 512,
        "warmup_steps": 20,
        "learning_rate": 0.03,
        "weight_decay": 0.0,
        "schedule": "linear",
        "validate_every": 30,
        "validation_pairs": 5,
        "average_last": 2,
    },
}

ASSIGNMENTS = [
    f"{part}.{name}={value}"
    for part, table in SETTINGS.items()
    for name, value in table.items()
]
"""The same settings as a command line takes them."""


def write_text(folder, num_pairs=200, seed=0):
    """Write ``train.en`` and ``train.de``: numbers, word for word."""
    chance = random.Random(seed)
    rows = [
        chance.choices(sorted(WORDS), k=chance.randint(1, 4)) for _ in range(num_pairs)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for side, said in (("en", lambda word: word), ("de", WORDS.get)):
        lines = [" ".join(map(said, row)) + ".\n" for row in rows]
        (folder / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    return folder / "train.en", folder / "train.de"

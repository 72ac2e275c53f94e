"""A small example of data for every task, which a small model learns in seconds."""

import json
import random

import numpy as np
from tests.tiny import SETTINGS, WORDS, write_text

from headwise.settings import merged
from headwise.tasks import TASKS
from headwise.text.pixels import data_url

COLOURS = ["red", "green", "blue"]
TAGS = {"one": "NUM", "two": "NUM", "dog": "NOUN", "cat": "NOUN", "runs": "VERB"}


def translation(folder):
    source, target = write_text(folder)
    return {"source": str(source), "target": str(target)}


def classification(folder):
    """The label is the colour that is named; other words say nothing."""
    chance = random.Random(1)
    lines = []
    for number in range(150):
        words = [chance.choice(list(WORDS)) for _ in range(3)]
        colour = COLOURS[number % 3]
        words.insert(chance.randrange(4), colour)
        lines.append(f"{' '.join(words)}\tis {colour}\n")
    return write(folder, lines)


def regression(folder):
    """The number is how often "five" stands in the line, times 100."""
    chance = random.Random(1)
    lines = []
    for number in range(300):
        words = ["five"] * (number % 4) + chance.choices(["one", "two"], k=3)
        chance.shuffle(words)
        lines.append(f"{' '.join(words)}\t{100 * words.count('five')}\n")
    return write(folder, lines)


def tagging(folder):
    chance = random.Random(1)
    lines = []
    for _ in range(150):
        words = [chance.choice(list(TAGS)) for _ in range(chance.randrange(1, 7))]
        lines.append(f"{' '.join(words)}\t{' '.join(TAGS[each] for each in words)}\n")
    return write(folder, lines)


def language_model(folder):
    """Verses in which a number follows the one before it."""
    numbers = list(WORDS)
    verses = (" ".join(numbers[start:] + numbers[:start]) for start in range(6))
    path = folder / "verses.txt"
    path.write_text("\n".join([*verses] * 20) + "\n", encoding="utf-8")
    return {"source": str(path), "format": "text"}


def masked_language_model(folder):
    """Numbers in their order, over and over."""
    path = folder / "counting.txt"
    path.write_text(f"{' '.join(WORDS)}\n" * 120, encoding="utf-8")
    return {"source": str(path), "format": "text"}


def parsing(folder):
    """Numbers before a noun are a phrase with it; the verb is alone in its phrase."""
    chance = random.Random(1)
    trees = []
    for _ in range(150):
        numbers = chance.choices(list(WORDS), k=chance.randrange(4))
        words = "".join(f"(CD {each}) " for each in numbers)
        subject = f"(NP-SBJ {words}(NN {chance.choice(['dog', 'cat'])}))"
        trees.append(f"( (S {subject}\n  (VP (VB runs))) )\n")
    path = folder / "train.mrg"
    path.write_text("".join(trees), encoding="utf-8")
    return {"source": str(path)}


def pictures(count, seed=1):
    """Return pictures [N H W] of a bar, and how it lies; grey noise says nothing."""
    chance = np.random.default_rng(seed)
    images = chance.integers(0, 60, (count, 8, 8), dtype=np.uint8)
    labels = np.array(["across", "down", "none"])[np.arange(count) % 3]
    for number, label in enumerate(labels):
        at = chance.integers(0, 8)
        if label == "across":
            images[number, at] = 255
        elif label == "down":
            images[number, :, at] = 255
    return images, labels


def picture_classification(folder):
    images, labels = pictures(150)
    path = folder / "bars.npz"
    np.savez_compressed(path, images=images, labels=labels)
    return {"source": str(path), "format": "pictures"}


def captioning(folder):
    images, labels = pictures(150)
    path = folder / "bars.npz"
    texts = [f"a bar {label}" if label != "none" else "no bar" for label in labels]
    np.savez_compressed(path, images=images, labels=np.array(texts))
    return {"source": str(path), "format": "pictures"}


def dialogue(folder):
    """The assistant says the number after the one that the user says."""
    numbers = list(WORDS)
    after = dict(zip(numbers, [*numbers[1:], numbers[0]], strict=True))
    chance = random.Random(1)
    lines = []
    for _ in range(200):
        turns = []
        for word in chance.choices(numbers, k=chance.randint(1, 3)):
            turns.append({"role": "user", "text": word})
            turns.append({"role": "assistant", "text": after[word]})
        lines.append(json.dumps({"turns": turns}) + "\n")
    path = folder / "dialogues.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return {"source": str(path), "format": "dialogues"}


def write(folder, lines):
    path = folder / "examples.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return {"source": str(path)}


EXAMPLES = {
    "translation": translation,
    "classification": classification,
    "regression": regression,
    "tagging": tagging,
    "language_model": language_model,
    "masked_language_model": masked_language_model,
    "parsing": parsing,
    "picture_classification": picture_classification,
    "captioning": captioning,
    "dialogue": dialogue,
}
"""Functions that write files into a folder, and return the settings of a corpus."""

PICTURES, _ = pictures(2, seed=2)
PICTURE_LINES = [
    data_url(PICTURES[0][None, :, :, None]),
    "",
    data_url(PICTURES[1][None, :, :, None]),
]

INPUTS = {
    "translation": ["one two", "", "three"],
    "classification": ["one red two", "", "blue six six"],
    "regression": ["five one five", "", "two one"],
    "tagging": ["one dog runs", "", "cat"],
    "language_model": ["one two three", "", "five six"],
    "masked_language_model": ["one [MASK] three", "", "five six"],
    "parsing": ["one dog runs", "", "cat runs"],
    "picture_classification": PICTURE_LINES,
    "captioning": PICTURE_LINES,
    "dialogue": ["one", "", '{"turns": [{"role": "user", "text": "two"}]}'],
}
"""Some inputs of each task, a blank one among them."""

OWN_SETTINGS = {
    "language_model": {"data": {"max_tokens": 32}},
    "masked_language_model": {
        "text": {"tokenizer": "words"},
        "data": {"max_tokens": 32},
        "model": {"d_model": 32, "num_heads": 4, "positions": "rotary"},
        "training": {"steps": 240, "validate_every": 60, "learning_rate": 0.02},
    },
}


def settings_of(task, folder):
    """Return the settings of a recipe that learns the example of ``task``."""
    table = merged(SETTINGS, OWN_SETTINGS.get(task, {}))
    absent = {"encoder", "decoder"} - {*TASKS[task].stacks}
    table = merged(table, {"model": {f"{stack}_layers": 0 for stack in absent}})
    return merged(table, {"task": task, "data": {"corpora": [EXAMPLES[task](folder)]}})


def train_example(task, folder, **training):
    """Train on the example of ``task``; return the run folder."""
    from headwise.cli.prepare_and_train import prepare_corpus
    from headwise.recipe import resolve
    from headwise.run_folder.run import train_run

    table = settings_of(task, folder)
    recipe = resolve(extra=merged(table, {"training": training}))
    train_run(folder / "run", recipe, prepare_corpus(folder / "run", recipe))
    return folder / "run"

"""Samples by name, as ``headwise demo NAME`` writes and learns them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from headwise import storage
from headwise.sample_data.baskets import baskets
from headwise.sample_data.commands import commands
from headwise.sample_data.coreference import coreferences
from headwise.sample_data.dialogues import Dialogue, dialogues
from headwise.sample_data.phones import phones
from headwise.sample_data.sentence_compression import without_modifiers
from headwise.sample_data.sentiment import reviews
from headwise.sample_data.sets import most_frequent, sums
from headwise.sample_data.splits import LabelledText, Splits
from headwise.sample_data.trees import TreeExample, tree_examples
from headwise.text.trees import Tree, parse_tree

T = TypeVar("T")

Parts = Mapping[str, bytes]
"""Name of a part (train, dev, test) -> the content of its file."""


@dataclass(frozen=True)
class Sample:
    """A generated data set, and settings with which it is learned in minutes."""

    summary: str
    """What is to be learned, in a few words."""

    task: str
    parts: Callable[[], Parts]
    suffix: str = ".tsv"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> dict[str, Path]:
        """Write a file for each part into ``folder``; return their paths."""
        storage.make_folder(folder)
        paths = {}
        for part, content in self.parts().items():
            paths[part] = folder / f"{part}{self.suffix}"
            storage.write_bytes(paths[part], content)
        return paths


def _labelled(generate: Callable[[], Splits[LabelledText]]) -> Callable[[], Parts]:
    """Return a function that gives the texts and labels of ``generate`` as lines."""
    return lambda: _lines(generate(), lambda each: f"{each.text}\t{each.label}")


def _pronouns() -> Parts:
    return _lines(
        coreferences(),
        lambda each: f"{each.text} {' or '.join(each.candidates)}?\t{each.label}",
    )


def _dialogues() -> Parts:
    """Return whole dialogues to learn from; the others end with any late answer."""
    found, rng = dialogues(), Random(1)

    def shortened(part: Sequence[Dialogue]) -> tuple[Dialogue, ...]:
        answers = ((each, len(each.turns) // 2) for each in part)
        return tuple(each.up_to(rng.randint(-(-n // 2), n)) for each, n in answers)

    splits = Splits(found.train, shortened(found.dev), shortened(found.test))
    return _lines(splits, lambda each: each.to_json())


def _summaries() -> Parts:
    """Return sentences, and what is left of them without their modifiers."""

    def line(example: TreeExample) -> str:
        tree = parse_tree(example.tree)
        return f"{' '.join(tree.words)}\t{' '.join(without_modifiers(tree))}"

    return _lines(tree_examples(), line)


def _tags() -> Parts:
    """Return sentences, and the part of speech of each word.

    That of a preposition says whether its phrase belongs to a noun or to a verb.
    """

    def line(example: TreeExample) -> str:
        tree = parse_tree(example.tree)
        return f"{' '.join(tree.words)}\t{' '.join(_tags_of(tree))}"

    return _lines(tree_examples(), line)


def _tags_of(tree: Tree, above: str = "") -> Iterator[str]:
    """Yield the tag of each word of a phrase; ``above`` is the phrase that it is in."""
    for child in tree.subtrees:
        if not child.is_preterminal:
            yield from _tags_of(child, tree.label)
        elif tree.label == "PP" and child.label == "IN":
            yield f"IN-{above}"
        else:
            yield child.label


def _sentences() -> Parts:
    """Return sentences as they are written, one a line."""

    def line(example: TreeExample) -> str:
        text = " ".join(parse_tree(example.tree).words).replace(" .", ".")
        return text[0].upper() + text[1:]

    return _lines(tree_examples(), line)


def _lines(splits: Splits[T], line: Callable[[T], str]) -> Parts:
    return {
        name: "".join(f"{line(each)}\n" for each in part).encode()
        for name, part in _parts(splits).items()
    }


def _parts(splits: Splits[T]) -> Mapping[str, Sequence[T]]:
    return {"train": splits.train, "dev": splits.dev, "test": splits.test}


def _scenes() -> Parts:
    """Return pictures and their captions."""
    from headwise.sample_data.scenes import scenes

    return _pictures(
        scenes(), "images", lambda each: each.pixels(), lambda each: each.sentence
    )


def _digits() -> Parts:
    """Return pictures of digits and which ones they are."""
    from headwise.sample_data.digits import digits

    return _pictures(
        digits(), "images", lambda each: each.pixels(), lambda each: each.label
    )


def _moving_shapes() -> Parts:
    """Return videos and their labels."""
    from headwise.sample_data.moving_shapes import videos

    return _pictures(
        videos(), "videos", lambda each: each.frames(), lambda each: each.label
    )


def _pictures(
    splits: Splits[T], name: str, draw: Callable[[T], Any], label: Callable[[T], str]
) -> Parts:
    """Return pictures or videos under ``name``, and labels, as ``.npz`` files."""
    return {
        part: _npz(
            **{name: [draw(each) for each in examples]},
            labels=[label(each) for each in examples],
        )
        for part, examples in _parts(splits).items()
    }


def _npz(**arrays: Sequence[Any]) -> bytes:
    import numpy as np

    file = io.BytesIO()
    named: dict[str, Any] = {key: np.array(each) for key, each in arrays.items()}
    np.savez_compressed(file, **named)
    return file.getvalue()


NO_POSITIONS = {
    "text": {"tokenizer": "spaces"},
    "model": {"positions": "none", "dropout": 0.0},
}

OF_PICTURES = {
    "d_model": 128,
    "d_ff": 512,
    "num_heads": 4,
    "norm": "pre",
    "activation": "gelu",
    "positions": "rotary",
    "dropout": 0.0,
}
"""Models that tell places of a picture, or of the frames after it, by distance."""

SAMPLES: dict[str, Sample] = {
    "reviews": Sample(
        "is a review positive or negative?",
        "classification",
        _labelled(reviews),
        settings={"text": {"tokenizer": "words"}},
    ),
    "most-frequent": Sample(
        "which symbol of a set is the most frequent? (no positions)",
        "classification",
        _labelled(most_frequent),
        settings=NO_POSITIONS,
    ),
    "sums": Sample(
        "what do the numbers of a set add up to? (no positions)",
        "classification",
        _labelled(sums),
        # After 1,500 updates 97% of the sums are right, and the loss still falls.
        settings=NO_POSITIONS | {"training": {"steps": 6_000}},
    ),
    "totals": Sample(
        "what does a basket of things cost?",
        "regression",
        _labelled(baskets),
        settings={"text": {"tokenizer": "words"}},
    ),
    "pronouns": Sample(
        "which of two nouns does a pronoun stand for?",
        "classification",
        _pronouns,
        settings={"text": {"tokenizer": "words"}},
    ),
    "dialogues": Sample(
        "what does an assistant answer, where rules say it?",
        "dialogue",
        _dialogues,
        suffix=".jsonl",
        settings={
            "text": {"vocab_size": 500},
            "training": {"measure": "exact-match"},
        },
    ),
    "sentences": Sample(
        "how does a sentence go on?",
        "language_model",
        _sentences,
        suffix=".txt",
    ),
    "blanks": Sample(
        "which word is missing from a sentence?",
        "masked_language_model",
        _sentences,
        suffix=".txt",
    ),
    "tags": Sample(
        "which part of speech is each word, and what does a preposition belong to?",
        "tagging",
        _tags,
        settings={"text": {"tokenizer": "words"}},
    ),
    "trees": Sample(
        "what is the constituency tree of a sentence?",
        "parsing",
        lambda: _lines(tree_examples(), lambda each: each.tree),
        suffix=".mrg",
        settings={"text": {"tokenizer": "words"}},
    ),
    "summaries": Sample(
        "what is left of a sentence without its modifiers?",
        "translation",
        _summaries,
        settings={"text": {"tokenizer": "words"}},
    ),
    "commands": Sample(
        "which actions does a command ask for?",
        "translation",
        _labelled(commands),
        settings={
            "text": {"tokenizer": "spaces", "joint": False},
            "model": {"tie_embeddings": "output", "positions": "rotary"},
            "decoding": {"max_length_offset": 20},
            "training": {"measure": "exact-match"},
        },
    ),
    "phones": Sample(
        "how is a word of an invented language spoken?",
        "translation",
        _labelled(phones),
        settings={
            "text": {
                "tokenizer": "characters",
                "target_tokenizer": "spaces",
                "joint": False,
            },
            "model": {"tie_embeddings": "output", "positions": "rotary"},
            "training": {"measure": "word-error-rate"},
        },
    ),
    "scenes": Sample(
        "what does a picture of coloured shapes show?",
        "captioning",
        _scenes,
        suffix=".npz",
        settings={
            "text": {"target_tokenizer": "spaces"},
            "captioning": {"patch_size": 8},
            "model": {
                **OF_PICTURES,
                "encoder_layers": 3,
                "decoder_layers": 2,
                "dropout": 0.1,
            },
            "training": {
                "measure": "exact-match",
                "steps": 2_000,
                "batch_tokens": 4096,
                "optimizer": "muon",
                "learning_rate": 0.005,
                "warmup_steps": 100,
            },
        },
    ),
    "digits": Sample(
        "which digit was written?",
        "picture_classification",
        _digits,
        suffix=".npz",
        settings={
            "picture_classification": {"patch_size": 4},
            "model": {**OF_PICTURES, "encoder_layers": 3, "dropout": 0.1},
            "training": {"batch_tokens": 2048, "learning_rate": 0.001},
        },
    ),
    "moving-shapes": Sample(
        "how does the shape in a video move?",
        "picture_classification",
        _moving_shapes,
        suffix=".npz",
        settings={
            "picture_classification": {"patch_size": 8},
            "model": {**OF_PICTURES, "encoder_layers": 3},
            "training": {"steps": 1_500, "batch_tokens": 4096, "learning_rate": 0.001},
        },
    ),
}
"""Every sample by its name."""

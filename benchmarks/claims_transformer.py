"""Trials of small Transformers, for ``claims.py``: positions, residuals, norms, tying.

Letters used for sizes: B batch rows, L positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from small_training import (
    END,
    FIRST,
    PAD,
    Batch,
    accuracies,
    logits_of,
    make_transformer,
    mean_loss,
    optimize,
    padded,
    pair_loss,
    word_pairs,
)
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.backends.pytorch.install_fused import use_backend
from headwise.inspection.hooks import capture_outputs
from headwise.inspection.places import blocks
from headwise.model import EncoderOnly, Transformer, TransformerConfig
from headwise.model.positions import LONGEST_WAVE, AddPositions, Sinusoids

SHAPE = TransformerConfig(
    encoder_layers=2,
    decoder_layers=2,
    d_model=64,
    d_ff=128,
    num_heads=4,
    dropout=0.0,
)
ROWS = 32
LEARNING_RATE = 0.002

Table = dict[str, Any]

SHALLOW: Table = {"encoder_layers": 1, "decoder_layers": 1}

# Copying texts that are longer than those of training.

LETTERS = 10
TRAINED = 20
"""Symbols at most of a text in training."""

LENGTHS = (10, 20, 25, 30, 40, 60, 80)
COPY_UPDATES = 1_500
POSITIONS = {
    each: {"positions": each, "max_positions": 128}
    for each in (
        *("sinusoidal", "learned", "rotary", "none"),
        *("alibi", "shaw", "t5", "number", "fraction"),
    )
}


def copy_trial(choice: Table, seed: int, rehearse: bool) -> Table:
    """Learn to copy up to ``TRAINED`` symbols; return accuracies by length."""
    rng = Random(seed)
    model = make_transformer(choice, SHAPE, LETTERS + FIRST, seed)

    def loss_of(number: int) -> Tensor:
        lengths = [rng.randint(1, TRAINED) for _ in range(ROWS)]
        return pair_loss(model, copies(lengths, rng))

    updates = 5 if rehearse else COPY_UPDATES
    losses = optimize(model, loss_of, updates=updates, learning_rate=LEARNING_RATE)
    tests = {length: copies([length] * 200, rng) for length in LENGTHS}
    found = {str(length): accuracies(model, test) for length, test in tests.items()}
    return {**losses, "by_length": found}


def copies(lengths: list[int], rng: Random) -> Batch:
    """Return texts of random symbols, each as source and as target."""
    rows = [
        [*(rng.randrange(FIRST, FIRST + LETTERS) for _ in range(length)), END]
        for length in lengths
    ]
    return padded(rows), padded(rows)


# The demo corpus: residual connections, tied embeddings, learned positions.

DEMO_UPDATES, RESIDUAL_UPDATES = 400, 200
FREQUENCY_A_CHANNEL = "frequency_a_channel"
"""Of a choice, besides the settings of the model: ``channel_sinusoids``."""

CONCATENATED = {"position_join": "concatenate", "tie_embeddings": "none"}
DEEP: Table = {
    "encoder_layers": 6,
    "decoder_layers": 6,
    "d_model": 32,
    "d_ff": 64,
}
RESIDUALS: dict[str, Table] = {
    "all": DEEP,
    "none": {**DEEP, "residual": "none"},
    "all, concatenated": {**DEEP, **CONCATENATED},
    "positions, concatenated": {**DEEP, **CONCATENATED, "residual": "positions"},
}
TYING = {
    each: {**SHALLOW, "tie_embeddings": each} for each in ("all", "output", "none")
}
LEARNED = {each: {**SHALLOW, "positions": each} for each in ("sinusoidal", "learned")}
SINUSOIDS: dict[str, Table] = {
    "a frequency for each pair of channels": SHALLOW,
    "a frequency for each channel": {**SHALLOW, FREQUENCY_A_CHANNEL: True},
}
WIDE = {"d_model": 2 * SHAPE.d_model}
ADDING: dict[str, Table] = {
    "added": {**SHALLOW, "tie_embeddings": "none"},
    "added, twice as wide": {**SHALLOW, "tie_embeddings": "none", **WIDE},
    "concatenated": {**SHALLOW, **CONCATENATED, **WIDE},
}
"""Concatenated, a word and a position each have the channels that their sum has; the
model is twice as wide by that, as the second one is too."""


def channel_sinusoids(positions: Tensor, width: int) -> Tensor:
    """Return the encodings [L P] of explanation 3: cosine first, positions from 1.

    Channel i, from 1, has the frequency 10000^(-2 i / width) to itself.
    """
    channels = torch.arange(1, width + 1, dtype=torch.float64)
    angles = (positions[:, None] + 1) / LONGEST_WAVE ** (2 * channels / width)
    return torch.where(channels % 2 == 1, angles.cos(), angles.sin())


def shift_error(formula: Callable[[Tensor, int], Tensor], width: int = 16) -> float:
    """Return how far a linear map from each position to the next is off, in float64.

    The root of the share of the squares that least squares leave over 40 times as many
    positions as channels; about 0 where the rotation of Section 3.5 exists.
    """
    table = formula(torch.arange(40 * width + 1), width)
    rotation = torch.linalg.lstsq(table[:-1], table[1:], driver="gelsd").solution
    rest = table[1:] - table[:-1] @ rotation
    return float(rest.norm() / table[1:].norm())


def train_on_words(
    choice: Table, seed: int, updates: int
) -> tuple[Transformer, dict[str, float]]:
    """Train on the demo corpus; return the model and its losses."""
    data, rng = word_pairs(), Random(seed)
    shape = replace(SHAPE, max_positions=64)
    settings = {**choice}
    is_by_channel = settings.pop(FREQUENCY_A_CHANNEL, False)
    model = make_transformer(settings, shape, data.vocab_size, seed)
    for module in model.modules():
        if is_by_channel and isinstance(module, AddPositions):
            module.scheme = Sinusoids(channel_sinusoids, SHAPE.d_model)
    losses = optimize(
        model,
        lambda number: pair_loss(model, data.batch(rng, ROWS)),
        updates=updates,
        learning_rate=LEARNING_RATE,
    )
    return model, losses


def words_trial(choice: Table, seed: int, rehearse: bool) -> Table:
    """Return the loss of the development part, and how sure the model is."""
    model, losses = train_on_words(choice, seed, 5 if rehearse else DEMO_UPDATES)
    dev = word_pairs().dev_batches()
    return {**losses, "dev_loss": mean_loss(model, dev), **confidence(model, dev)}


@torch.no_grad()
def confidence(model: Transformer, batches: list[Batch]) -> dict[str, float]:
    """Return mean entropy in nats, mean largest probability, and accuracy of tokens."""
    entropies, largest, right = [], [], []
    for batch in batches:
        logits, target = logits_of(model, batch)
        log_p = logits.log_softmax(dim=-1)
        entropies.append(torch.special.entr(log_p.exp()).sum(dim=-1))
        best = log_p.max(dim=-1)
        largest.append(best.values.exp())
        right.append((best.indices == target).float())
    return {
        "entropy": float(torch.cat(entropies).mean()),
        "largest_probability": float(torch.cat(largest).mean()),
        "accuracy": float(torch.cat(right).mean()),
    }


def residual_trial(choice: Table, seed: int, rehearse: bool) -> Table:
    """Return losses, and how well layers of the encoder tell positions."""
    data = word_pairs()
    shape = replace(SHAPE, max_positions=64)
    fresh = make_transformer(choice, shape, data.vocab_size, seed)
    before = positions_by_layer(fresh.eval())
    updates = 5 if rehearse else RESIDUAL_UPDATES
    model, losses = train_on_words(choice, seed, updates)
    return {
        **losses,
        "dev_loss": mean_loss(model, data.dev_batches()),
        "positions_before": before,
        "positions_after": positions_by_layer(model),
    }


@torch.no_grad()
def positions_by_layer(model: Transformer) -> list[float]:
    """Return R² of the position by ridge regression from the vectors of each layer.

    First of the input of the encoder, then of each of its blocks. Half of the sentences
    fit the regression, the other half is predicted.
    """
    modules = {"input": model.enter_encoder}
    modules |= {str(i): x for i, x in enumerate(blocks(model, "encoder"))}
    vectors: dict[str, list[NDArray[np.float64]]] = {name: [] for name in modules}
    places, halves = [], []
    for source, _ in word_pairs().dev_batches():
        is_real = source != PAD
        with capture_outputs(modules) as found:
            model.encode_source(source, is_real)
        for name, output in found.items():
            vectors[name].append(output[is_real].double().numpy())
        rows, columns = is_real.nonzero(as_tuple=True)
        places.append(columns.double().numpy())
        halves.append((rows % 2).numpy())
    target, half = np.concatenate(places), np.concatenate(halves)
    return [r_squared(np.concatenate(x), target, half == 0) for x in vectors.values()]


RIDGE = 1e-3
"""Of the mean variance of the inputs."""


def r_squared(
    inputs: NDArray[np.float64],
    target: NDArray[np.float64],
    is_train: NDArray[np.bool_],
) -> float:
    """Return R² of ridge regression on the rows that are not ``is_train``."""
    middle, mean = inputs[is_train].mean(axis=0), target[is_train].mean()
    x, y = inputs[is_train] - middle, target[is_train] - mean
    gram = x.T @ x
    gram += RIDGE * max(np.trace(gram) / len(gram), 1e-12) * np.eye(len(gram))
    weights = np.linalg.solve(gram, x.T @ y)
    rest = target[~is_train]
    errors = rest - mean - (inputs[~is_train] - middle) @ weights
    return float(1 - (errors**2).sum() / ((rest - rest.mean()) ** 2).sum())


# Batch normalization on texts of equal and of varied lengths.

EQUAL, VARIED = (12, 12), (1, 23)
NORM_UPDATES = 1_000
NORMS = {
    f"{kind}, {name} lengths": {"norm_kind": kind, "lengths": lengths}
    for kind in ("layer", "batch")
    for name, lengths in (("equal", EQUAL), ("varied", VARIED))
}


class Reverser(nn.Module):
    """An encoder alone with a logit for each symbol at each position."""

    def __init__(self, norm_kind: str, seed: int) -> None:
        super().__init__()
        shape = replace(SHAPE, decoder_layers=0, tie_embeddings="none")
        config = replace(shape, norm_kind=norm_kind)
        encoder = EncoderOnly(config, LETTERS + FIRST, seed=seed)
        self.encoder = use_backend(encoder, "reference")
        torch.manual_seed(seed)
        self.output = nn.Linear(SHAPE.d_model, LETTERS + FIRST)

    def forward(self, source: Tensor) -> Tensor:
        """Return logits [B L V]."""
        logits: Tensor = self.output(self.encoder.encode(source, source != PAD))
        return logits

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy, in nats, of the symbols."""
        source, target = batch
        return F.cross_entropy(self(source)[target != PAD], target[target != PAD])


def reversals(lengths: tuple[int, int], rows: int, rng: Random) -> Batch:
    """Return texts with END, and their symbols in the opposite order, without END.

    An encoder alone sees no target, so that batch normalization tells nothing of it.
    """
    texts = [
        [rng.randrange(FIRST, FIRST + LETTERS) for _ in range(rng.randint(*lengths))]
        for _ in range(rows)
    ]
    source = padded([[*text, END] for text in texts])
    return source, padded([[*text[::-1], PAD] for text in texts])


def norm_trial(choice: Table, seed: int, rehearse: bool) -> Table:
    """Learn to reverse texts; return the losses with running and batch statistics."""
    rng = Random(seed)
    lengths = tuple(choice["lengths"])
    model = Reverser(choice["norm_kind"], seed)
    losses = optimize(
        model,
        lambda number: model.loss(reversals(lengths, ROWS, rng)),
        updates=5 if rehearse else NORM_UPDATES,
        learning_rate=LEARNING_RATE,
    )
    tests = [reversals(lengths, ROWS, rng) for _ in range(20)]
    found = {"dev_loss": np.mean([float(loss_of(model, x)) for x in tests])}
    model.train()
    found["batch_statistics"] = np.mean([float(loss_of(model, x)) for x in tests])
    return {**losses, **{name: float(value) for name, value in found.items()}}


@torch.no_grad()
def loss_of(model: Reverser, batch: Batch) -> Tensor:
    """Return the loss without a gradient."""
    return model.loss(batch)

"""How far gradients and memory reach back in recurrent networks: for ``claims.py``.

The task: a symbol, t distractors, then a query; which symbol was it? Networks are those
of ``torch.nn`` with their usual first weights, and a decoder alone of this package.

Letters used for sizes: B batch rows, L positions, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from small_training import optimize
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model import DecoderOnly, TransformerConfig

SYMBOLS, DISTRACTORS = 8, 8
QUERY = SYMBOLS + DISTRACTORS + 1
WIDTH = 32
LONGEST = 40
"""Distractors at most, in training and in tests."""

DISTANCES = (0, 1, 2, 5, 10, 20, 30, 40)
"""Positions from the query back to the symbol, less one: the distractors between."""

ROWS, UPDATES = 64, 1_000
LEARNING_RATES = {"transformer": 0.002}
LEARNING_RATE = 0.003
CELLS: dict[str, type[nn.RNNBase]] = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}

CHOICES: dict[str, dict[str, Any]] = {
    f"{cell}, {name}": {"cell": cell, **shape}
    for cell in CELLS
    for name, shape in {
        "1 layer": {"layers": 1, "directions": 1},
        "1 layer, both directions": {"layers": 1, "directions": 2},
        "3 layers": {"layers": 3, "directions": 1},
    }.items()
} | {"transformer, 1 layer": {"cell": "transformer", "layers": 1, "directions": 1}}


class Recurrent(nn.Module):
    """Embedding, recurrent layers, and logits at the last position.

    Of both directions, the other one has read only the query there.
    """

    def __init__(self, cell: str, layers: int, directions: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(QUERY + 1, WIDTH)
        self.layers = CELLS[cell](
            WIDTH, WIDTH, layers, batch_first=True, bidirectional=directions == 2
        )
        self.output = nn.Linear(directions * WIDTH, QUERY + 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits [B V] of the answer to tokens [B L]."""
        states, _ = self.layers(self.embedding(tokens))
        logits: Tensor = self.output(states[:, -1])
        return logits


class Attentive(nn.Module):
    """The same by a decoder alone, with sinusoidal positions."""

    def __init__(self, layers: int, seed: int) -> None:
        super().__init__()
        config = TransformerConfig(
            encoder_layers=0,
            decoder_layers=layers,
            d_model=WIDTH,
            d_ff=2 * WIDTH,
            num_heads=4,
            dropout=0.0,
        )
        self.decoder = DecoderOnly(config, QUERY + 1, seed=seed)
        self.embedding = self.decoder.embedding

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits [B V] of the answer to tokens [B L]."""
        return self.decoder.logits(self.decoder.decode(tokens)[:, -1])


def trial(choice: dict[str, Any], seed: int, rehearse: bool) -> dict[str, Any]:
    """Train one network; return gradients before and after, and accuracy."""
    model = make(**choice, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    before = gradients(model, rng)

    def loss_of(number: int) -> Tensor:
        distractors = int(torch.randint(0, LONGEST + 1, (), generator=rng))
        tokens, answers = examples(distractors, ROWS, rng)
        return F.cross_entropy(model(tokens), answers)

    losses = optimize(
        model,
        loss_of,
        updates=5 if rehearse else UPDATES,
        learning_rate=LEARNING_RATES.get(choice["cell"], LEARNING_RATE),
    )
    return {
        **losses,
        "parameters": sum(each.numel() for each in model.parameters()),
        "gradient_before": before,
        "gradient_after": gradients(model, rng),
        "accuracy": {str(t): accuracy(model, t, rng) for t in DISTANCES},
    }


def make(cell: str, layers: int, directions: int, seed: int) -> nn.Module:
    """Return a network by its name."""
    if cell == "transformer":
        return Attentive(layers, seed)
    return Recurrent(cell, layers, directions, seed)


def examples(
    distractors: int, rows: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return tokens [B L], L = distractors + 2, and the symbols that come first [B]."""
    answers = torch.randint(1, SYMBOLS + 1, (rows,), generator=rng)
    between = torch.randint(SYMBOLS + 1, QUERY, (rows, distractors), generator=rng)
    query = torch.full((rows, 1), QUERY)
    return torch.cat([answers[:, None], between, query], dim=1), answers


@torch.no_grad()
def accuracy(model: nn.Module, distractors: int, rng: torch.Generator) -> float:
    """Return the share of 512 symbols that are named rightly."""
    tokens, answers = examples(distractors, 512, rng)
    found = model(tokens)[:, 1 : SYMBOLS + 1].argmax(dim=1) + 1
    return float((found == answers).float().mean())


def gradients(model: nn.Module, rng: torch.Generator) -> dict[str, float]:
    """Return the norm of d loss / d embedding by distractors between, mean of 64 rows.

    All are of texts of one length, ``LONGEST`` distractors; the loss is that of a row.
    """
    tokens, answers = examples(LONGEST, ROWS, rng)
    held: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        held.append(output.detach().requires_grad_())
        return held[0]

    hook = model.embedding.register_forward_hook(keep)  # type: ignore[union-attr]
    try:
        loss = F.cross_entropy(model(tokens), answers, reduction="sum")
        (found,) = torch.autograd.grad(loss, held)
    finally:
        hook.remove()
    norms = found.norm(dim=2).mean(dim=0)
    last = LONGEST + 1
    return {str(t): float(norms[last - 1 - t]) for t in DISTANCES}

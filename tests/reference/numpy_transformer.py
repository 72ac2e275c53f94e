"""The Transformer once more, in NumPy and float64: one pair, every number by name.

It shares no code with ``headwise.model``, only the names of its weights. ``edit`` sees
each array as it is computed, under the name it has in the result, and returns the one
that is computed with: so an intervention is one line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

Array = Any
Edit = Callable[[str, Array], Array]

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sinusoids(length: int, width: int) -> Array:
    table = np.zeros((length, width))
    for position in range(length):
        for i in range(0, width, 2):
            angle = position / 10000 ** (i / width)
            table[position, i : i + 2] = math.sin(angle), math.cos(angle)
    return table


def rotated(x: Array) -> Array:
    """Turn pairs of channels of x [L C] by the angles of the sinusoids."""
    table = sinusoids(*x.shape)
    out = np.zeros_like(x)
    for i in range(0, x.shape[1], 2):
        sin, cos = table[:, i], table[:, i + 1]
        out[:, i] = x[:, i] * cos - x[:, i + 1] * sin
        out[:, i + 1] = x[:, i] * sin + x[:, i + 1] * cos
    return out


class NumpyTransformer:
    """The weights of a model, and its forward pass."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.weights = {
            name: weight.detach().double().numpy()
            for name, weight in model.state_dict().items()
        }

    def run(
        self,
        source: list[int],
        inputs: list[int],
        *,
        edit: Edit = lambda name, x: x,
        hidden_source: tuple[int, ...] = (),
    ) -> dict[str, Array]:
        """Return every array; nothing attends to the ``hidden_source`` positions."""
        found: dict[str, Array] = {}

        def note(name: str, x: Array) -> Array:
            found[name] = edit(name, x)
            return found[name]

        self.note = note
        config = self.config
        visible = np.array([each not in hidden_source for each in range(len(source))])
        x = self.embed("encoder", source)
        for layer in range(config.encoder_layers):
            name, block = f"encoder.{layer}", f"encoder.blocks.{layer}"
            mask = np.tile(visible, (len(source), 1))
            x = self.attention(
                name,
                f"{block}.self_attention",
                f"{block}.around_attention",
                x,
                None,
                mask,
            )
            x = self.feed_forward(name, block, x)
            x = note(f"{name}.out", x)
        encoded = note("encoded", self.last_norm("encoder", x))
        x = self.embed("decoder", inputs)
        causal = np.tril(np.ones((len(inputs), len(inputs)), dtype=bool))
        for layer in range(config.decoder_layers):
            name, block = f"decoder.{layer}", f"decoder.blocks.{layer}"
            x = self.attention(
                name, f"{block}.self_attention", f"{block}.around_self", x, None, causal
            )
            mask = np.tile(visible, (len(inputs), 1))
            cross = f"cross.{layer}"
            x = self.attention(
                cross,
                f"{block}.cross_attention",
                f"{block}.around_cross",
                x,
                encoded,
                mask,
            )
            x = self.feed_forward(name, block, x)
            x = note(f"{name}.out", x)
        note("logits", self.logits(self.last_norm("decoder", x)))
        note("log_p", log_softmax(found["logits"]))
        return found

    def linear(self, name: str, x: Array) -> Array:
        out = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return out if bias is None else out + bias

    def layer_norm(self, name: str, x: Array) -> Array:
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        normed = (x - mean) / np.sqrt(variance + 1e-5)
        return normed * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def last_norm(self, stack: str, x: Array) -> Array:
        if self.config.norm != "pre":
            return x
        return self.layer_norm(f"{stack}.last_norm", x)

    def embed(self, stack: str, tokens: list[int]) -> Array:
        target = self.weights["embeddings.target.vectors"]
        source = self.weights.get("embeddings.source.vectors", target)
        vectors = source if stack == "encoder" else target
        x = vectors[tokens] * math.sqrt(vectors.shape[1])
        x = self.note(f"{stack}.embedding", x)
        if self.config.positions == "sinusoidal":
            x = x + sinusoids(len(tokens), vectors.shape[1])
        if self.config.embedding_norm:
            x = self.layer_norm(f"enter_{stack}.norm", x)
        return self.note(f"{stack}.in", x)

    def logits(self, x: Array) -> Array:
        matrix = self.weights.get(
            "output.vectors", self.weights["embeddings.target.vectors"]
        )
        out = x @ matrix.T
        bias = self.weights.get("output.bias")
        return out if bias is None else out + bias

    def sublayer_input(self, norm: str, x: Array) -> Array:
        return self.layer_norm(norm, x) if self.config.norm == "pre" else x

    def residual_scale(self, name: str) -> float:
        """Return α of DeepNorm, as the table in its Figure 2 has it, or 1."""
        n, m = self.config.encoder_layers, self.config.decoder_layers
        if self.config.norm != "deep":
            return 1.0
        if name.startswith("encoder"):
            return 0.81 * (n * n * n * n * m) ** 0.0625
        return math.sqrt(math.sqrt(3 * m))

    def add(self, name: str, norm: str, x: Array, out: Array) -> Array:
        x = self.note(f"{name}.residual", self.residual_scale(name) * x)
        total = self.note(f"{name}.sum", x + self.note(f"{name}.output", out))
        if self.config.norm != "pre":
            total = self.layer_norm(norm, total)
        return self.note(f"{name}.result", total)

    def attention(
        self,
        name: str,
        layer: str,
        around: str,
        x: Array,
        source: Array | None,
        mask: Array,
    ) -> Array:
        """All heads; ``source`` is None for self-attention."""
        config, note = self.config, self.note
        y = note(f"{name}.attention.input", self.sublayer_input(f"{around}.norm", x))
        of_source = y if source is None else source
        queries = self.linear(f"{layer}.to_queries", y)
        keys = self.linear(f"{layer}.to_keys", of_source)
        values = self.linear(f"{layer}.to_values", of_source)
        outputs = []
        for head in range(config.num_heads):
            own = f"{name}.{head}"
            width, wide = config.key_width, config.value_width
            q = queries[:, head * width : (head + 1) * width]
            k = keys[:, head * width : (head + 1) * width]
            v = note(f"{own}.values", values[:, head * wide : (head + 1) * wide])
            note(f"{own}.plain_queries", q)
            if config.positions == "rotary" and source is None:
                q, k = rotated(q), rotated(k)
            note(f"{own}.queries", q)
            note(f"{own}.keys", k)
            scores = note(f"{own}.scores", q @ k.T)
            scaled = note(f"{own}.scaled", scores / math.sqrt(width))
            masked = note(f"{own}.masked", np.where(mask, scaled, -np.inf))
            weights = note(f"{own}.weights", softmax(masked))
            outputs.append(note(f"{own}.head", weights @ v))
        joined = note(f"{name}.concatenation", np.concatenate(outputs, axis=1))
        out = self.linear(f"{layer}.to_output", joined)
        return self.add(f"{name}.attention", f"{around}.norm", x, out)

    def feed_forward(self, name: str, block: str, x: Array) -> Array:
        norm = f"{block}.around_feed_forward.norm"
        y = self.note(f"{name}.ff.input", self.sublayer_input(norm, x))
        hidden = self.note(
            f"{name}.ff.hidden", self.linear(f"{block}.feed_forward.widen", y)
        )
        activated = ACTIVATIONS[self.config.activation](hidden)
        activated = self.note(f"{name}.ff.activated", activated)
        out = self.linear(f"{block}.feed_forward.narrow", activated)
        return self.add(f"{name}.ff", norm, x, out)

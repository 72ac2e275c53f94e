"""GPT and BERT as one would write them around ``torch.nn.TransformerEncoder``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headwise.model import DecoderOnly, EncoderOnly
from headwise.model.heads import MaskedTokenHead

PAD = 0


class PlainModel(nn.Module):
    """Embeddings and positions, torch's encoder, and the weights of another model."""

    def __init__(self, model: DecoderOnly | EncoderOnly) -> None:
        super().__init__()
        config, pre_norm = model.config, model.config.norm == "pre"
        width, layers = config.d_model, config.encoder_layers + config.decoder_layers
        self.scale = math.sqrt(width)
        self.embedding = nn.Embedding(model.vocab_size, width)
        self.positions = nn.Embedding(config.max_positions, width)
        self.norm = nn.Identity() if pre_norm else nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)
        layer = nn.TransformerEncoderLayer(
            width,
            config.num_heads,
            config.d_ff,
            config.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=pre_norm,
        )
        last_norm = nn.LayerNorm(width) if pre_norm else None
        self.encoder = nn.TransformerEncoder(
            layer, layers, last_norm, enable_nested_tensor=False
        )
        for each in self.encoder.layers:
            each.self_attn.dropout = config.attention_dropout
            each.dropout = nn.Dropout(config.feed_forward_dropout)
        self._copy(model)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """Return a vector for each token; ``mask`` is causal."""
        x = self.embedding(tokens) * self.scale
        x = x + self.positions.weight[: tokens.shape[1]]
        x = self.dropout(self.norm(x))
        causal = mask is not None
        return self.encoder(x, mask, padding, is_causal=causal)

    def logits(self, x: Tensor) -> Tensor:
        """Score the vocabulary."""
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def _copy(self, model: DecoderOnly | EncoderOnly) -> None:
        entering = (
            model.enter_decoder
            if isinstance(model, DecoderOnly)
            else model.enter_encoder
        )
        stack = model.decoder if isinstance(model, DecoderOnly) else model.encoder
        self.embedding.weight.copy_(model.embedding.vectors)
        self.positions.weight.copy_(entering.add_positions.scheme.vectors)
        self.norm.load_state_dict(entering.norm.state_dict())
        if self.encoder.norm is not None:
            self.encoder.norm.load_state_dict(stack.last_norm.state_dict())
        for ours, block in zip(self.encoder.layers, stack.blocks, strict=True):
            attention = block.self_attention
            first = (
                "around_self" if hasattr(block, "around_self") else "around_attention"
            )
            around = getattr(block, first), block.around_feed_forward
            ours.norm1.load_state_dict(around[0].norm.state_dict())
            ours.norm2.load_state_dict(around[1].norm.state_dict())
            joined = attention.to_queries, attention.to_keys, attention.to_values
            ours.self_attn.in_proj_weight.copy_(torch.cat([x.weight for x in joined]))
            ours.self_attn.in_proj_bias.copy_(torch.cat([x.bias for x in joined]))
            ours.self_attn.out_proj.load_state_dict(attention.to_output.state_dict())
            ours.linear1.load_state_dict(block.feed_forward.widen.state_dict())
            ours.linear2.load_state_dict(block.feed_forward.narrow.state_dict())


class PlainHead(nn.Module):
    """BERT's head for masked tokens."""

    def __init__(self, head: MaskedTokenHead, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.dense.load_state_dict(head.dense.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        """Return what is compared with the embedding."""
        return self.norm(F.gelu(self.dense(x)))


@torch.inference_mode()
def generate(model: PlainModel, start: int, count: int) -> list[int]:
    """Write greedily, with a KV cache: the loop that one would write by hand."""
    cache: list[tuple[Tensor, Tensor] | None] = [None] * len(model.encoder.layers)
    text, token = [], torch.tensor([[start]])
    for position in range(count):
        x = model.embedding(token) * model.scale + model.positions.weight[position]
        for number, layer in enumerate(model.encoder.layers):
            attention = layer.self_attn
            joined = F.linear(
                layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias
            )
            queries, keys, values = (
                part.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
                for part in joined.chunk(3, dim=-1)
            )
            if (before := cache[number]) is not None:
                keys = torch.cat([before[0], keys], dim=2)
                values = torch.cat([before[1], values], dim=2)
            cache[number] = keys, values
            heads = F.scaled_dot_product_attention(queries, keys, values)
            x = x + attention.out_proj(heads.transpose(1, 2).flatten(2))
            x = x + layer.linear2(F.gelu(layer.linear1(layer.norm2(x))))
        scores = model.logits(model.encoder.norm(x))[:, -1]
        token = scores.argmax(dim=-1, keepdim=True)
        text.append(int(token))
    return text

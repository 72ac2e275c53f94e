"""Attention as bytes: a JSON header and float32 numbers, which a page reads in place.

    4 bytes    length of the header in bytes, uint32, little-endian
    header     JSON, padded with spaces so that the numbers begin at a multiple of 4
    numbers    float32, little-endian: the arrays one after the other, row by row

Each array of the header has ``offset``, the index of its first number, ``rows`` and
``columns``.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headwise.errors import ResourceError
from headwise.inspection.attention import Attention
from headwise.inspection.json_form import FORMAT, to_json

MAX_NUMBERS = 64_000_000
"""Most numbers of one answer: 256 MB."""


def encode_attention(
    found: Attention, *, changes: Sequence[str] = (), max_side: int | None = None
) -> bytes:
    """Return the weights, and the norms and rollout if there are any, as bytes.

    With ``max_side`` each map is max-pooled to at most so many rows and columns, and
    the header says by which factors. Raises ``ResourceError`` for more than
    ``MAX_NUMBERS`` numbers.
    """
    arrays: list[dict[str, Any]] = []
    numbers: list[Tensor] = []
    offset = 0
    for head, what, values in _arrays(found):
        pooled, factors = max_pooled(values, max_side)
        rows, columns = pooled.shape
        place = {"rows": rows, "columns": columns, "offset": offset}
        arrays.append({"head": head, "what": what, **place, **factors})
        numbers.append(pooled)
        offset += pooled.numel()
        if offset > MAX_NUMBERS:
            raise ResourceError(
                f"the attention of {len(found.maps)} heads is more than the "
                f"{MAX_NUMBERS:,} numbers of one answer; ask for fewer heads or kinds, "
                "or give max_side"
            )
    header = json.dumps(
        {
            "format": FORMAT,
            "show": "attention",
            "changes": list(changes),
            "source": found.source,
            "target": found.target,
            "decoder_input": found.decoder_input,
            "patches": to_json(found.patches),
            "tree": found.tree,
            "arrays": arrays,
        },
        ensure_ascii=False,
    ).encode("utf-8")
    header += b" " * (-len(header) % 4)
    data = (
        each.to("cpu", torch.float32)
        .contiguous()
        .numpy()
        .astype("<f4", copy=False)
        .tobytes()
        for each in numbers
    )
    return b"".join([struct.pack("<I", len(header)), header, *data])


def max_pooled(values: Tensor, max_side: int | None) -> tuple[Tensor, dict[str, int]]:
    """Return the largest values of blocks of a map [Q K], and the sides of a block.

    There are at most ``max_side`` rows and columns of blocks; without ``max_side``
    the map itself, and no sides.
    """
    if max_side is None:
        return values, {}
    row_factor, column_factor = (
        max(1, math.ceil(side / max_side)) for side in values.shape
    )
    block = (row_factor, column_factor)
    pooled = F.max_pool2d(values[None, None].float(), block, ceil_mode=True)[0, 0]
    return pooled, {"row_factor": row_factor, "column_factor": column_factor}


def _arrays(found: Attention) -> Iterator[tuple[str | None, str, Tensor]]:
    for each in found.maps:
        yield str(each.head), "weights", each.weights
        if each.norms is not None:
            yield str(each.head), "norms", each.norms
    if found.rollout is not None:
        yield None, "rollout", found.rollout

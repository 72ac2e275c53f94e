"""Sources as the C kernels look them up: tokens, or vectors of patches.

The kernels embed tokens: they read rows of a table. Patches of pictures have no table:
PyTorch computes the "Input Embedding" box, and the vectors of a batch are a table, of
which each source position reads a row of its own. In training the kernels compute the
gradient of that table, and autograd that of the box. The references are ``embed`` of
:class:`PictureEncoder` and ``embed_source`` of :class:`Captioner`;
``tests/backends/native/test_patch_vectors.py`` holds the gradients equal.

Letters used for sizes: R rows of the table, B pictures, S patches, E embedding width.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from headwise.backends.api import AnyEncoder
from headwise.backends.native.customization_check import named_parts
from headwise.backends.native.stack_modules import NativeModel
from headwise.backends.native.train_batch import check_vocabulary
from headwise.data.ragged_batch import RaggedTokens
from headwise.model.captioner import Captioner
from headwise.model.encoder_only import EncoderOnly
from headwise.model.patches import PatchEmbedding
from headwise.model.picture_encoder import PictureEncoder
from headwise.model.transformer import Transformer


def look_up(
    model: Transformer | AnyEncoder, source: RaggedTokens
) -> tuple[RaggedTokens, Float[Tensor, "R E"] | None]:
    """Return what the kernels look up for the sources of a batch, and in which table.

    That is None for the model's own; for pictures it is their vectors, which autograd
    differentiates, if that is on. Raises ``DataError`` for tokens outside the
    vocabulary.
    """
    if isinstance(model, Captioner | PictureEncoder):
        embed = model.embed if isinstance(model, PictureEncoder) else model.embed_source
        with torch.autocast("cpu", enabled=False):
            vectors = embed(source.padded())
        if isinstance(model, PictureEncoder):
            source = source.with_first(0)  # where the [class] token is
        rows = replace(source, tokens=source.padded_index)
        return rows, vectors.flatten(0, 1)
    if isinstance(model, EncoderOnly):
        size = model.vocab_size
    else:
        size = model.source_vocab_size
    check_vocabulary(source.tokens, size)
    return source, None


def embed_patches(
    embedding: PatchEmbedding, patches: Integer[Tensor, "B S P"]
) -> Float[Tensor, "R E"]:
    """Return the vectors of all patches in float32, without a graph of autograd."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        vectors: Tensor = embedding(patches)
    return vectors.flatten(0, 1)


def trained_tensors(model: NativeModel, vectors: Tensor | None) -> list[Tensor]:
    """Return all tensors of which the kernels compute gradients.

    They are the weights that the kernels read, and ``vectors``, if there are any.
    """
    boxes: list[nn.Module] = []
    if isinstance(model, Captioner):
        boxes = [model.patch_embedding]
    elif isinstance(model, PictureEncoder):
        boxes = [model.class_token, model.embedding]
    others = {id(each) for box in boxes for each in box.parameters()}
    tensors: list[Tensor] = [
        each for _, each in named_parts(model).weights if id(each) not in others
    ]
    return tensors if vectors is None else [*tensors, vectors]

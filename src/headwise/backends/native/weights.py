"""A whole model as compiled kernels read it."""

from __future__ import annotations

from threading import Lock
from typing import cast

import torch

from headwise.backends.native.ctypes_structs import BENDS, Entry, Layer, Stacks, kernels
from headwise.backends.native.layout import Layout, sizes_of
from headwise.backends.pytorch.decoder import versions
from headwise.backends.pytorch.layers import Precision
from headwise.errors import ModelError
from headwise.model.decoder import DecoderBlock
from headwise.model.embeddings import EnterStack, TokenEmbedding
from headwise.model.encoder import EncoderBlock
from headwise.model.positions import LearnedPositions
from headwise.model.transformer import Transformer

FIRST_PLACES = 256
"""Positions whose vectors are computed at first; they double as needed."""


class CompiledWeights:
    """Copies of a model's weights; see ``still_of`` for when they are out of date.

    Raises ``NoKernelsError`` where there are no compiled kernels, and ``ModelError``
    for a model whose weights are not float32 numbers of a CPU.
    """

    def __init__(self, model: Transformer, precision: Precision) -> None:
        kernels()
        self._parameters = list(model.parameters())
        if any(
            each.dtype != torch.float32 or each.device.type != "cpu"
            for each in self._parameters
        ):
            raise ModelError(
                "compiled kernels run models in float32 on a CPU; the weights of this "
                "one are other numbers or elsewhere"
            )
        self._of = versions(self._parameters)
        self._model = model
        self._growing = Lock()
        self._layout = Layout(precision)
        with torch.no_grad():
            self.stacks = self._stacks(model)

    def still_of(self, model: Transformer) -> bool:
        """Tell whether these are the weights of ``model`` as it is now."""
        same = next(model.parameters()) is self._parameters[0]
        return same and self._of == versions(self._parameters)

    def let_read(self, count: int) -> None:
        """See to it that ``count`` positions of a source have vectors."""
        if count > self.stacks.reading.positions:
            self._make_places(self.stacks.reading, self._model.enter_encoder, count)

    def let_write(self, count: int) -> None:
        """See to it that ``count`` positions of an output have vectors."""
        if count > self.stacks.writing.positions:
            self._make_places(self.stacks.writing, self._model.enter_decoder, count)

    def _stacks(self, model: Transformer) -> Stacks:
        config, layout = model.config, self._layout
        encoder = [
            layout.encoder_layer(cast(EncoderBlock, block))
            for block in model.encoder.blocks
        ]
        decoder = [
            layout.decoder_layer(cast(DecoderBlock, block))
            for block in model.decoder.blocks
        ]
        return Stacks(
            **sizes_of(config),
            pre=config.norm == "pre",
            bend=BENDS[config.activation],
            reading=self._entry(model.source_embedding, model.enter_encoder),
            writing=self._entry(model.target_embedding, model.enter_decoder),
            encoder_last=layout.norm(model.encoder.last_norm),
            decoder_last=layout.norm(model.decoder.last_norm),
            scores=layout.product(model.output_vectors, model.output.bias),
            encoder=(Layer * len(encoder))(*encoder),
            decoder=(Layer * len(decoder))(*decoder),
        )

    def _entry(self, embedding: TokenEmbedding, foot: EnterStack) -> Entry:
        entry = Entry(
            table=self._layout.kept(embedding.vectors),
            positions=0,
            width=embedding.vectors.shape[1],
            scale=embedding.scale,
            around=self._layout.norm(foot.norm),
        )
        self._make_places(entry, foot, 1)
        return entry

    def _make_places(self, entry: Entry, foot: EnterStack, count: int) -> None:
        scheme = foot.add_positions.scheme
        if isinstance(scheme, LearnedPositions):
            room = max(count, len(scheme.vectors))  # beyond them, it says what is wrong
        else:
            room = max(FIRST_PLACES, 1 << (count - 1).bit_length())
        nothing = torch.zeros(1, room, self._model.config.embedding_width)
        with self._growing, torch.no_grad():
            if count <= entry.positions:
                return  # another thread has done it
            places = foot.add_positions(nothing, 0)[0].float()
            # What another thread may be reading now stays as it is.
            entry.places = self._layout.kept(places)
            entry.positions = room

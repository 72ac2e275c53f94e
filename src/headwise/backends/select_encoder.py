"""The output of an encoder alone for a batch, by the first backend that can run it.

A backend is installed in a model by ``use_backend`` (``SequenceModel.backend``); that
of a model with a head is that of its encoder too.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from headwise.backends.api import AnyEncoder, EncodingBackend
from headwise.backends.native.encoder import NativeEncoding
from headwise.backends.pytorch.training import TorchEncoding
from headwise.backends.reference import ReferenceEncoding
from headwise.data.ragged_batch import RaggedTokens
from headwise.model.picture_encoder import PictureEncoder

ENCODING_BACKENDS: dict[str, tuple[EncodingBackend, ...]] = {
    "auto": (NativeEncoding(), TorchEncoding(), ReferenceEncoding()),
    "native": (NativeEncoding(), TorchEncoding(), ReferenceEncoding()),
    "torch": (TorchEncoding(), ReferenceEncoding()),
    "reference": (ReferenceEncoding(),),
    "torch_compile": (TorchEncoding(), ReferenceEncoding()),
}
"""Name of a backend -> what runs a batch, in order of preference."""


def encoding_backend(model: AnyEncoder, tokens: RaggedTokens) -> EncodingBackend:
    """Return the backend that encodes ``tokens``: the first of the model's that can."""
    return next(
        each
        for each in ENCODING_BACKENDS[model.backend]
        if each.why_not(model, tokens) is None
    )


def encode_batch(model: AnyEncoder, tokens: RaggedTokens) -> Float[Tensor, "N D"]:
    """Return a vector for each of the N tokens, text after text, without padding.

    Tokens of pictures are patches; the [class] token has a vector before those of each
    picture. Autograd differentiates it, if that is on: the gradients of all weights of
    ``model`` are those of ``EncoderOnly.encode``, or of ``PictureEncoder``.
    """
    return encoding_backend(model, tokens).encode(model, tokens)


def encode_padded(model: AnyEncoder, tokens: RaggedTokens) -> Float[Tensor, "B L D"]:
    """Return the same for heads that want a matrix: zeros stand in place of padding."""
    vectors = encode_batch(model, tokens)
    if isinstance(model, PictureEncoder):
        tokens = tokens.with_first(0)  # where the [class] token is
    rows, length = tokens.padded_shape
    padded = vectors.new_zeros(rows * length, vectors.shape[1])
    padded = padded.index_copy(0, tokens.padded_index, vectors)
    return padded.view(rows, length, -1)

"""Our ``model.bin`` beside the one that CTranslate2's own converter would write."""

import ctranslate2.specs
import numpy as np
import pytest

from headwise.interop.ctranslate2 import quantize
from headwise.interop.ctranslate2_file import (
    alias_duplicates,
    quantize_int8,
    write_model_file,
)
from headwise.interop.ctranslate2_weights import ACTIVATIONS, named_arrays


@pytest.fixture
def their_file(tmp_path):
    """Return a function that writes arrays by way of CTranslate2's specification."""

    def write(model, arrays, quantization):
        config = model.config
        spec = ctranslate2.specs.TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.num_heads,
            pre_norm=config.norm == "pre",
            activation=ACTIVATIONS[config.activation],
            layernorm_embedding=config.embedding_norm,
        )
        for name, array in arrays.items():
            *scopes, last = name.split("/")
            owner = spec
            for scope in scopes:
                if hasattr(owner, scope):
                    owner = getattr(owner, scope)
                else:
                    family, _, number = scope.rpartition("_")
                    owner = getattr(owner, family)[int(number)]
            assert hasattr(owner, last), name
            if array.ndim:
                setattr(owner, last, array.copy())
            else:
                assert getattr(owner, last) == array, name
        vocabularies = (model.source_vocab_size, model.target_vocab_size)
        spec.register_source_vocabulary([str(i) for i in range(vocabularies[0])])
        spec.register_target_vocabulary([str(i) for i in range(vocabularies[1])])
        spec.validate()
        spec.optimize(quantization=quantization)
        (tmp_path / "theirs").mkdir()
        spec.save(str(tmp_path / "theirs"))
        return (tmp_path / "theirs" / "model.bin").read_bytes()

    return write


@pytest.mark.parametrize("quantization", ["float32", "float16", "int8"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "activation": "gelu", "attention_bias": True},
        {"tie_embeddings": "none", "output_bias": True, "embedding_norm": True},
        {"tie_embeddings": "output", "positions": "learned", "max_positions": 9},
    ],
    ids=str,
)
def test_every_byte_is_the_converters(
    chance_model, their_file, tmp_path, changes, quantization
):
    model = chance_model(**changes).model
    # Their converter looks for equal values; here, biases and norms differ by chance.
    arrays = named_arrays(model, 9)

    kept, aliases = alias_duplicates(arrays)
    write_model_file(tmp_path / "model.bin", quantize(kept, quantization), aliases)

    assert (tmp_path / "model.bin").read_bytes() == their_file(
        model, arrays, quantization
    )


def test_whole_numbers_worked_out_by_hand():
    matrix = np.array([[1.0, -2.0], [0.0, 0.0], [127.0, 63.4]], dtype=np.float32)
    whole, scales = quantize_int8(matrix)

    assert whole.tolist() == [[64, -127], [0, 0], [127, 63]]
    assert scales.tolist() == [63.5, 1.0, 1.0]
    assert (whole.dtype, scales.dtype) == (np.int8, np.float32)


def test_the_smallest_numbers_have_a_finite_scale():
    _, scales = quantize_int8(np.full((1, 3), 1e-42, dtype=np.float32))
    assert np.isfinite(scales).all()


def test_the_same_array_is_kept_once():
    array, other = np.ones(2), np.ones(2)
    kept, aliases = alias_duplicates({"b": array, "c": other, "a": array})

    assert list(kept) == ["a", "c"]
    assert aliases == {"b": "a"}

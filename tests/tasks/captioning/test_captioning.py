"""Captioning: the model of translation over patches, beside the kernels."""

from dataclasses import replace

import pytest
import torch
from tests.model.decoder_equality import SMALL, assert_same_steps
from tests.tasks.examples import settings_of

from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.training import NativeTraining
from headwise.backends.pytorch.decoder import TorchDecoder
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.select_decoder import make_decoder
from headwise.backends.select_training import cross_entropy_of, training_backend
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import SettingsError
from headwise.model.captioner import Captioner
from headwise.model.patches import PatchEmbedding
from headwise.recipe import resolve

PATCH_VALUES, VOCABULARY = 12, 50


@pytest.fixture
def model():
    torch.manual_seed(1)
    return Captioner(
        replace(SMALL, tie_embeddings="output"), PATCH_VALUES, VOCABULARY, seed=3
    ).eval()


@pytest.fixture
def pictures():
    """Return three pictures of 9 patches, and that all of these are real."""
    values = torch.randint(0, 256, (3, 9, PATCH_VALUES), dtype=torch.uint8)
    return values, torch.ones(3, 9, dtype=torch.bool)


def batch_of(pictures):
    values, is_real = pictures
    lengths = torch.tensor([5, 1, 3])
    targets = torch.randint(4, VOCABULARY, (9,))
    return Batch(
        RaggedTokens.from_lengths(values.flatten(0, 1), is_real.sum(1)),
        RaggedTokens.from_lengths(targets, lengths),
        torch.arange(3),
    )


@torch.inference_mode()
def test_the_kv_cache_of_pytorch_changes_no_score(model, pictures):
    decoder = make_decoder(model, native=False)

    assert isinstance(decoder, TorchDecoder)
    assert_same_steps(model, decoder, pictures, rtol=1e-5, atol=1e-5)


def test_training_without_padding_is_training_as_written(model, pictures):
    batch, found = batch_of(pictures), []
    for backend in ("reference", "torch"):
        use_backend(model, backend).zero_grad()
        loss = cross_entropy_of(model, batch, smoothing=0.1)
        loss.backward()
        found.append([loss, *(each.grad.clone() for each in model.parameters())])

    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("uses_native_backend")
def test_the_native_backend_is_taken_where_there_is_one(model, pictures):
    """Of the two, TorchDecoder refuses nothing, so it would be taken silently."""
    assert isinstance(make_decoder(model), NativeDecoder)
    model = use_backend(model.train(), "auto")
    assert isinstance(training_backend(model, batch_of(pictures)), NativeTraining)


def test_the_source_is_embedded_as_patches_alone(model):
    embeddings = [each for each in model.modules() if isinstance(each, PatchEmbedding)]

    assert embeddings == [model.embeddings["source"]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": {"tie_embeddings": "all"}}, "tie_embeddings = 'all' needs one"),
        ({"text": {"tokenizer": "bpe"}}, "text.tokenizer must be 'patches'"),
        ({"text": {"target_tokenizer": "labels"}}, "is for other tasks"),
        ({"training": {"word_dropout": 0.1}}, "'captioning' has none"),
        ({"captioning": {"patch_size": 0}}, "patch_size must be 1 or more, not 0"),
        ({"captioning": {"max_shift": -1}}, "max_shift must be 0 or more, not -1"),
    ],
)
def test_settings_that_do_not_suit_pictures_are_named(changed, message, tmp_path):
    table = settings_of("captioning", tmp_path)
    for name, values in changed.items():
        table[name] = {**table.get(name, {}), **values}
    with pytest.raises(SettingsError, match=message):
        resolve(extra=table)

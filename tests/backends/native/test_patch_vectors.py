"""Models over pictures by the kernels: what the models give as they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.backends.native.one_stack import SIZES, trained
from tests.backends.native.test_decoder import NATIVE_VARIANTS
from tests.backends.native.test_training import assert_close
from tests.model.decoder_equality import SMALL, assert_same_steps
from tests.model.dropout_replay import replay_dropout
from tests.model.one_stack_choices import OF_BACKENDS
from tests.torch_threads import torch_threads

from headwise.backends.native import gradients
from headwise.backends.native.decoder import NativeDecoder
from headwise.backends.native.encoder import NativeEncoder, NativeEncoding
from headwise.backends.native.patch_vectors import look_up
from headwise.backends.native.training import (
    MAX_LENGTH,
    NativeTraining,
    why_not_native,
)
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.reference import ReferenceEncoding, ReferenceTraining
from headwise.backends.select_encoder import ENCODING_BACKENDS, encode_padded
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.model.captioner import Captioner
from headwise.model.config import TransformerConfig
from headwise.model.picture_encoder import PictureEncoder

pytestmark = pytest.mark.usefixtures("uses_native_backend")

PATCH_VALUES, VOCABULARY = 12, 50
PATCHES = [9, 4, 16, 1, 9]
"""Of each picture: more than one size, as for videos that some day differ in length."""

MANY = [16] * 60


def pictures(lengths=PATCHES, seed=0):
    """Return random pictures with so many patches each."""
    chance = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 256, (sum(lengths), PATCH_VALUES), generator=chance)
    return RaggedTokens.from_lengths(values.to(torch.uint8), torch.tensor(lengths))


def captions(lengths, seed=0):
    """Return a batch: those pictures, each with a text of 3, 5, 7, 3, ... tokens."""
    chance = torch.Generator().manual_seed(seed)
    counts = torch.tensor([3 + n % 3 * 2 for n in range(len(lengths))])
    tokens = torch.randint(4, VOCABULARY, (int(counts.sum()),), generator=chance)
    target = RaggedTokens.from_lengths(tokens, counts)
    return Batch(pictures(lengths, seed), target, torch.arange(len(lengths)))


def picture_encoder(**changes: Any):
    config = TransformerConfig(
        **{"encoder_layers": 2, **SIZES, **changes, "decoder_layers": 0}
    )
    return trained(PictureEncoder(config, PATCH_VALUES, seed=1))


def captioner(**changes: Any):
    sizes = {"encoder_layers": 2, "decoder_layers": 2, **SIZES, **changes}
    config = TransformerConfig(**{"tie_embeddings": "output"} | sizes)
    return trained(Captioner(config, PATCH_VALUES, VOCABULARY, seed=1))


MAKE = {"encoder": picture_encoder, "captioner": captioner}


def forward(name, model, lengths, backends, seed=0):
    """Return a number whose gradients are compared, and what else is."""
    if name == "captioner":
        loss = backends[1].loss(model, captions(lengths, seed), smoothing=0.1)
        return loss, loss
    out = backends[0].encode(model, pictures(lengths, seed))
    chance = torch.Generator().manual_seed(3)
    return (out * torch.randn(out.shape, generator=chance).to(out.dtype)).sum(), out


def gradients_of(model):
    return [each.grad.clone() for each in model.parameters()]


def natively(name, model, lengths=PATCHES, *, half=False, seed=0):
    """Return the vectors, or the loss, and the gradients of all weights."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        backends = NativeEncoding(), NativeTraining()
        loss, found = forward(name, model, lengths, backends, seed)
    loss.backward()
    return found.detach(), gradients_of(model)


def reference_copy(model):
    """Return a copy that computes as the layers are written."""
    if isinstance(model, Captioner):
        copy = Captioner(model.config, PATCH_VALUES, VOCABULARY)
    else:
        copy = PictureEncoder(model.config, PATCH_VALUES)
    copy.load_state_dict(model.state_dict())
    return use_backend(copy.train(model.training), "reference")


def by_autograd(name, model, lengths=PATCHES, dropout_seed=None):
    """Return the same in float64, with the dropout masks of ``dropout_seed``."""
    copy = reference_copy(model).double()
    if dropout_seed is not None:
        batch = captions(lengths)
        if name == "captioner":
            sides = batch.source.is_real, batch.target.is_real
        else:
            source = batch.source.with_first(0)
            sides = source.is_real, torch.zeros(len(lengths), 0, dtype=torch.bool)
        replay_dropout(copy, dropout_seed, *sides)
    backends = ReferenceEncoding(), ReferenceTraining()
    loss, found = forward(name, copy, lengths, backends)
    loss.backward()
    return found.detach(), gradients_of(copy)


def assert_same(found, expected, model, share=2e-5):
    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-4, atol=1e-5)
    assert_close(found[1], expected[1], model, share)


@pytest.mark.parametrize("name", MAKE)
@OF_BACKENDS
def test_the_gradients_are_those_of_autograd(choice, name):
    if name == "captioner" and choice.get("tie_embeddings") != "none":
        choice = choice | {"tie_embeddings": "output"}
    model = MAKE[name](**choice)

    assert_same(natively(name, model), by_autograd(name, model), model)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("lengths", [PATCHES, MANY, [300, 2, 200], [1]])
@pytest.mark.parametrize(
    "changes",
    [
        {"dropout": 0.4},
        {"dropout": 0.2, "norm": "pre", "positions": "rotary", "activation": "gelu"}
        | {"feed_forward_dropout": 0.2, "attention_dropout": 0.3},
        {"dropout": 0.3, "embedding_norm": True},
    ],
    ids=["post", "pre", "embedding norm"],
)
def test_both_passes_draw_the_same_dropout_masks(changes, lengths, name):
    """In one group of pictures, and in several."""
    model = MAKE[name](**changes)
    torch.manual_seed(5)
    seed = int(torch.randint(2**62, (1,)))

    torch.manual_seed(5)
    found = natively(name, model, lengths)
    torch.manual_seed(5)
    again = natively(name, model, lengths)

    assert_same(found, by_autograd(name, model, lengths, seed), model)
    assert torch.equal(found[0], again[0])
    assert all(torch.equal(a, b) for a, b in zip(found[1], again[1], strict=True))
    assert not torch.equal(found[0], natively(name, model, lengths)[0])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_a_batch_of_an_encoder(threads):
    """Each reads a part of the table of vectors, and has a gradient of all of it."""
    model = picture_encoder()
    expected = by_autograd("encoder", model, MANY)
    with torch_threads(threads):
        found = natively("encoder", model, MANY)

    assert_same(found, expected, model)


@pytest.mark.parametrize("name", MAKE)
def test_bfloat16_is_as_near_as_pytorchs(name):
    model = MAKE[name](d_model=64)
    exact = by_autograd(name, model, MANY)[1]
    copy = reference_copy(model)
    with torch.autocast("cpu", torch.bfloat16):
        backends = ReferenceEncoding(), ReferenceTraining()
        loss, _ = forward(name, copy, MANY, backends)
    loss.backward()

    _, ours = natively(name, model, MANY, half=True)

    def distance(found):
        apart = sum((a - b).square().sum() for a, b in zip(found, exact, strict=True))
        return (apart / sum(each.square().sum() for each in exact)).sqrt().item()

    assert 1e-4 < distance(ours) < 1.1 * distance(gradients_of(copy))


@pytest.mark.parametrize("name", MAKE)
def test_gradient_accumulation_adds_as_torch_does(name):
    model = MAKE[name](dropout=0.1)
    torch.manual_seed(1)
    apart = [natively(name, model, [9, 9, 9], seed=seed)[1] for seed in range(3)]

    torch.manual_seed(1)
    model.zero_grad()
    for seed in range(3):
        backends = NativeEncoding(), NativeTraining()
        forward(name, model, [9, 9, 9], backends, seed)[0].backward()

    for found, *parts in zip(model.parameters(), *apart, strict=True):
        assert torch.equal(found.grad, parts[0] + parts[1] + parts[2])


@pytest.mark.parametrize("name", MAKE)
def test_gradients_of_earlier_pictures_are_freed(name):
    """No later batch has their table of vectors, so none could use their buffers."""
    model = MAKE[name]()
    for _ in range(3):
        natively(name, model)

    assert not gradients._kept_buffers.get(model)


@pytest.mark.parametrize("name", MAKE)
def test_a_graph_that_is_retained_can_be_run_twice(name):
    model = MAKE[name]()
    loss, _ = forward(name, model, PATCHES, (NativeEncoding(), NativeTraining()))
    loss.backward(retain_graph=True)
    once = gradients_of(model)
    (loss * 0.5).backward()

    for found, first in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(found.grad, 1.5 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("name", MAKE)
def test_padding_changes_nothing(name):
    model = MAKE[name]()
    found = []
    for length in (9, 40):
        model.zero_grad()
        source = replace(pictures([9, 4]), max_length=length)
        if name == "captioner":
            batch = replace(captions([9, 4]), source=source)
            loss = NativeTraining().loss(model, batch, smoothing=0.0)
        else:
            loss = NativeEncoding().encode(model, source).square().sum()
        loss.backward()
        found.append([loss.detach(), *gradients_of(model)])

    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)


def test_a_batch_does_not_change_a_picture():
    model, together = picture_encoder(), pictures([9] * 5)
    out = NativeEncoding().encode(model, together)
    with torch.no_grad():
        inferred = NativeEncoder(model.eval()).encode(*look_up(model, together))
        rows = [together.rows(torch.tensor([number])) for number in range(5)]
        alone = [NativeEncoder(model).encode(*look_up(model, row)) for row in rows]

    torch.testing.assert_close(torch.cat(alone), inferred, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.detach(), inferred, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ENCODING_BACKENDS)
@pytest.mark.parametrize("training", [True, False])
def test_every_backend_encodes_the_same_pictures(backend, training):
    """Where [class] token and patches are real; elsewhere stand zeros."""
    model, inputs = picture_encoder(), pictures()
    expected = reference_copy(model)(inputs.padded(), inputs.is_real)

    with torch.set_grad_enabled(training):
        found = encode_padded(use_backend(model.train(training), backend), inputs)

    real = inputs.with_first(0).is_real
    assert not found[~real].any()
    torch.testing.assert_close(found[real], expected[real], rtol=1e-4, atol=1e-5)


def steps_of(changes):
    """Return a captioner with these settings, and three pictures for it."""
    if changes.get("tie_embeddings") != "none":
        changes = changes | {"tie_embeddings": "output"}
    config = replace(SMALL, **changes)
    model = Captioner(config, PATCH_VALUES, VOCABULARY, seed=3).eval()
    inputs = pictures([9, 4, 7])
    return model, (inputs.padded(), inputs.is_real)


@pytest.mark.parametrize("changes", NATIVE_VARIANTS.values(), ids=NATIVE_VARIANTS)
@torch.inference_mode()
def test_captions_have_the_scores_of_the_model(changes):
    model, source = steps_of(changes)

    assert_same_steps(model, NativeDecoder(model), source, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("changes", NATIVE_VARIANTS.values(), ids=NATIVE_VARIANTS)
@torch.inference_mode()
def test_captions_in_bfloat16_are_near(changes):
    model, source = steps_of(changes)
    near = NativeDecoder(model, "bf16")

    assert_same_steps(model, near, source, steps=14, rtol=0.08, atol=0.08)


@torch.inference_mode()
def test_states_of_two_batches_are_apart():
    """Each has a table of its own, though both have one decoder."""
    model, _ = steps_of({})
    fast, tokens = NativeDecoder(model), torch.tensor([1, 1])
    batches = [pictures([9, 9], seed) for seed in (1, 2)]
    given = [(each.padded(), each.is_real) for each in batches]

    states = [fast.start(*each) for each in given]

    for source, state in zip(given, states, strict=True):
        expected, _ = model.step(tokens, model.start(*source))
        scores, _ = fast.step(tokens, state)
        torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    shared = fast.steps.weights.model.encoder.embedding.table
    assert shared is None, "threads that share a decoder would read one table"


@pytest.mark.parametrize("name", MAKE)
def test_customizations_of_the_embedding_are_named(name):
    """PyTorch would call the hook, but a model is native as a whole or not at all."""
    model = MAKE[name]()
    assert why_not_native(model) is None
    is_encoder = name == "encoder"
    place = "embedding" if is_encoder else "embeddings.source"

    model.get_submodule(place).projection.register_forward_hook(lambda *_: None)

    assert why_not_native(model) == f"{place}.projection has a hook"


def test_the_class_token_counts_as_a_position():
    model, why_not = picture_encoder(), NativeEncoding().why_not

    assert why_not(model, pictures([MAX_LENGTH - 1])) is None
    assert "not 513" in why_not(model, pictures([MAX_LENGTH]))

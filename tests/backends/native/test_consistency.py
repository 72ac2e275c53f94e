"""The native loss of two passes: loss and gradients are those of autograd."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.backends.native import one_stack
from tests.backends.native.test_training import (
    VARIANTS,
    assert_close,
    batch_of,
    natively,
    trained,
)
from tests.model.dropout_replay import replay_dropout
from tests.torch_threads import torch_threads

from headwise.backends.native.train_batch import Sentences
from headwise.backends.native.training import NativeTraining
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.training import TorchTraining
from headwise.backends.reference import ReferenceTraining
from headwise.backends.select_training import two_pass_loss_of
from headwise.consistency import Consistency
from headwise.data.doubled_batch import double_batch
from headwise.model import DecoderOnly
from headwise.model.transformer import Transformer

pytestmark = pytest.mark.usefixtures("uses_native_backend")

R_DROP, SIMCUT = Consistency.r_drop(5.0), Consistency.simcut(3.0, 0.3)
FORMS = pytest.mark.parametrize("form", [R_DROP, SIMCUT], ids=["R-Drop", "SimCut"])


def passes_that_differ(batch, seed=0):
    """Double a batch, and cut tokens of the second passes."""
    torch.manual_seed(seed)
    return double_batch(batch, 0.3)


def run(backend, model, batch, form, smoothing=0.1, half=False):
    """Return loss, divergence and gradients."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = backend.two_pass_loss(
            model, batch, smoothing=smoothing, consistency=form
        )
    loss.total.backward()
    gradients = [each.grad.clone() for each in model.parameters()]
    return loss.total.item(), loss.kl_divergence.item(), gradients


def double_copy(model):
    if isinstance(model, DecoderOnly):
        copy = DecoderOnly(model.config, model.vocab_size, window=model.window)
    else:
        sizes = model.source_vocab_size, model.target_vocab_size
        copy = Transformer(model.config, *sizes)
    copy.load_state_dict(model.state_dict())
    return use_backend(copy.double().train(model.training), "reference")


def readable(model, batch, form, smoothing=0.1):
    return run(ReferenceTraining(), double_copy(model), batch, form, smoothing)


def assert_equal(found, expected, model, share=2e-5):
    loss, divergence, gradients = found
    assert loss == pytest.approx(expected[0], rel=1e-5)
    assert divergence == pytest.approx(expected[1], rel=1e-4)
    assert_close(gradients, expected[2], model, share)


@FORMS
@pytest.mark.parametrize(
    "changes", [{}, {"output_bias": True, "tie_embeddings": "none"}, *VARIANTS]
)
@pytest.mark.parametrize("vocabulary", [37, 2100])
def test_loss_and_gradients_equal_autograd(form, changes, vocabulary):
    """2,100 words are looked at in three parts, the last of no round size."""
    model, batch = (
        trained(vocabulary, **changes),
        passes_that_differ(batch_of(vocabulary)),
    )

    found = run(NativeTraining(), model, batch, form)

    assert_equal(found, readable(model, batch, form), model)


@FORMS
def test_pytorch_has_the_same(form):
    model, batch = trained(2100), passes_that_differ(batch_of(2100))
    use_backend(model, "torch")

    found = run(TorchTraining(), model, batch, form)

    assert_equal(found, readable(model, batch, form), model)


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@FORMS
@given(data=st.data(), smoothing=st.sampled_from([0.0, 0.1, 0.5]))
def test_sentences_of_any_length_give_the_gradients_of_autograd(form, data, smoothing):
    sources = data.draw(lengths)
    targets = data.draw(
        st.lists(st.integers(1, 40), min_size=len(sources), max_size=len(sources))
    )
    model = trained(encoder_layers=1, decoder_layers=1)
    batch = passes_that_differ(batch_of(101, (sources, targets)))

    found = run(NativeTraining(), model, batch, form, smoothing)

    assert_equal(found, readable(model, batch, form, smoothing), model, 1e-4)


@FORMS
@pytest.mark.parametrize(
    ("vocabulary", "lengths"),
    [
        (1500, ([19] * 31, [23] * 31)),
        (1500, ([3, 300, 200, 5, 60], [7, 20, 280, 2, 250])),
        (30_000, ([5] * 13, [20] * 12 + [11])),
    ],
    ids=["several groups", "groups of one sentence", "more scores than are kept"],
)
def test_both_passes_are_in_one_group(form, vocabulary, lengths):
    """At most 384 positions together (AMX: 256), or one pair, and 4 million scores."""
    model = trained(vocabulary, encoder_layers=1, decoder_layers=1)
    batch = passes_that_differ(batch_of(vocabulary, lengths))

    found = run(NativeTraining(), model, batch, form)

    assert_equal(found, readable(model, batch, form), model)


@FORMS
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
def test_identical_passes_are_a_single_pass(form, half):
    """Without dropout the divergence is exactly 0, and all else as without it."""
    model, batch = trained(2100), batch_of(2100)

    loss, divergence, gradients = run(
        NativeTraining(), model, double_batch(batch), form, half=half
    )
    single, expected = natively(model, batch, half=half)

    assert divergence == 0
    assert loss == pytest.approx(single, rel=1e-6)
    assert_close(gradients, expected, model, 2e-2 if half else 2e-5)


@FORMS
def test_dropout_differs_between_the_passes(form):
    model = trained(dropout=0.2)
    batch = double_batch(batch_of(101))
    torch.manual_seed(5)
    first = run(NativeTraining(), model, batch, form)
    torch.manual_seed(5)
    again = run(NativeTraining(), model, batch, form)

    assert first[1] > 1
    assert first[:2] == again[:2]
    assert all(map(torch.equal, first[2], again[2]))


@FORMS
def test_dropout_has_the_masks_of_a_plain_batch(form):
    """The same masks, drawn again in Python, give the gradients of autograd."""
    model = trained(dropout=0.2)
    batch = passes_that_differ(batch_of(101))
    torch.manual_seed(7)
    seed = int(torch.randint(2**62, (1,)))
    copy = double_copy(model)
    replay_dropout(copy, seed, batch.source.is_real, batch.target.is_real)
    torch.manual_seed(7)

    found = run(NativeTraining(), model, batch, form)

    assert_equal(found, run(ReferenceTraining(), copy, batch, form), model)


@FORMS
def test_tokens_that_do_not_count_have_no_loss(form):
    batch = batch_of(101)
    counted = torch.arange(len(batch.target.tokens)) % 3 == 0
    batch = passes_that_differ(replace(batch, counted=counted))
    model = trained()

    found = run(NativeTraining(), model, batch, form)

    assert_equal(found, readable(model, batch, form), model)
    other = batch.target.tokens.clone()
    other[~batch.counted] = 4  # another label, and still the same input
    changed = replace(
        batch,
        target=replace(batch.target, tokens=other),
        input_tokens=batch.decoder_input.tokens,
    )
    assert run(NativeTraining(), model, changed, form)[:2] == found[:2]


@FORMS
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_batch_of_a_decoder_alone(form, threads):
    model = one_stack.decoder_only(dropout=0.0)
    batch = passes_that_differ(one_stack.text_batch([40, 9, 1, 64, 30] * 9))
    with torch_threads(threads):
        found = run(NativeTraining(), model, batch, form)
        parts = Sentences(decoder_input=batch.target, consistency=form).parts()

    assert len(parts) == threads
    assert all(part.sentences % 2 == 0 for part in parts)
    assert_equal(found, readable(model, batch, form), model)


@FORMS
def test_bfloat16_is_as_near_as_pytorchs(form):
    model = trained(300, d_model=64, num_heads=2)
    batch = passes_that_differ(batch_of(300, ([12] * 40, [13] * 40)))
    exact = readable(model, batch, form)
    ours = run(NativeTraining(), model, batch, form, half=True)
    use_backend(model, "torch")
    theirs = run(TorchTraining(), model, batch, form, half=True)

    def distance(found):
        pairs = zip(found[2], exact[2], strict=True)
        apart = sum((a - b).square().sum() for a, b in pairs)
        return (apart / sum(each.square().sum() for each in exact[2])).sqrt().item()

    assert ours[1] == pytest.approx(exact[1], rel=0.05)
    assert 1e-4 < distance(ours) < 1.1 * distance(theirs)


@FORMS
@pytest.mark.parametrize("backend", ["auto", "native", "torch", "reference"])
def test_every_backend_that_runs_batches_runs_two_passes(form, backend):
    model, batch = trained(), passes_that_differ(batch_of(101))
    use_backend(model, backend)

    loss = two_pass_loss_of(model, batch, smoothing=0.1, consistency=form)

    assert loss.total.item() == pytest.approx(readable(model, batch, form)[0], rel=1e-5)

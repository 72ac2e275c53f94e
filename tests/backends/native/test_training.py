"""The native training step: loss and gradients are those of autograd."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.dropout_replay import replay_dropout

from headwise.backends.native import training as native_training
from headwise.backends.native.training import NativeTraining, why_not_native
from headwise.backends.pytorch.install_fused import use_backend
from headwise.backends.pytorch.training import TorchTraining
from headwise.backends.select_training import cross_entropy_of, training_backend
from headwise.data.ragged_batch import Batch, RaggedTokens
from headwise.errors import DataError
from headwise.losses import cross_entropy
from headwise.model import TransformerConfig
from headwise.model.activation_checkpointing import checkpoint_activations
from headwise.model.attention_hooks import record_attention_weights
from headwise.model.transformer import Transformer

pytestmark = pytest.mark.usefixtures("uses_native_backend")

VARIANTS = [
    {"norm": "pre"},
    {"norm": "deep", "attention_bias": True, "encoder_layers": 3},
    {"norm": "pre", "d_model": 30, "num_heads": 5, "d_ff": 9, "activation": "gelu"},
    {"activation": "gelu"},
    {"activation": "swish", "d_model": 128, "num_heads": 2},
    {"positions": "learned"},
    {"embedding_norm": True},
    {"position_join": "concatenate", "tie_embeddings": "none"},
    {"position_join": "concatenate", "tie_embeddings": "none", "positions": "learned"},
    {"norm": "pre", "embedding_norm": True, "positions": "learned"},
    {"positions": "rotary"},
    {"positions": "rotary", "norm": "pre", "d_k": 22, "d_v": 5},
]
"""Models that differ from the paper's."""

LENGTHS = [7, 1, 4, 16, 17], [3, 9, 1, 18, 33]


def batch_of(vocabulary, lengths=LENGTHS, *, seed=0):
    """Make random sentences of these lengths."""
    chance = torch.Generator().manual_seed(seed)

    def side(chosen):
        tokens = torch.randint(4, vocabulary, (sum(chosen),), generator=chance)
        return RaggedTokens.from_lengths(tokens, torch.tensor(chosen))

    return Batch(side(lengths[0]), side(lengths[1]), torch.arange(len(lengths[0])))


def native_loss(model, batch, smoothing):
    return NativeTraining().loss(model, batch, smoothing=smoothing)


def reference_logits(model, batch):
    """Return the scores of the target tokens, by a padded forward pass."""
    source, target = batch.source, batch.decoder_input
    return model(source.padded(), target.padded(), source.is_real)[target.is_real]


def trained(vocabulary=101, **changes):
    """Make a model in which no weight is 0 or 1, as after some training."""
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 24, "d_ff": 40}
    config = TransformerConfig(**{**sizes, "num_heads": 3, "dropout": 0.0, **changes})
    model = use_backend(Transformer(config, vocabulary, seed=1).train(), "auto")
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for each in model.parameters():
            each += 0.1 * torch.randn(each.shape, generator=chance)
    return model


def readable(model, batch, smoothing=0.1, dtype=torch.float64, seed=None):
    """Return the loss and gradients that the layers of the paper give.

    With a ``seed``, dropout uses the masks that the kernels draw for it.
    """
    copy = Transformer(model.config, model.source_vocab_size, model.target_vocab_size)
    copy.load_state_dict(model.state_dict())
    for ours, theirs in zip(model.modules(), copy.modules(), strict=True):
        if isinstance(ours, torch.nn.LayerNorm):
            theirs.eps = ours.eps
    copy.to(dtype).train(model.training)
    use_backend(copy, "reference")
    if seed is not None:
        replay_dropout(copy, seed, batch.source.is_real, batch.target.is_real)
    loss = cross_entropy(reference_logits(copy, batch), batch.target.tokens, smoothing)
    loss.backward()
    return loss.item(), [each.grad for each in copy.parameters()]


def natively(model, batch, smoothing=0.1, *, scale=1.0, half=False):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        loss = native_loss(model, batch, smoothing)
    (loss * scale).backward()
    return loss.item(), [each.grad.clone() for each in model.parameters()]


def assert_close(found, expected, model, share=2e-5):
    """Compare each gradient to its largest number, or the whole's, if all are small.

    A bias of keys adds the same to all scores of a query: its gradient is what rounding
    leaves of 0.
    """
    names = [name for name, _ in model.named_parameters()]
    whole = max(each.abs().max().item() for each in expected)
    for name, ours, theirs in zip(names, found, expected, strict=True):
        small = 1 if name.endswith("to_keys.bias") else 1e-3
        least = max(theirs.abs().max().item(), small * whole)
        worst = (ours.double() - theirs).abs().max().item() / least
        assert worst < share, (name, worst)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention_bias": True, "output_bias": True, "tie_embeddings": "none"},
        {"d_k": 7, "d_v": 5, "tie_embeddings": "output", "positions": "none"},
        {"d_model": 32, "num_heads": 1, "positions": "sinusoidal_halves"},
        {"d_model": 128, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        {"d_model": 30, "num_heads": 5, "d_ff": 9, "encoder_layers": 1},
        *VARIANTS,
    ],
)
@pytest.mark.parametrize("vocabulary", [37, 2100])
def test_loss_and_gradients_equal_autograd(changes, vocabulary):
    """2,100 words are looked at in three parts, the last of no round size."""
    model = trained(vocabulary, **changes)
    batch = batch_of(vocabulary)

    loss, gradients = natively(model, batch)
    expected, theirs = readable(model, batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


def test_layer_norm_uses_the_epsilon():
    """Of rows that vary as they should, an epsilon of 0.00001 changes no digit."""
    model, batch = trained(), batch_of(101)
    for each in model.modules():
        if isinstance(each, torch.nn.LayerNorm):
            each.eps = 0.5

    loss, gradients = natively(model, batch)
    expected, theirs = readable(model, batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(st.data(), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 2**31))
def test_sentences_of_any_length_give_the_gradients_of_autograd(data, smoothing, seed):
    sources = data.draw(lengths)
    targets = data.draw(
        st.lists(st.integers(1, 40), min_size=len(sources), max_size=len(sources))
    )
    model = trained(encoder_layers=1, decoder_layers=1)
    batch = batch_of(101, (sources, targets), seed=seed)

    loss, gradients = natively(model, batch, smoothing)
    expected, theirs = readable(model, batch, smoothing)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model, 1e-4)


@pytest.mark.parametrize(
    ("vocabulary", "lengths"),
    [
        (1500, ([19] * 31, [23] * 31)),
        (1500, ([3, 300, 200, 5, 60], [7, 20, 280, 2, 250])),
        (30_000, ([5] * 12, [20] * 12)),
    ],
    ids=["several groups", "groups of one sentence", "more scores than are kept"],
)
def test_large_batches_are_computed_in_groups(vocabulary, lengths):
    """At most 384 positions together (AMX: 256), and 4 million scores."""
    model = trained(vocabulary, encoder_layers=1, decoder_layers=1)
    batch = batch_of(vocabulary, lengths)

    loss, gradients = natively(model, batch)
    expected, theirs = readable(model, batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)


@pytest.mark.parametrize(
    ("lengths", "changes"),
    [
        (([12] * 40, [13] * 40), {}),
        (([70, 9, 100, 64], [64, 131, 80, 63]), {}),  # by AMX tiles, where there are
        (([70, 9, 100, 64], [64, 131, 80, 63]), {"d_k": 33, "d_v": 20}),
    ],
)
def test_bfloat16_is_as_near_as_pytorchs(lengths, changes):
    model = trained(300, d_model=64, num_heads=2, **changes)
    batch = batch_of(300, lengths)
    _, exact = readable(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        use_backend(model, "reference")
        logits = reference_logits(model, batch)
        loss = cross_entropy(logits, batch.target.tokens, 0.1)
    loss.backward()
    theirs = [each.grad.clone() for each in model.parameters()]

    _, ours = natively(model, batch, half=True)

    def distance(found):
        apart = sum((a - b).square().sum() for a, b in zip(found, exact, strict=True))
        return (apart / sum(each.square().sum() for each in exact)).sqrt().item()

    assert 1e-4 < distance(ours) < 1.1 * distance(theirs)


@pytest.mark.parametrize("half", [False, True])
def test_padding_changes_not_one_bit(half):
    model = trained()
    slim = batch_of(101)
    wide = replace(
        slim,
        source=replace(slim.source, max_length=40),
        target=replace(slim.target, max_length=40),
    )

    found = [natively(model, batch, half=half) for batch in (slim, wide)]

    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert torch.equal(one, other)


def test_gradient_accumulation_adds_as_torch_does():
    model = trained()
    batches = [batch_of(101, seed=seed) for seed in range(3)]
    apart = [natively(model, batch, scale=0.25)[1] for batch in batches]

    model.zero_grad()
    for batch in batches:
        (native_loss(model, batch, 0.1) * 0.25).backward()

    for found, *parts in zip(model.parameters(), *apart, strict=True):
        assert torch.equal(found.grad, parts[0] + parts[1] + parts[2])


def test_the_scale_of_a_loss_is_that_of_its_gradients():
    model, batch = trained(), batch_of(101)
    _, whole = natively(model, batch)
    _, part = natively(model, batch, scale=0.125)

    for one, other in zip(whole, part, strict=True):
        torch.testing.assert_close(one * 0.125, other, rtol=1e-4, atol=1e-7)


def loss_with_dropout(model, batch, seed):
    torch.manual_seed(seed)
    return native_loss(model, batch, 0.0)


def test_dropout_depends_on_the_seed_alone():
    model, batch = trained(dropout=0.3), batch_of(101)
    losses = [loss_with_dropout(model, batch, seed).item() for seed in (1, 2, 1)]

    assert losses[0] == losses[2] != losses[1]
    assert loss_with_dropout(model.eval(), batch, 1).item() == pytest.approx(
        readable(model, batch, 0.0)[0], rel=1e-5
    )


@pytest.mark.parametrize(
    ("lengths", "d_model"),
    [(LENGTHS, 24), (([9] * 40, [13] * 40), 32), (([5] * 3, [7] * 3), 128)],
    ids=["one group", "several groups", "a width of its own"],
)
@pytest.mark.parametrize(
    "changes",
    [
        {"tie_embeddings": "all"},
        {"tie_embeddings": "none"},
        {"norm": "pre"},
        {"attention_dropout": 0.3},
        {"feed_forward_dropout": 0.3},
        {
            "norm": "pre",
            "activation": "gelu",
            "attention_dropout": 0.3,
            "feed_forward_dropout": 0.2,
            "embedding_norm": True,
        },
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_the_backward_pass_uses_the_same_dropout_masks(lengths, d_model, changes):
    """Against autograd with the very same dropout masks.

    Once only slopes of the loss were compared, and so loosely that a gradient of zero
    passed: no dropout of the embeddings in the backward pass went unnoticed.
    """
    sizes = {"d_model": d_model, "num_heads": 4}
    model, batch = trained(dropout=0.4, **sizes, **changes), batch_of(101, lengths)
    torch.manual_seed(5)
    seed = int(torch.randint(2**62, (1,)))

    torch.manual_seed(5)
    loss, gradients = natively(model, batch)
    expected, theirs = readable(model, batch, seed=seed)
    _, undropped = readable(model.eval(), batch)

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert_close(gradients, theirs, model)
    for one, other in zip(theirs, undropped, strict=True):
        assert not torch.allclose(one, other, rtol=0.1)


def test_the_dropout_rate_is_the_one_asked_for():
    """By how much a loss is worse for it, and varies, as with PyTorch's dropout."""
    model = trained(dropout=0.3, encoder_layers=1, decoder_layers=1)
    batch = batch_of(101, ([9] * 60, [11] * 60))
    use_backend(model, "torch")

    def eager(seed):
        torch.manual_seed(seed)
        with torch.no_grad():
            return TorchTraining().loss(model, batch, smoothing=0.0).item()

    ours = torch.tensor(
        [loss_with_dropout(model, batch, seed).item() for seed in range(60)]
    )
    theirs = torch.tensor([eager(seed) for seed in range(60)])

    spread = (ours.var() / 60 + theirs.var() / 60).sqrt()
    assert abs(ours.mean() - theirs.mean()) < 4 * spread
    assert 0.5 < ours.std() / theirs.std() < 2


@pytest.mark.parametrize("changes", [{}, *VARIANTS])
def test_every_model_trains_natively(changes):
    assert why_not_native(trained(**changes)) is None
    assert trains_natively(trained(**changes))


def trains_natively(model, longest=10):
    """Tell whether the native backend is the one that runs such a batch."""
    batch = batch_of(101, ([longest], [3]))
    return isinstance(training_backend(model, batch), NativeTraining)


def test_pytorch_trains_where_hooks_are_set_or_kernels_cannot():
    model = trained()
    assert trains_natively(model)
    assert trains_natively(model, native_training.MAX_LENGTH)
    assert not trains_natively(model, native_training.MAX_LENGTH + 1)
    with torch.no_grad():
        assert not trains_natively(model)
    with record_attention_weights(model):
        assert not trains_natively(model)
    checkpoint_activations(model)
    assert not trains_natively(model)
    checkpoint_activations(model, False)
    for kernels in ("torch", "reference"):
        use_backend(model, kernels)
        assert not trains_natively(model)
    use_backend(model, "auto")
    hook = model.encoder.blocks[0].register_forward_hook(lambda *_: None)
    assert not trains_natively(model)
    hook.remove()
    assert trains_natively(model)
    assert not trains_natively(model.double())


def frozen(model):
    model.encoder.blocks[0].feed_forward.widen.weight.requires_grad_(False)


def frozen_embedding(model):
    model.target_embedding.vectors.requires_grad_(False)


def hooked_weight(model):
    model.decoder.blocks[1].feed_forward.narrow.weight.register_hook(
        lambda gradient: gradient * 2
    )


def hooked_sum(model):
    def triple(weight):
        weight.grad.mul_(3)

    bias = model.decoder.blocks[1].feed_forward.narrow.bias
    bias.register_post_accumulate_grad_hook(triple)


def hooked_forward(model):
    model.encoder.blocks[1].register_forward_hook(lambda layer, given, out: out * 0.5)


def hooked_before(model):
    model.encoder.blocks[1].register_forward_pre_hook(lambda layer, given: None)


def hooked_backward(model):
    model.decoder.blocks[0].feed_forward.register_full_backward_hook(
        lambda layer, ingoing, outgoing: (ingoing[0] * 0.25,)
    )


def hooked_before_backward(model):
    model.decoder.blocks[0].feed_forward.register_full_backward_pre_hook(
        lambda layer, outgoing: (outgoing[0] * 4,)
    )


def other_box(model):
    """As adapters do it: a layer of their own class, around the same weights."""

    class Halved(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) / 2

    model.encoder.blocks[0].feed_forward.narrow.__class__ = Halved


def other_forward(model):
    layer = model.encoder.blocks[0].feed_forward
    layer.forward = lambda x: type(layer).forward(layer, x) / 2


def other_forward_of_torch(model):
    layer = model.decoder.blocks[0].feed_forward.narrow
    layer.forward = lambda x: type(layer).forward(layer, x) / 2


def other_activation(model):
    model.encoder.blocks[1].feed_forward.activation = torch.tanh


def other_dropout(model):
    model.encoder.blocks[0].feed_forward.dropout = torch.nn.Hardtanh(-0.1, 0.1)


def other_epsilon(model):
    model.decoder.blocks[1].around_cross.norm.eps = 0.1


def in_sequence(model):
    layer = model.encoder.blocks[0].feed_forward
    layer.narrow = torch.nn.Sequential(layer.narrow, torch.nn.Hardtanh())


def normed_weight(model):
    torch.nn.utils.parametrizations.weight_norm(
        model.encoder.blocks[0].feed_forward.widen
    )


def weight_more(model):
    model.encoder.scale = torch.nn.Parameter(torch.ones(1))


def partly_evaluated(model):
    model.decoder.blocks[1].eval()


SPECIAL = {
    "encoder.blocks.0.feed_forward has another forward": other_forward,
    "decoder.blocks.0.feed_forward.narrow has another forward": other_forward_of_torch,
    "encoder.blocks.1.feed_forward.activation was changed": other_activation,
    "encoder.blocks.0.feed_forward.dropout is a Hardtanh": other_dropout,
    "decoder.blocks.1.around_cross.norm.eps was changed": other_epsilon,
    "encoder.blocks.0.feed_forward.narrow is a Sequential": in_sequence,
    "encoder.blocks.0.feed_forward.widen is a ParametrizedLinear": normed_weight,
    "encoder.scale is no weight of such a model": weight_more,
    "decoder.blocks.1 is in evaluation mode": partly_evaluated,
    "encoder.blocks.0.feed_forward.widen.weight is frozen": frozen,
    "embeddings.target.vectors is frozen": frozen_embedding,
    "decoder.blocks.1.feed_forward.narrow.weight has a gradient hook": hooked_weight,
    "decoder.blocks.1.feed_forward.narrow.bias has a gradient hook": hooked_sum,
    "encoder.blocks.1 has a hook": hooked_forward,
    "encoder.blocks.1 has a hook ": hooked_before,
    "decoder.blocks.0.feed_forward has a hook": hooked_backward,
    "decoder.blocks.0.feed_forward has a hook ": hooked_before_backward,
    "encoder.blocks.0.feed_forward.narrow is a Halved": other_box,
}
"""Message -> customization that the kernels would bypass."""


def learned(model, kernels, batch):
    """Return the loss and the gradients, by weight, of a model that learns so."""
    use_backend(model, kernels)
    loss = cross_entropy_of(model, batch, smoothing=0.1)
    loss.backward()
    return loss.item(), {name: each.grad for name, each in model.named_parameters()}


@pytest.mark.parametrize(("named", "change"), SPECIAL.items())
def test_customizations_are_named_and_trained_by_pytorch(named, change):
    """Frozen weights had gradients, a frozen embedding raised, hooks never fired."""
    models = trained(), trained()
    for model in models:
        change(model)

    assert why_not_native(models[0]).startswith(named.strip())
    loss, gradients = learned(models[0], "auto", batch_of(101))
    expected, theirs = learned(models[1], "reference", batch_of(101))

    assert math.isclose(loss, expected, rel_tol=1e-5)
    assert [*gradients] == [*theirs]
    whole = max(each.abs().max() for each in theirs.values() if each is not None)
    for name, ours in gradients.items():
        assert (ours is None) == (theirs[name] is None), name
        if ours is not None:
            assert (ours - theirs[name]).abs().max() < 1e-4 * whole, name


def test_a_global_module_hook_is_called():
    called = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, given, out: called.append(type(module).__name__)
    )
    try:
        assert "all modules have a hook" in why_not_native(trained())
        learned(trained(), "auto", batch_of(101))
    finally:
        handle.remove()

    assert "FeedForward" in called
    assert why_not_native(trained()) is None


def test_gradients_that_are_asked_for_are_returned():
    """Of ``torch.autograd.grad`` all were None, and ``.grad`` was filled instead."""
    model, batch = trained(), batch_of(101)
    _, expected = natively(model, batch)
    model.zero_grad()
    weights = list(model.parameters())

    found = torch.autograd.grad(native_loss(model, batch, 0.1), weights)

    assert all(each.grad is None for each in weights)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_a_hook_of_the_graph_is_called():
    """Where it hangs, no weight tells of it: it is autograd that calls it."""
    model, seen = trained(), []
    weight = model.encoder.blocks[0].feed_forward.widen.weight
    node = torch.autograd.graph.get_gradient_edge(weight).node
    node.register_hook(lambda *_: seen.append("added up"))

    natively(model, batch_of(101))

    assert seen == ["added up"]


def test_gradients_are_accumulated_in_place():
    """Not one of them is copied: they lie in one piece of memory, as they were made."""
    model = trained()
    native_loss(model, batch_of(101), 0.1).backward()

    places = {each.grad.untyped_storage().data_ptr() for each in model.parameters()}
    assert len(places) == 1


def test_tokens_of_another_vocabulary_are_refused():
    model, batch = trained(50), batch_of(101)

    with pytest.raises(DataError, match="vocabulary goes from 0 to 49"):
        native_loss(model, batch, 0.1)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_graph_that_is_retained_can_be_run_twice(backend):
    """The second backward pass failed: gradients had been handed over."""
    model, batch = use_backend(trained(), backend), batch_of(101)
    loss = cross_entropy_of(model, batch, smoothing=0.1)
    loss.backward(retain_graph=True)
    once = [each.grad.clone() for each in model.parameters()]
    (loss * 0.5).backward()

    for found, first in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(found.grad, 1.5 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_weights_that_change_before_the_backward_pass_are_an_error(backend):
    """The gradients were those of the old weights, without a word."""
    model, batch = use_backend(trained(), backend), batch_of(101)
    loss = cross_entropy_of(model, batch, smoothing=0.1)
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.widen.weight.mul_(2)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_two_forward_passes_may_precede_their_backward_passes():
    model = trained()
    batches = [batch_of(101, seed=seed) for seed in range(2)]
    apart = [natively(model, batch)[1] for batch in batches]
    model.zero_grad()
    losses = [native_loss(model, batch, 0.1) for batch in batches]
    for loss in losses:
        loss.backward()

    for found, *parts in zip(model.parameters(), *apart, strict=True):
        assert torch.equal(found.grad, parts[0] + parts[1])


def test_nan_reaches_the_loss_and_the_gradients():
    model, batch = trained(), batch_of(101)
    with torch.no_grad():
        model.decoder.blocks[1].feed_forward.widen.bias[3] = math.nan

    loss, gradients = natively(model, batch)

    assert math.isnan(loss)
    assert any(each.isnan().any() for each in gradients)

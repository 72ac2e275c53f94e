"""Dropout: where Section 5.4 has it, as much as it says, and nowhere else."""

import pytest
import torch

from headwise.backends.pytorch.cpu_autograd import draw_mask
from headwise.backends.pytorch.install_fused import use_backend
from headwise.model.dropout import Dropout

SHARES = pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
UNITS = 400_000


def four_sigma(share):
    return 4 * (share * (1 - share) / UNITS) ** 0.5


@SHARES
def test_dropout_has_its_rate_and_preserves_the_mean(share):
    """Within four standard deviations of a fair draw."""
    dropped = Dropout(share)(torch.ones(UNITS))

    silent = (dropped == 0).float().mean().item()
    assert silent == pytest.approx(share, abs=four_sigma(share))
    mean = dropped.double().mean().item()
    assert mean == pytest.approx(1, abs=four_sigma(share) / (1 - share))
    torch.testing.assert_close(dropped.max().item(), 1 / (1 - share))


@SHARES
def test_neighbouring_units_are_dropped_independently(share):
    """Four units share a random word; any two of them must not know of each other."""
    kept = draw_mask(torch.empty(UNITS // 4, 4), share).double()

    seen = torch.corrcoef(kept.T)

    torch.testing.assert_close(seen, torch.eye(4).double(), rtol=0, atol=0.015)


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (5, 7), (2, 3, 5)])
def test_a_dropout_mask_has_any_shape(shape):
    assert draw_mask(torch.empty(shape), 0.5).shape == shape


@pytest.mark.parametrize("share", [0.999999, 0.9999])
def test_a_dropout_rate_may_be_close_to_1(share):
    """Once a share that rounded to 1 wrapped round and dropped nothing."""
    assert draw_mask(torch.empty(UNITS), share).double().mean() < 0.001


def test_nothing_is_dropped_in_evaluation_mode():
    x = torch.randn(50)

    assert Dropout(0.5).eval()(x) is x


def test_a_dropout_rate_of_0_changes_nothing():
    x = torch.randn(50)

    assert Dropout(0.0).train()(x) is x


def test_the_seed_determines_the_dropout_mask():
    x, dropout = torch.ones(500), Dropout(0.5)

    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(x))

    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_the_gradient_has_the_same_dropout_mask():
    x = torch.ones(500, requires_grad=True)

    dropped = Dropout(0.3)(x)
    dropped.sum().backward()

    assert torch.equal(x.grad, dropped)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dropout_keeps_the_dtype(dtype):
    assert Dropout(0.3)(torch.ones(5, dtype=dtype)).dtype == dtype


def dropouts(model):
    """Return the names of the dropouts of ``model`` whose rate is not 0."""
    return {
        name
        for name, module in model.named_modules()
        if isinstance(module, Dropout) and module.p
    }


AROUND = {
    *(
        f"encoder.blocks.{n}.around_{sublayer}"
        for n in (0, 1)
        for sublayer in ("attention",)
    ),
    *(f"encoder.blocks.{n}.around_feed_forward" for n in (0, 1)),
    *(
        f"decoder.blocks.{n}.around_{sublayer}"
        for n in (0, 1)
        for sublayer in ("self", "cross", "feed_forward")
    ),
}


def test_dropout_is_where_the_paper_has_it_and_nowhere_else(small):
    model = small(dropout=0.1)

    sublayers = {"enter_encoder", "enter_decoder", *AROUND}
    assert dropouts(model) == {f"{sublayer}.dropout" for sublayer in sublayers}


def test_dropout_is_inside_feed_forward_only_if_configured(small):
    model = small(dropout=0.0, feed_forward_dropout=0.1)

    inside = {
        *(f"encoder.blocks.{n}.feed_forward" for n in (0, 1)),
        *(f"decoder.blocks.{n}.feed_forward" for n in (0, 1)),
    }
    assert dropouts(model) == {f"{sublayer}.dropout" for sublayer in inside}


@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_dropout_applies_to_the_output_of_each_sublayer_before_it_is_added(
    small, batch, norm
):
    """What a sublayer returns is the very tensor that the next dropout is given."""
    model = small(dropout=0.1, norm=norm).train()
    use_backend(model, "reference")
    outputs, inputs = [], []
    for name, module in model.named_modules():
        if name.endswith(("_attention", ".feed_forward")):
            module.register_forward_hook(lambda _, __, out: outputs.append(out))
        if ".around_" in name and isinstance(module, Dropout):
            module.register_forward_hook(lambda _, given, __: inputs.append(given[0]))

    model(*batch)

    assert len(inputs) == len(AROUND)
    assert all(given is out for given, out in zip(inputs, outputs, strict=True))


def test_without_dropout_training_and_evaluation_mode_are_equal(small, batch):
    model = small(dropout=0.0)

    assert torch.equal(model.train()(*batch), model.eval()(*batch))


def test_evaluation_mode_is_deterministic_and_training_mode_is_not(small, batch):
    model = small(dropout=0.1)

    assert torch.equal(model(*batch), model(*batch))
    model.train()
    assert not torch.equal(model(*batch), model(*batch))


@pytest.mark.parametrize(
    "kind", ["dropout", "attention_dropout", "feed_forward_dropout"]
)
def test_the_seed_determines_every_kind_of_dropout(small, batch, kind):
    model = small(**{kind: 0.3}).train()

    scores = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        scores.append(model(*batch))

    assert torch.equal(scores[0], scores[1])
    assert not torch.equal(scores[0], scores[2])

"""RMSNorm and batch normalization, against torch's."""

from dataclasses import replace

import pytest
import torch
from tests.model.conftest import SMALL, VOCABULARY

from headwise.model.transformer import Transformer
from headwise.model.variants.norms import NORMS, BatchNorm, RMSNorm, padding_known


def perturbed(module):
    with torch.no_grad():
        for each in module.parameters():
            each.add_(0.3 * torch.randn_like(each))
    return module


def test_rmsnorm_by_hand():
    """√((9 + 16) / 2) = 3.5355…; 3 and 4 over it, with gains 1 and 2."""
    norm = RMSNorm(2).double()
    with torch.no_grad():
        norm.weight[1] = 2
    out = norm(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    wanted = torch.tensor([[3 / 12.5**0.5, 8 / 12.5**0.5]], dtype=torch.float64)
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=0)


def test_rmsnorm_equals_that_of_torch():
    ours = perturbed(RMSNorm(16)).double()
    theirs = torch.nn.RMSNorm(16, eps=1e-5).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_rmsnorm_keeps_the_mean_that_layer_normalization_takes_away():
    x = torch.randn(1, 2, 16)
    layer, rms = torch.nn.LayerNorm(16), RMSNorm(16)
    torch.testing.assert_close(layer(x + 3), layer(x))
    assert not torch.allclose(rms(x + 3), rms(x))


def both_batch_norms():
    ours = perturbed(BatchNorm(6))
    theirs = torch.nn.BatchNorm1d(6)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    return ours, theirs


def test_batch_normalization_equals_that_of_torch():
    """In training, in what it remembers, and in evaluation."""
    ours, theirs = both_batch_norms()
    for _ in range(3):
        x = 2 * torch.randn(4, 5, 6) + 1
        wanted = theirs(x.flatten(0, 1)).view(4, 5, 6)
        torch.testing.assert_close(ours(x), wanted)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)

    x = torch.randn(2, 3, 6)
    wanted = theirs.eval()(x.flatten(0, 1)).view(2, 3, 6)
    torch.testing.assert_close(ours.eval()(x), wanted)


def test_padding_is_left_out_of_its_statistics():
    """Real tokens alone, as if they stood in one row without padding."""
    ours, theirs = both_batch_norms()
    x = torch.randn(3, 7, 6)
    is_real = torch.arange(7) < torch.tensor([[7], [5], [2]])
    x[~is_real] = 1e6

    with padding_known(ours, is_real):
        out = ours(x)

    torch.testing.assert_close(out[is_real], theirs(x[is_real]))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    assert ours.is_real is None


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_model_in_training_knows_the_padding_of_both_sides(norm, small, batch):
    """Garbage there changes neither outputs nor statistics; padding is token 0."""
    source, target, is_real = batch
    target_is_real = torch.arange(6) < torch.tensor([[6], [3], [4]])
    target[~target_is_real] = 0
    longer = torch.cat([source, torch.randint(1, VOCABULARY, (3, 4))], dim=1)
    longer_is_real = torch.cat([is_real, torch.zeros(3, 4, dtype=torch.bool)], dim=1)
    padded = torch.nn.functional.pad(target, (0, 3))
    first = small(norm_kind="batch", norm=norm, dtype=torch.float64).train()
    second = small(norm_kind="batch", norm=norm, dtype=torch.float64).train()
    second.load_state_dict(first.state_dict())

    out = first(source, target, is_real)
    with_more = second(longer, padded, longer_is_real)[:, :6]

    torch.testing.assert_close(out[target_is_real], with_more[target_is_real])
    for (name, one), other in zip(
        first.state_dict().items(), second.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, msg=name)


def test_an_encoder_alone_in_training_knows_its_padding(encoder_only):
    model = encoder_only(norm_kind="batch", dtype=torch.float64).train()
    tokens = torch.randint(1, VOCABULARY, (2, 6))
    is_real = torch.ones(2, 6, dtype=torch.bool)
    wanted = model(tokens, is_real)

    padded = torch.nn.functional.pad(tokens, (0, 3), value=5)
    out = model(padded, torch.nn.functional.pad(is_real, (0, 3)))[:, :6]

    torch.testing.assert_close(out, wanted)


def test_in_training_a_token_depends_on_its_batch_and_a_decoder_on_the_future(
    small, batch
):
    """Why the paper has layer normalization; in evaluation neither is so."""
    source, target, is_real = batch
    model = small(norm_kind="batch")
    for training in (True, False):
        model.train(training)
        before = model(source, target, is_real)
        changed = target.clone()
        changed[1:, 5] = changed[1:, 5] % (VOCABULARY - 1) + 1
        after = model(source, changed, is_real)
        assert torch.allclose(before[0], after[0], atol=1e-6) is not training
        assert torch.allclose(before[1, :5], after[1, :5], atol=1e-6) is not training


def test_a_batch_of_one_token_has_statistics():
    norm = BatchNorm(4)
    assert norm(torch.randn(1, 1, 4)).isfinite().all()
    assert norm.running_var.isfinite().all()


def test_what_is_not_finite_is_not_remembered():
    """A skipped update must not leave NaN behind."""
    norm = BatchNorm(2)
    norm(torch.tensor([[[1.0, 1.0], [float("nan"), 3.0]]]))
    assert norm.running_mean[0] == 0
    assert norm.running_mean[1] == pytest.approx(0.2)
    assert norm.running_var.isfinite().all()


@pytest.mark.parametrize("name", NORMS)
def test_every_norm_of_a_model_is_of_the_kind_that_settings_say(name, small):
    model = small(norm_kind=name, norm="pre", embedding_norm=True)
    kind = type(NORMS[name](4))
    found = [each for each in model.modules() if isinstance(each, kind)]
    assert len(found) == 2 + 2 * 2 + 2 * 3 + 2  # inputs, blocks, last ones


@pytest.mark.parametrize("name", NORMS)
def test_norms_begin_with_gain_1_and_bias_0(name):
    model = Transformer(replace(SMALL, norm_kind=name), VOCABULARY, seed=1)
    norms = {n: w for n, w in model.named_parameters() if ".norm." in n}
    assert norms
    for parameter_name, weights in norms.items():
        assert (weights == parameter_name.endswith("weight")).all()


@pytest.mark.parametrize("if_raised", [True, False])
@pytest.mark.parametrize("raises", [True, False])
def test_what_is_remembered_can_be_undone(if_raised, raises, small, batch):
    """Of a trial of memory always, of an update if it is not made."""
    model = small(norm_kind="batch").train()
    before = [each.clone() for each in model.buffers()]
    try:
        with model.statistics_restored(if_raised=if_raised):
            model(*batch)
            if raises:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass

    pairs = zip(model.buffers(), before, strict=True)
    is_restored = all(torch.equal(now, then) for now, then in pairs)
    assert is_restored is (raises or not if_raised)

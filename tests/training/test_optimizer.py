"""Adam with the paper's settings, AdamW, Muon, and their state in a checkpoint."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headwise.backends.api import WeightVersions
from headwise.errors import ModelError, SettingsError
from headwise.model.feed_forward import FeedForward
from headwise.training.optimizer import (
    Optimizer,
    apply_update,
    optimizer_tensors,
    restore_optimizer,
)
from headwise.training.settings import TrainingSettings

SETTINGS = TrainingSettings()


def a_model():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def train(model, optimizer, times):
    for time in range(times):
        optimizer.zero_grad()
        model(torch.full((1, 3), float(time + 1))).square().sum().backward()
        optimizer.step()


def test_two_steps_of_adam_by_hand():
    """β₁ 0.9, β₂ 0.98, ε 1e-9, rate 0.1, a weight of 1 with the gradients 2 and -1.

    Step 1: m = 0.1·2 = 0.2 and v = 0.02·4 = 0.08. Without their bias, m̂ = 0.2/0.1 = 2
    and v̂ = 0.08/0.02 = 4, so the weight moves by 0.1·2/2 = 0.1 to 0.9.
    Step 2: m = 0.9·0.2 - 0.1 = 0.08 and v = 0.98·0.08 + 0.02 = 0.0984. m̂ = 0.08/0.19,
    v̂ = 0.0984/0.0396.
    """
    weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    model = nn.Module()
    model.weight = weight
    optimizer = Optimizer(model, SETTINGS)
    for group in optimizer.param_groups:
        group["lr"] = 0.1

    weight.grad = torch.tensor([2.0], dtype=torch.float64)
    optimizer.step()
    first = weight.item()
    weight.grad = torch.tensor([-1.0], dtype=torch.float64)
    optimizer.step()

    assert first == pytest.approx(0.9, abs=1e-9)
    moved = 0.1 * (0.08 / 0.19) / ((0.0984 / 0.0396) ** 0.5 + 1e-9)
    assert weight.item() == pytest.approx(0.9 - moved, abs=1e-9)


def test_the_constants_are_those_of_section_5_3():
    (group,) = Optimizer(a_model(), SETTINGS).param_groups

    assert group["betas"] == (0.9, 0.98)
    assert group["eps"] == 1e-9
    assert group["weight_decay"] == 0


def test_a_restored_optimizer_continues_bit_for_bit():
    whole = a_model()
    its_optimizer = Optimizer(whole, SETTINGS)
    train(whole, its_optimizer, 3)
    tensors = {
        name: tensor.clone()
        for name, tensor in optimizer_tensors(whole, its_optimizer).items()
    }
    resumed = a_model()
    resumed.load_state_dict({k: v.clone() for k, v in whole.state_dict().items()})
    other = Optimizer(resumed, SETTINGS)

    restore_optimizer(resumed, other, tensors)
    train(whole, its_optimizer, 2)
    train(resumed, other, 2)

    assert tensors["updates"].item() == 3
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


def test_what_is_restored_is_a_copy():
    model = a_model()
    optimizer = Optimizer(model, SETTINGS)
    train(model, optimizer, 1)
    tensors = {k: v.clone() for k, v in optimizer_tensors(model, optimizer).items()}
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    other = a_model()
    its_optimizer = Optimizer(other, SETTINGS)

    restore_optimizer(other, its_optimizer, tensors)
    train(other, its_optimizer, 1)

    assert all(torch.equal(before[name], tensors[name]) for name in before)


def test_the_state_of_another_architecture_is_refused_by_the_weight_that_differs():
    wider = nn.Linear(4, 2)
    optimizer = Optimizer(wider, SETTINGS)
    wider(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    foreign = optimizer_tensors(wider, optimizer)
    model = a_model()

    with pytest.raises(ModelError, match="does not fit the model at weight"):
        restore_optimizer(model, Optimizer(model, SETTINGS), foreign)


@pytest.mark.parametrize("missing", ["bias.exp_avg", "updates"])
def test_a_state_that_is_not_whole_is_refused(missing):
    model = a_model()
    optimizer = Optimizer(model, SETTINGS)
    train(model, optimizer, 1)
    tensors = optimizer_tensors(model, optimizer)
    del tensors[missing]

    with pytest.raises(ModelError, match=missing.partition(".")[0]):
        restore_optimizer(model, Optimizer(model, SETTINGS), tensors)


def test_copies_of_the_weights_are_known_to_be_old_after_an_update():
    """Fused Adam changes weights without telling autograd, which decoders ask."""
    model = a_model()
    optimizer = Optimizer(model, SETTINGS)
    copied = WeightVersions(model)
    model(torch.ones(1, 3)).sum().backward()
    assert copied.are_of(model)

    apply_update(optimizer, SimpleNamespace(learning_rate=0.1, found_inf=lambda: None))

    assert not copied.are_of(model)


def a_feed_forward_between_embeddings():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(5, 4), FeedForward(4, 8), nn.LayerNorm(4))
    return layers.append(nn.Linear(4, 2))


MUON = TrainingSettings(optimizer="muon", weight_decay=0.1)


def train_on_tokens(model, optimizer, times, found_inf=None):
    for time in range(times):
        optimizer.zero_grad()
        model(torch.tensor([[time % 5, 1]])).square().sum().backward()
        optimizer.step(found_inf)


def test_muon_has_the_matrices_inside_and_adam_all_other_weights():
    model = a_feed_forward_between_embeddings()
    optimizer = Optimizer(model, MUON)

    train_on_tokens(model, optimizer, 1)

    tensors = optimizer_tensors(model, optimizer)
    of_muon = {name for name in tensors if name.endswith(".momentum_buffer")}
    assert of_muon == {
        "1.widen.weight.momentum_buffer",
        "1.narrow.weight.momentum_buffer",
    }
    of_adam = {name.removesuffix(".exp_avg") for name in tensors if "exp_avg" in name}
    assert {"0.weight", "1.widen.bias", "2.weight", "3.weight"} <= of_adam
    assert "1.widen.weight" not in of_adam


def test_a_restored_muon_continues_bit_for_bit():
    whole = a_feed_forward_between_embeddings()
    its_optimizer = Optimizer(whole, MUON)
    for group in its_optimizer.param_groups:
        group["lr"] = 0.1
    train_on_tokens(whole, its_optimizer, 3)
    tensors = optimizer_tensors(whole, its_optimizer)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    resumed = a_feed_forward_between_embeddings()
    resumed.load_state_dict({k: v.clone() for k, v in whole.state_dict().items()})
    other = Optimizer(resumed, MUON)
    for group in other.param_groups:
        group["lr"] = 0.1

    restore_optimizer(resumed, other, tensors)
    train_on_tokens(whole, its_optimizer, 2)
    train_on_tokens(resumed, other, 2)

    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_state_of_another_optimizer_is_refused():
    model = a_feed_forward_between_embeddings()
    optimizer = Optimizer(model, SETTINGS)
    train_on_tokens(model, optimizer, 1)

    with pytest.raises(ModelError, match=r"the model at 1\.widen\.weight"):
        restore_optimizer(
            model, Optimizer(model, MUON), optimizer_tensors(model, optimizer)
        )


def test_no_part_of_a_skipped_step_changes_a_weight():
    model = a_feed_forward_between_embeddings()
    before = [each.detach().clone() for each in model.parameters()]

    train_on_tokens(model, Optimizer(model, MUON), 1, torch.tensor(1.0))

    for one, two in zip(before, model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_weight_decay_is_that_of_adamw_and_of_matrices_alone():
    ours, theirs = a_model(), a_model()
    settings = TrainingSettings(weight_decay=0.1)
    optimizer = Optimizer(ours, settings)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    groups = [
        {"params": [theirs.weight], "weight_decay": 0.1},
        {"params": [theirs.bias], "weight_decay": 0.0},
    ]
    peer = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.98), eps=1e-9)

    train(ours, optimizer, 3)
    train(theirs, peer, 3)

    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-7)


def test_muon_and_shards_of_matrices_exclude_each_other():
    with pytest.raises(SettingsError, match="'muon' needs whole matrices"):
        TrainingSettings(optimizer="muon", devices="shard")

"""Adam with the paper's settings, and its state in a checkpoint."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headwise.backends.api import WeightVersions
from headwise.errors import ModelError
from headwise.training.optimizer import (
    apply_update,
    make_optimizer,
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
    optimizer = make_optimizer(model, SETTINGS)
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
    (group,) = make_optimizer(a_model(), SETTINGS).param_groups

    assert group["betas"] == (0.9, 0.98)
    assert group["eps"] == 1e-9
    assert group["weight_decay"] == 0


def test_a_restored_optimizer_continues_bit_for_bit():
    whole = a_model()
    its_optimizer = make_optimizer(whole, SETTINGS)
    train(whole, its_optimizer, 3)
    tensors = {
        name: tensor.clone()
        for name, tensor in optimizer_tensors(whole, its_optimizer).items()
    }
    resumed = a_model()
    resumed.load_state_dict({k: v.clone() for k, v in whole.state_dict().items()})
    other = make_optimizer(resumed, SETTINGS)

    restore_optimizer(resumed, other, tensors)
    train(whole, its_optimizer, 2)
    train(resumed, other, 2)

    assert tensors["updates"].item() == 3
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


def test_what_is_restored_is_a_copy():
    model = a_model()
    optimizer = make_optimizer(model, SETTINGS)
    train(model, optimizer, 1)
    tensors = {k: v.clone() for k, v in optimizer_tensors(model, optimizer).items()}
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    other = a_model()
    its_optimizer = make_optimizer(other, SETTINGS)

    restore_optimizer(other, its_optimizer, tensors)
    train(other, its_optimizer, 1)

    assert all(torch.equal(before[name], tensors[name]) for name in before)


def test_the_state_of_another_architecture_is_refused_by_the_weight_that_differs():
    wider = nn.Linear(4, 2)
    optimizer = make_optimizer(wider, SETTINGS)
    wider(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    foreign = optimizer_tensors(wider, optimizer)
    model = a_model()

    with pytest.raises(ModelError, match="does not fit the model at weight"):
        restore_optimizer(model, make_optimizer(model, SETTINGS), foreign)


@pytest.mark.parametrize("missing", ["bias.exp_avg", "updates"])
def test_a_state_that_is_not_whole_is_refused(missing):
    model = a_model()
    optimizer = make_optimizer(model, SETTINGS)
    train(model, optimizer, 1)
    tensors = optimizer_tensors(model, optimizer)
    del tensors[missing]

    with pytest.raises(ModelError, match=missing.partition(".")[0]):
        restore_optimizer(model, make_optimizer(model, SETTINGS), tensors)


def test_copies_of_the_weights_are_known_to_be_old_after_an_update():
    """Fused Adam changes weights without telling autograd, which decoders ask."""
    model = a_model()
    optimizer = make_optimizer(model, SETTINGS)
    copied = WeightVersions(model)
    model(torch.ones(1, 3)).sum().backward()
    assert copied.are_of(model)

    apply_update(optimizer, SimpleNamespace(learning_rate=0.1, found_inf=lambda: None))

    assert not copied.are_of(model)

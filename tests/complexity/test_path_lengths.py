"""Path lengths by the support of the Jacobian, against the formulas."""

import pytest
import torch

from headwise.complexity.path_lengths import DTYPE, PATHS, WIDTH, path_length


@pytest.mark.parametrize("causal", [True, False], ids=["one direction", "both"])
@pytest.mark.parametrize("length", [2, 5, 9, 16, 27])
@pytest.mark.parametrize("name", PATHS)
def test_the_jacobian_is_full_after_as_many_layers_as_the_formula_says(
    name, length, causal
):
    network = PATHS[name]
    for size in (3, 5, 9) if network.size else (1,):
        measured = path_length(network, length, size, causal=causal)
        assert measured == network.num_hops(length, size, causal), size


@pytest.mark.parametrize(
    ("name", "hops"),
    [
        ("self-attention", 1),
        ("Elman recurrence", 27),
        ("convolution", 13),  # two positions further with each layer
        ("dilated convolution", 3),  # 3 · 3 · 3 positions
        ("restricted self-attention", 13),
    ],
)
def test_path_lengths_of_27_positions_by_hand(name, hops):
    """k = r = 3, in one direction."""
    assert path_length(PATHS[name], 27, 3, causal=True) == hops


def test_steps_at_all_positions_are_the_recurrence_itself():
    """After n of them each state is that of a loop from left to right."""
    torch.manual_seed(3)
    x = torch.randn(1, 6, WIDTH, dtype=DTYPE)
    states = x
    steps = list(PATHS["Elman recurrence"].hops(6, 1, True))
    for step in steps:
        states = step(x, states)
    torch.manual_seed(3)  # draws the same x and the same cell again
    torch.randn(1, 6, WIDTH, dtype=DTYPE)
    cell = torch.nn.RNNCell(WIDTH, WIDTH, dtype=DTYPE)
    state, loop = None, []
    for position in range(6):
        state = cell(x[:, position], state)
        loop.append(state)

    torch.testing.assert_close(states, torch.stack(loop, dim=1))


def test_a_path_length_changes_no_random_state():
    torch.manual_seed(5)
    wanted = torch.randn(2)
    torch.manual_seed(5)
    path_length(PATHS["convolution"], 5, 3, causal=True)

    assert torch.equal(torch.randn(2), wanted)

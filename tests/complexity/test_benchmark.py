"""The whole of it, with times that are made up."""

import pytest
import torch
from tests.complexity.conftest import SMALL

from headwise.complexity.benchmark import grid, measure_complexity
from headwise.complexity.layers import LAYERS
from headwise.complexity.sizes import ComplexitySettings, middle_of


def test_each_size_varies_by_itself():
    for kind in LAYERS.values():
        for sizes in grid(kind, SMALL):
            differs = [
                each
                for each in ("length", "width", "kernel", "window")
                if getattr(sizes, each) != getattr(SMALL.middle, each)
            ]
            assert len(differs) <= 1
            assert set(differs) <= set(kind.sizes)


def test_exponents_of_times_that_are_multiply_adds_are_those_of_multiply_adds(result):
    for layer in result.layers:
        assert [each.size for each in layer.exponents] == list(layer.kind.sizes)
        for each in layer.exponents:
            assert each.time.exponent == pytest.approx(each.multiply_adds)
            assert each.time.r_squared > 0.99  # blocks of a window are padded


def test_exponents_are_those_of_table_1(result):
    found = {
        layer.name: {each.size: each.multiply_adds for each in layer.exponents}
        for layer in result.layers
    }

    assert found["self-attention"] == pytest.approx({"length": 2, "width": 1})
    for name in ("Elman recurrence", "GRU", "LSTM"):
        assert found[name] == pytest.approx({"length": 1, "width": 2})
    wanted = {"length": 1, "width": 2, "kernel": 1}
    assert found["convolution"] == pytest.approx(wanted)


def test_a_layer_has_its_points_along_each_size(result):
    layer = next(each for each in result.layers if each.name == "convolution")

    for size, values in (("length", SMALL.lengths), ("kernel", SMALL.kernels)):
        found = [getattr(point.sizes, size) for point in layer.along(size)]
        assert found == list(values)


def test_crossovers_are_where_the_times_are_equal(result):
    """A GRU takes three times as long for each multiply-add as attention."""
    factors = {"GRU": 3, "LSTM": 2}
    for each in result.crossovers:
        wanted = each.predicted * factors.get(each.other, 1)
        if wanted > SMALL.longest:
            assert each.measured is None
        else:
            assert each.measured == pytest.approx(wanted, rel=0.03)


def test_everything_that_is_counted_is_equal_to_its_formula(result):
    assert all(x.middle.counted == x.middle.multiply_adds for x in result.layers)
    assert all(path.measured == path.formula for path in result.paths)


def test_threads_are_set_back(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(
        "headwise.complexity.benchmark._path_lengths",
        lambda: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        measure_complexity(ComplexitySettings(threads=before + 1))
    assert torch.get_num_threads() == before


def test_the_middle_of_an_even_number_is_the_lower_one():
    assert middle_of([1, 2, 3, 4]) == 2
    assert middle_of([1, 2, 3]) == 2

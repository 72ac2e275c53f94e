"""Results of random shapes by several builds: the same bits, but for AMX."""

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.backends.native.cpu_variants import VARIANTS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    file = BENCHMARKS / "native_sanitizers.py"
    spec = importlib.util.spec_from_file_location("native_sanitizers", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "native_sanitizers", module)
    spec.loader.exec_module(module)
    return module


def test_other_bits_are_a_failure_but_for_amx(script):
    line = script.Line.parse("matmul 7 00ff 12.5 in 3, out 4")
    assert (line.kind, line.number, line.measure) == ("matmul", 7, 12.5)
    other = replace(line, checksum="00fe", measure=12.51)

    same = script.compared("neon", [line], [line])
    near = script.compared("amx", [other], [line])

    assert same["shapes_with_the_same_bits"] == {"matmul": 1}
    assert near["shapes_with_the_same_bits"] == {"matmul": 0}
    with pytest.raises(RuntimeError, match="has other bits than"):
        script.compared("neon", [other], [line])
    with pytest.raises(RuntimeError, match="is far from"):
        script.compared("amx", [replace(other, measure=14.0)], [line])
    with pytest.raises(RuntimeError, match="is another shape than"):
        script.compared("neon", [replace(line, described="in 4")], [line])


def test_dot_products_of_bf16_pairs_may_change_bf16_alone(script):
    line = script.Line.parse("matmul 7 00ff 12.5 in 3, terms 1, activation 2")
    other = replace(line, checksum="00fe", measure=12.51)

    for name in ("v4-bf16", "v4-bf16-emulated"):
        assert script.compared(name, [other], [line])
        for terms in (0, 3):
            described = f"in 3, terms {terms}, activation 1"
            found, wanted = (
                replace(each, described=described) for each in (other, line)
            )
            with pytest.raises(RuntimeError, match="has other bits than"):
                script.compared(name, [found], [wanted])


def test_every_variant_is_built(script):
    builds = script.builds()

    assert {each.variant for each in builds.values()} == {e.name for e in VARIANTS}
    assert next(iter(builds)) == script.REFERENCE


def test_every_kind_of_shape_is_known_to_the_driver(script):
    source = (BENCHMARKS / "sanitizers" / "driver.c").read_text()

    assert set(re.findall(r'\{"(\w+)", \w+_shape\}', source)) == set(script.SHAPES)


def test_every_exported_function_is_called_by_the_driver(script):
    """Those that tell about the library, and the tables, have no shapes."""
    files = script.SOURCES.glob("*.c")
    exported = {
        name
        for each in files
        for name in re.findall(r"^EXPORT [\w *]+?(\w+)\(", each.read_text(), re.M)
        if not name.startswith("build_")
    }
    driver = "".join(each.read_text() for each in script.DRIVER.glob("*.c"))

    assert exported == {name for name in exported if re.search(rf"\b{name}\(", driver)}
    assert {"matmul", "topk", "beam_step", "forward_backward"} <= exported

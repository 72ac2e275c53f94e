"""Names of engines and precisions, and which go together."""

import shutil
from pathlib import Path

import pytest

from headwise.backends.native import library
from headwise.errors import UsageError
from headwise.inference.engines.engine_names import (
    PRECISIONS,
    PRECISIONS_OF,
    check_engine,
    resolve_engine,
)
from headwise.inference.engines.registry import ENGINES, make_engine, make_ensemble
from headwise.interop.unsupported_models import QUANTIZATIONS
from headwise.run_folder.model_folder import open_model_folder

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    copy = shutil.copytree(DEMO, tmp_path_factory.mktemp("model") / "demo")
    return open_model_folder(copy)


def test_every_engine_has_its_precisions():
    assert PRECISIONS_OF.keys() == ENGINES.keys()
    assert {each for has in PRECISIONS_OF.values() for each in has} == {*PRECISIONS}
    assert PRECISIONS_OF["ctranslate2"] == QUANTIZATIONS


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("precision", [*PRECISIONS, "int4"])
def test_the_engines_themselves_refuse_what_the_table_does(
    committed, engine, precision
):
    """So that help, which reads the table, never says less or more than is true."""
    refused = []
    for attempt in (
        lambda: check_engine(engine, precision),
        lambda: ENGINES[engine](committed, precision=precision),
    ):
        try:
            attempt()
            refused.append(False)
        except UsageError:
            refused.append(True)

    assert refused == [precision not in PRECISIONS_OF[engine]] * 2


def test_what_would_work_is_named():
    with pytest.raises(UsageError, match="known: float32, bf16, float16, int8"):
        check_engine("auto", "int4")
    with pytest.raises(UsageError, match="known: auto, ctranslate2, torch"):
        check_engine("warp", "float32")
    with pytest.raises(UsageError, match="in float32 or bf16, not 'int8'; --engine au"):
        check_engine("torch-eager", "int8")


def test_a_backend_is_one_of_the_engine_torch():
    assert resolve_engine("auto") == ("auto", "auto")
    assert resolve_engine("auto", "native") == ("torch", "native")
    assert resolve_engine("torch-eager") == ("torch", "torch")
    assert resolve_engine("torch-readable", "reference") == ("torch", "reference")
    with pytest.raises(UsageError, match="ctranslate2 does without torch"):
        resolve_engine("ctranslate2", "torch")
    with pytest.raises(UsageError, match="--backend torch, not native; give one"):
        resolve_engine("torch-eager", "native")


def test_the_native_backend_is_taken_or_an_error(committed, monkeypatch):
    monkeypatch.setattr(library, "why_unavailable", lambda: "no library")

    with pytest.raises(UsageError, match="native cannot be used: no library"):
        make_engine(committed, "torch", "native")
    with pytest.raises(UsageError, match="native cannot be used: no library"):
        make_ensemble([committed, committed], "auto", "native")
    assert make_engine(committed, "torch", "torch").generator.native is False
    ensemble = make_ensemble([committed, committed], "torch-readable")
    assert not ensemble.generator.cached
    assert make_ensemble([committed] * 2, "auto", "torch").generator.native is False
    assert not make_engine(committed, "torch", "reference").generator.cached

"""What engines and precisions are called, and which go together."""

import shutil
from pathlib import Path

import pytest

from headwise.errors import UsageError
from headwise.inference.engines.registry import ENGINES
from headwise.inference.engines.settings import PRECISIONS, PRECISIONS_OF, check_engine
from headwise.interop.limits import QUANTIZATIONS
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

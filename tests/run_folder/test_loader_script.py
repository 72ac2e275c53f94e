"""The loader script computes what headwise computes, without importing it."""

import json
import subprocess
import sys
from typing import get_args

import pytest
import torch
from tests.model.variant_choices import ONE_OF_EACH
from tests.test_committed_model import FOLDER as DEMO

from headwise.decoding.settings import DecodingSettings, greedy
from headwise.model.config import PositionName, TransformerConfig
from headwise.model.config_checks import OF_KINDS
from headwise.model.kinds import ENCODER_DECODERS
from headwise.model.transformer import Transformer
from headwise.model.variants.names import KNOWN_EVERYWHERE
from headwise.run_folder.editing import edit_model
from headwise.run_folder.loader_script import SCRIPT
from headwise.run_folder.model_folder import (
    ModelFacts,
    open_model_folder,
    write_model_folder,
)
from headwise.tasks.translation.task import Translation
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers

SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 1,
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 3,
    "dropout": 0.1,
}
CONCATENATED = {"position_join": "concatenate", "tie_embeddings": "none"}
SETTINGS = {
    "the paper's": {},
    "only the output tied": {"tie_embeddings": "output"},
    "nothing tied": {"tie_embeddings": "none"},
    "two vocabularies": {"tie_embeddings": "output", "joint": False},
    "biases": {"attention_bias": True, "output_bias": True},
    "pre-norm": {"norm": "pre"},
    "DeepNorm": {"norm": "deep"},
    "embeddings normed": {"embedding_norm": True},
    "gelu": {"activation": "gelu"},
    "swish": {"activation": "swish"},
    "widths of heads": {"d_k": 5, "d_v": 2},
    "sines before cosines": {"positions": "sinusoidal_halves"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "no positions": {"positions": "none"},
    "rotary positions": {"positions": "rotary"},
    "concatenated": CONCATENATED,
    "concatenated, narrow": {**CONCATENATED, "d_position": 4},
    "concatenated, learned": {
        **CONCATENATED,
        "positions": "learned",
        "max_positions": 40,
        "d_position": 5,
    },
    "all at once": {
        **CONCATENATED,
        "norm": "pre",
        "attention_bias": True,
        "output_bias": True,
        "embedding_norm": True,
        "activation": "gelu",
        "d_k": 3,
        "positions": "sinusoidal_halves",
        "joint": False,
    },
}
CASES = [([5, 9, 12, 2], [1, 8, 4]), ([7, 2], [1]), ([4, 4, 11, 8, 2], [1, 6, 6, 6])]

COMPARE = """
import json
sys.stdin = []  # nothing to translate: only the functions are wanted
for folder, answers in json.load(open(sys.argv[1])).items():
    sys.argv[1] = folder
    space = {}
    exec(compile(SCRIPT, "loader.py", "exec"), space)
    for source, target, expected in answers:
        space["torch"].testing.assert_close(
            space["logits"](source, target),
            space["torch"].tensor(expected),
            atol=1e-5,
            rtol=1e-5,
        )
print("the same")
"""


def without_us(program, *arguments, stdin=""):
    """Run a program in a process that cannot import headwise, by whatever way."""
    blocked = f'import sys\nsys.modules["headwise"] = None\n{program}'
    return subprocess.run(
        [sys.executable, "-I", "-c", blocked, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def chance_model(folder, *, joint=True, **changes):
    """Write a model that nobody trained; return it."""
    settings = TextSettings(tokenizer="characters", vocab_size=30, joint=joint)
    pairs = [("a quick brown fox", "jumps over lazy dogs")] * 2
    tokenizers = train_tokenizers(lambda: pairs, settings, seed=1)
    sizes = tokenizers.source.size, tokenizers.target.size
    model = Transformer(TransformerConfig(**{**SMALL, **changes}), *sizes, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    write_model_folder(
        folder,
        model=model,
        task=Translation(tokenizers),
        decoding=DecodingSettings(),
        facts=ModelFacts(
            source_vocab_size=sizes[0],
            target_vocab_size=sizes[1],
            longest_source=12,
            longest_target=14,
        ),
        card="# chance\n",
    )
    return open_model_folder(folder).model


@torch.inference_mode()
def scores(model, source, target):
    tokens = torch.tensor([source])
    return model(tokens, torch.tensor([target]), tokens != 0)[0].tolist()


def test_the_loader_script_fits_on_a_page():
    lines = SCRIPT.splitlines()

    assert len(lines) <= 78
    assert max(map(len, lines)) <= 88


def test_the_loader_script_needs_torch_and_safetensors_only():
    imports = [line.split()[1] for line in SCRIPT.splitlines() if "import " in line]

    assert {name.split(".")[0] for name in imports} == {
        *("json", "sys", "torch", "safetensors")
    }


def test_the_loader_script_gives_the_same_logits_in_every_setting(tmp_path):
    """One process for all settings, since most of its time goes into starting."""
    expected = {}
    for number, (name, settings) in enumerate(SETTINGS.items()):
        folder = tmp_path / f"{number} {name}"
        model = chance_model(folder, **settings)
        expected[str(folder)] = [(*case, scores(model, *case)) for case in CASES]
    (tmp_path / "expected.json").write_text(json.dumps(expected))

    compared = without_us(f"SCRIPT = {SCRIPT!r}\n{COMPARE}", tmp_path / "expected.json")

    assert (compared.stdout, compared.stderr) == ("the same\n", "")


def test_the_loader_script_computes_in_float32_with_weights_of_float16(tmp_path):
    """As headwise does, from a folder that ``headwise edit --float16`` wrote."""
    folder = tmp_path / "model"
    chance_model(folder)
    edit_model(folder, search={}, half=True)
    model = open_model_folder(folder).model
    expected = {str(folder): [(*case, scores(model, *case)) for case in CASES]}
    (tmp_path / "expected.json").write_text(json.dumps(expected))

    compared = without_us(f"SCRIPT = {SCRIPT!r}\n{COMPARE}", tmp_path / "expected.json")

    assert (compared.stdout, compared.stderr) == ("the same\n", "")


def test_no_choice_of_an_architecture_is_left_out():
    """A new setting has to be told to the program, and to this test."""
    tried = {name for settings in SETTINGS.values() for name in settings} - {"joint"}

    of_other_kinds = {
        name for name, kinds in OF_KINDS.items() if "transformer" not in kinds
    }

    assert {*TransformerConfig.__dataclass_fields__} - tried - of_other_kinds == {
        *(SMALL.keys() | {"attention_dropout", "feed_forward_dropout", "kind"}),
        *(KNOWN_EVERYWHERE.keys() - {"positions"}),
    }


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", KNOWN_EVERYWHERE)
def test_the_loader_script_refuses_each_variant(name, tmp_path, monkeypatch, capsys):
    """By its name and value; what a folder of an older version lacks is no variant."""
    config = {"positions": "sinusoidal", name: ONE_OF_EACH[name]}
    (tmp_path / "config.json").write_text(json.dumps({"architecture": config}))
    monkeypatch.setattr(sys, "argv", ["loader.py", str(tmp_path)])

    with pytest.raises(SystemExit) as ended:
        exec(compile(SCRIPT, "loader.py", "exec"), {})

    assert f"{name}" in str(ended.value)
    assert str(ONE_OF_EACH[name]) in str(ended.value)


def test_every_position_that_is_no_variant_is_known_to_the_loader_script():
    refused = SCRIPT.split('config["positions"] in "')[1].split('"')[0].split()

    assert {*refused, *KNOWN_EVERYWHERE["positions"]} == {*get_args(PositionName)}


@pytest.mark.parametrize("kind", sorted({*ENCODER_DECODERS} - {"transformer"}))
def test_the_loader_script_refuses_another_kind_of_model(kind, tmp_path):
    config = {"architecture": {"kind": kind}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "loader.py").write_text(SCRIPT)

    ended = subprocess.run(
        [sys.executable, tmp_path / "loader.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr == "not a Transformer\n"


def test_the_loader_script_translates_as_greedy_search():
    """And so it gives the golden translations, wherever a greedy search finds them."""
    opened = open_model_folder(DEMO)
    sources = opened.task.encode([each.source for each in opened.golden])
    found = opened.task.search(opened.model, sources, greedy())

    done = without_us(
        SCRIPT, DEMO, stdin="".join(" ".join(map(str, ids)) + "\n" for ids in sources)
    )

    ids = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [each[:-1] for each in ids] == [list(best.tokens) for (best,) in found]
    assert all(each[-1] == 2 for each in ids)
    texts = [opened.tokenizers.target.decode(each) for each in ids]
    golden = [each.output for each in opened.golden]
    assert sum(a == b for a, b in zip(texts, golden, strict=True)) >= 4

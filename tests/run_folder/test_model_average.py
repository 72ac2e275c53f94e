"""Averages of the weights of models: which mean, of what, and what is refused."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from tests.tasks.examples import train_example
from tests.tiny import SETTINGS, write_text

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.prepared import PreparedCorpus
from headwise.doctor.check import FAILED
from headwise.doctor.folder_checks import check_folder
from headwise.errors import ModelError, UsageError
from headwise.run_folder.card_edit import CardChanges
from headwise.run_folder.editing import edit_model
from headwise.run_folder.model_average import average_models
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.paths import PREPARED, WEIGHTS
from headwise.run_folder.run import train_run
from headwise.run_folder.safetensors_files import read_tensors
from headwise.settings import merged


@pytest.fixture
def changed(model_folder, rewrite, tmp_path):
    """Return a function that copies the model with changed weights."""

    def copy(name, change):
        folder = shutil.copytree(model_folder, tmp_path / name)
        weights = read_tensors(folder / WEIGHTS)
        rewrite(folder, WEIGHTS, save({k: change(w) for k, w in weights.items()}))
        return folder

    return copy


def other_model(folder, corpus=None, **settings):
    """Train a translator of the same words with other settings; return its folder."""
    source, target = map(str, write_text(folder))
    own = {
        "data": {"corpora": [{"source": source, "target": target}]},
        "training": {"steps": 2, "validate_every": 2},
        **settings,
    }
    recipe = resolve_checked(extra=merged(SETTINGS, own))
    train_run(folder / "run", recipe, corpus or prepare_corpus(folder / "run", recipe))
    return folder / "run"


def test_each_weight_is_the_mean_by_the_shares(model_folder, changed, tmp_path):
    """Of w and w + 1 in shares of 3 to 1: w + 0.25."""
    more = changed("more", lambda weight: weight + 1)
    done = average_models([model_folder, more], tmp_path / "mean", shares=[3, 1])

    assert [(x.folder, x.share) for x in done] == [(model_folder, 0.75), (more, 0.25)]
    before = read_tensors(model_folder / WEIGHTS)
    after = read_tensors(tmp_path / "mean" / WEIGHTS)
    assert after.keys() == before.keys()
    for name, weight in after.items():
        torch.testing.assert_close(weight, before[name] + 0.25, rtol=0, atol=1e-6)


def test_shares_are_equal_unless_they_are_given(model_folder, changed, tmp_path):
    twice = changed("twice", lambda weight: 2 * weight)
    thrice = changed("thrice", lambda weight: 3 * weight)
    average_models([model_folder, twice, thrice], tmp_path / "mean")

    before = read_tensors(model_folder / WEIGHTS)
    for name, weight in read_tensors(tmp_path / "mean" / WEIGHTS).items():
        torch.testing.assert_close(weight, 2 * before[name])


def test_a_model_averaged_with_itself_is_the_same_model(model_folder, tmp_path):
    average_models([model_folder] * 2, tmp_path / "mean", shares=[0.3, 0.7])

    mean, model = open_model_folder(tmp_path / "mean"), open_model_folder(model_folder)
    assert mean.golden == model.golden
    assert mean.decoding == model.decoding
    assert mean.facts == model.facts
    weights = mean.model.state_dict()
    assert all(torch.equal(weights[k], w) for k, w in model.model.state_dict().items())


@pytest.mark.parametrize("side", ["longest_source", "longest_target"])
def test_all_else_is_of_the_first_and_the_longest_text_of_any(
    model_folder, tmp_path, rewrite, side
):
    other = shutil.copytree(model_folder, tmp_path / "other")
    edit_model(other, search={"beam": 2})
    config = (other / "config.json").read_text()
    field = f'"{side}": '
    longest = f"{field}{getattr(open_model_folder(other).facts, side)}"
    assert longest in config
    rewrite(other, "config.json", config.replace(longest, f"{field}90"))
    average_models([model_folder, other], tmp_path / "first")
    average_models([other, model_folder], tmp_path / "second")

    first, second = (open_model_folder(tmp_path / x) for x in ("first", "second"))
    assert (first.decoding.beam, second.decoding.beam) == (4, 2)
    assert getattr(first.facts, side) == getattr(second.facts, side) == 90


def test_golden_translations_are_those_of_the_average(model_folder, changed, tmp_path):
    """Against a model whose outputs are nothing like those of the first."""
    turned = changed("turned", torch.neg)
    average_models([model_folder, turned], tmp_path / "mean", shares=[1e-9, 1])

    mean = tmp_path / "mean"
    assert [x for x in check_folder(mean) if x.status == FAILED] == []
    golden = open_model_folder(mean).golden
    first = open_model_folder(model_folder).golden
    assert [x.source for x in golden] == [x.source for x in first]
    assert [x.output for x in golden] != [x.output for x in first]


def test_weights_in_float16_are_averaged_as_float32(model_folder, changed, tmp_path):
    half = changed("half", torch.Tensor.half)
    average_models([half, model_folder], tmp_path / "mean")

    whole = read_tensors(model_folder / WEIGHTS)
    for name, weight in read_tensors(tmp_path / "mean" / WEIGHTS).items():
        assert weight.dtype == torch.float32
        expected = (whole[name].half().double() + whole[name].double()) / 2
        torch.testing.assert_close(weight, expected.float())


def test_weights_that_were_drawn_apart_are_named(model_folder, changed, tmp_path):
    generator = torch.Generator().manual_seed(1)
    near = changed("near", lambda w: w + 0.01 * torch.randn(w.shape))
    drawn = changed("drawn", lambda w: torch.randn(w.shape, generator=generator))
    done = average_models([model_folder, near, drawn], tmp_path / "mean")

    assert [each.is_unrelated for each in done] == [False, False, True]
    assert abs(done[2].similarity) < 0.2


def test_two_seeds_of_one_recipe_count_as_drawn_apart(tmp_path):
    """And what one became by further training does not."""
    long = {"steps": 60, "validate_every": 60}
    first = other_model(tmp_path / "a", training=long)
    corpus = PreparedCorpus.open(first / PREPARED)
    second = other_model(tmp_path / "b", corpus, training=long, seed=2)
    further = other_model(tmp_path / "c", initialize_from=[str(first)])
    _, apart = average_models([first, second], tmp_path / "apart")
    _, together = average_models([first, further], tmp_path / "together")

    assert (apart.is_unrelated, together.is_unrelated) == (True, False)


def test_the_card_has_the_shares_and_the_cards_of_all(model_folder, tmp_path):
    notes = "Text of `A`.\n\n```sh\n# a comment\n```\n\n### From where"
    edit_model(
        model_folder, search={}, card=CardChanges(license="mit", notes=notes, title="A")
    )
    other = shutil.copytree(model_folder, tmp_path / "other")
    average_models([model_folder, other], tmp_path / "mean", shares=[2, 1])

    card = (tmp_path / "mean" / "README.md").read_text()
    assert 'license: "mit"' in card
    assert "model-index" not in card
    assert "\n# mean\n" in card
    assert "| `model` | 0.6667 |\n| `other` | 0.3333 |" in card
    assert "## The card of `model`\n\n### A\n" in card
    assert "## The card of `other`\n\n### A\n" in card
    assert card.count("\n##### From where\n") == 2
    assert card.count("\n# a comment\n") == 2
    titled = CardChanges(title="Both", notes="Ours.")
    edit_model(tmp_path / "mean", search={}, card=titled)
    edited = (tmp_path / "mean" / "README.md").read_text()
    assert "\n# Both\n" in edited
    assert edited.endswith("## Notes\n\nOurs.\n")
    assert edited.count("\n#### Notes\n") == 2


def test_names_of_any_kind_stand_in_the_table(model_folder, tmp_path):
    odd = shutil.copytree(model_folder, tmp_path / "a|b\nc")
    average_models([odd, model_folder], tmp_path / "mean")

    card = (tmp_path / "mean" / "README.md").read_text()
    assert "| `a\\|b c` | 0.5 |\n| `model` | 0.5 |\n" in card


def test_a_folder_that_is_called_a_dot_has_its_name(
    model_folder, tmp_path, monkeypatch
):
    (tmp_path / "mean").mkdir()
    monkeypatch.chdir(tmp_path / "mean")
    average_models([model_folder, model_folder], Path())

    assert "\n# mean\n" in (tmp_path / "mean" / "README.md").read_text()


def test_a_licence_that_only_one_has_is_not_that_of_both(model_folder, tmp_path):
    other = shutil.copytree(model_folder, tmp_path / "other")
    edit_model(other, search={}, card=CardChanges(license="mit"))
    average_models([other, model_folder], tmp_path / "mean")

    assert 'license: "unknown"' in (tmp_path / "mean" / "README.md").read_text()


def test_a_run_stands_for_its_best_model_by_its_own_name(run_folder, tmp_path):
    average_models([run_folder, run_folder / "best"], tmp_path / "mean")

    card = (tmp_path / "mean" / "README.md").read_text()
    assert card.count("## The card of `run`\n") == 2
    best = read_tensors(run_folder / "best" / WEIGHTS)
    mean = read_tensors(tmp_path / "mean" / WEIGHTS)
    assert all(torch.equal(mean[name], weight) for name, weight in best.items())


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([1], "2 models need 2 shares, not 1"),
        ([1, 0], "a share must be above 0 and finite, not 0"),
        ([1, -0.5], "not -0.5"),
        ([1, math.nan], "not nan"),
        ([math.inf, 1], "not inf"),
        ([1e-17, 1], "a share of 1e-17 is nothing beside the 1 of all"),
    ],
)
def test_wrong_shares_are_refused(model_folder, tmp_path, shares, said):
    with pytest.raises(UsageError, match=said):
        average_models([model_folder] * 2, tmp_path / "mean", shares=shares)
    assert not (tmp_path / "mean").exists()


def test_one_model_has_no_average(model_folder, tmp_path):
    with pytest.raises(UsageError, match="two models or more"):
        average_models([model_folder], tmp_path / "mean")


def test_another_architecture_and_another_tokenizer_are_named(model_folder, tmp_path):
    wide = other_model(
        tmp_path / "wide",
        model={"d_model": 32, "dropout": 0.2},
        text={"vocab_size": 40},
    )
    with pytest.raises(ModelError) as refused:
        average_models([model_folder, wide], tmp_path / "mean")

    said = str(refused.value)
    assert f"d_model is 16 in {model_folder}, 32 in {wide}" in said
    assert "have different tokenizers or labels" in said
    assert "dropout" not in said  # no weight depends on it
    assert not (tmp_path / "mean").exists()


def test_another_task_is_named(model_folder, tmp_path):
    (tmp_path / "of").mkdir()
    classifier = train_example("classification", tmp_path / "of")
    with pytest.raises(ModelError, match="models of translation and of classification"):
        average_models([model_folder, classifier], tmp_path / "mean")


def test_other_settings_of_the_task_are_named(tmp_path, rewrite):
    (tmp_path / "of").mkdir()
    one = train_example("classification", tmp_path / "of") / "best"
    other = shutil.copytree(one, tmp_path / "other")
    config = (other / "config.json").read_text()
    assert '"pooling": "mean"' in config
    rewrite(other, "config.json", config.replace('"mean"', '"first"', 1))
    with pytest.raises(ModelError, match="different settings of classification"):
        average_models([one, other], tmp_path / "mean")

"""Training that goes on with a model of the same task: what it takes over."""

import shutil
from dataclasses import replace

import pytest
from tests.tiny import SETTINGS, WORDS, write_text

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.prepared import PreparedCorpus
from headwise.recipe.preset_training import preset_table
from headwise.run_folder.model_folder import open_model_folder
from headwise.run_folder.pretrained import Pretrained, longest_texts
from headwise.run_folder.run import train_run
from headwise.settings import merged
from headwise.tasks import TASKS

SHORT = {"steps": 4, "validate_every": 2, "validation_pairs": 5}
DECODING = {"beam": 2, "copy_numbers": True, "split_sentences": False}


def train(out, recipe):
    train_run(out, recipe, prepare_corpus(out, recipe))
    return out


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return the run folder of a translator with a search of its own."""
    folder = tmp_path_factory.mktemp("first")
    source, target = map(str, write_text(folder))
    own = {
        "text": {"placeholders": 0.1},
        "training": SHORT,
        "decoding": DECODING,
        "data": {"corpora": [{"source": source, "target": target}], "dev_pairs": 20},
    }
    return train(folder / "run", resolve_checked(extra=merged(SETTINGS, own)))


def recipe_from(begun, folder, *, out=None, **settings):
    """Return the recipe of a further training, by one-word sentences."""
    folder.mkdir(exist_ok=True)
    for side, words in (("en", WORDS.keys()), ("de", WORDS.values())):
        lines = [f"{word}.\n" for word in words] * 10
        (folder / f"short.{side}").write_text("".join(lines), encoding="utf-8")
    corpus = {side: str(folder / f"short.{x}") for side, x in SIDES}
    data = {"corpora": [corpus], "dev_pairs": 2}
    table = {"initialize_from": [str(begun)], "data": data, **settings}
    return resolve_checked(preset="micro", extra=table, out=out)


SIDES = (("source", "en"), ("target", "de"))


def test_search_and_placeholders_are_those_of_the_model(begun, tmp_path):
    recipe = recipe_from(begun, tmp_path)

    assert (recipe.decoding.beam, recipe.decoding.copy_numbers) == (2, True)
    assert recipe.text.placeholders == 0.1
    assert recipe.decoding.split_sentences is None  # the new text tells


def test_a_recipe_may_have_others(begun, tmp_path):
    others = {"decoding": {"beam": 3, "copy_numbers": False}, "text": {}}
    others["text"]["placeholders"] = 0.0
    recipe = recipe_from(begun, tmp_path, training={"learning_rate": 0.5}, **others)

    assert (recipe.decoding.beam, recipe.decoding.copy_numbers) == (3, False)
    assert recipe.text.placeholders == 0.0
    assert recipe.training.learning_rate == 0.5


def test_the_learning_rate_is_a_tenth_of_that_of_the_preset(begun, tmp_path):
    preset = preset_table("micro")["training"]["learning_rate"]

    recipe = recipe_from(begun, tmp_path)
    assert recipe.training.learning_rate == preset / 10
    task = TASKS["translation"].open(open_model_folder(begun / "best").tokenizers, None)
    model = task.new_model(recipe.model, seed=1)
    notes = Pretrained.open([str(begun)], "translation").load_into(model, recipe)
    assert notes[-1] == "fine-tuning: a learning rate of 0.0003 at its peak"


def test_few_pairs_are_validated_by_loss_and_others_as_their_preset_says(
    begun, tmp_path
):
    def validation(preset, **training):
        own = {"initialize_from": [str(begun)], "training": training}
        own["data"] = {"corpora": [{"source": "a", "target": "b"}]}
        settings = resolve_checked(preset=preset, extra=own).training
        return settings.measure, settings.patience, settings.on_plateau

    tiny = preset_table("tiny")["training"]
    assert validation("micro") == ("loss", 5, "stop")
    assert validation("micro", measure="chrf") == ("chrf", 5, "stop")
    assert validation("tiny") == ("bleu", tiny["patience"], tiny["on_plateau"])


def test_weights_that_were_learned_do_not_decay_unless_a_recipe_says_so(begun):
    def decay(begin, **training):
        own = {"initialize_from": begin, "training": training}
        own["data"] = {"corpora": [{"source": "a", "target": "b"}]}
        return resolve_checked(preset="tiny", extra=own).training.weight_decay

    assert decay([]) == preset_table("tiny")["training"]["weight_decay"] > 0
    assert decay([str(begun)]) == 0
    assert decay([str(begun)], weight_decay=0.1) == 0.1


def test_another_task_takes_the_weights_alone(begun, tmp_path):
    rows = "one two\tfew\n" * 30 + "one two three four\tmany\n" * 30
    (tmp_path / "train.tsv").write_text(rows, encoding="utf-8")
    recipe = resolve_checked(
        preset="micro",
        extra={
            "task": "classification",
            "initialize_from": [str(begun)],
            "data": {"corpora": [{"source": str(tmp_path / "train.tsv")}]},
        },
    )
    preset = preset_table("micro")["training"]["learning_rate"]

    assert recipe.training.learning_rate == preset
    assert recipe.training.measure == "accuracy"
    assert recipe.text.placeholders == 0.0


def test_texts_that_the_first_model_read_whole_are_read_whole(begun, tmp_path):
    """Whatever the length of the new ones: four words, although they are single."""
    first = open_model_folder(begun / "best").facts
    out = tmp_path / "run"
    train(out, recipe_from(begun, tmp_path, out=out, training=SHORT))

    found = open_model_folder(out / "best").facts
    assert found.longest_source == first.longest_source > 2
    assert found.longest_target == first.longest_target


def test_a_run_resumes_by_the_same_settings_without_the_first_model(begun, tmp_path):
    first, out = tmp_path / "moved", tmp_path / "run"
    shutil.copytree(begun, first)
    longest = open_model_folder(first / "best").facts.longest_source
    recipe = recipe_from(first, tmp_path, out=out, training=SHORT)
    train(out, recipe)
    shutil.rmtree(first)

    again = recipe_from(first, tmp_path, out=out, training={**SHORT, "steps": 6})
    assert again.decoding == recipe.decoding
    assert again.text == recipe.text
    assert again.training == replace(recipe.training, steps=6)
    assert again.training.measure == "loss"
    train(out, again)
    assert open_model_folder(out / "best").facts.longest_source == longest


def test_a_run_without_a_best_model_resumes_without_the_first_one(begun, tmp_path):
    """Its own text counts then."""
    train_text = PreparedCorpus.open(begun / "prepared").facts.train
    other = replace(train_text, longest_source=70, longest_target=80)
    recipe = recipe_from(begun, tmp_path)
    gone = replace(recipe, initialize_from=(str(tmp_path),))

    assert longest_texts(tmp_path, gone, other) == (70, 80)
    assert longest_texts(tmp_path, recipe, other) == (70, 80)
    shorter = replace(train_text, longest_source=1, longest_target=1)
    assert longest_texts(tmp_path, recipe, shorter) == train_text.longest


def test_the_words_that_the_model_knows_stay_known(begun, tmp_path):
    known = open_model_folder(begun / "best").tokenizers.known_words
    recipe = recipe_from(begun, tmp_path)

    corpus = prepare_corpus(tmp_path / "next", recipe)

    assert known is not None
    assert corpus.tokenizers.known_words.words == known.words | set(WORDS)
    assert corpus.given_tokenizers.known_words == corpus.tokenizers.known_words

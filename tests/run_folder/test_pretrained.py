"""Training that starts from other models: their weights, tokenizers, architecture."""

from dataclasses import replace

import pytest
import torch
from tests.tasks.examples import EXAMPLES, settings_of, train_example
from tests.tiny import SETTINGS, write_text

from headwise.cli.build_recipe import resolve_checked
from headwise.cli.prepare_and_train import prepare_corpus
from headwise.data.prepared import PreparedCorpus
from headwise.errors import DataError, ModelError, SettingsError
from headwise.inference.load import load_predictor
from headwise.model.transformer import Transformer
from headwise.run_folder.pretrained import Pretrained, longest_texts
from headwise.run_folder.run import train_run
from headwise.settings import merged


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Return the run folder of a small BERT."""
    return train_example("masked_language_model", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """Return the run folder of a small GPT, of the same architecture."""
    folder = tmp_path_factory.mktemp("gpt")
    table = settings_of("language_model", folder)
    table = merged(
        table,
        {
            "text": {"tokenizer": "words", "normalization": "nfkc"},
            "model": {"d_model": 32, "num_heads": 4, "positions": "rotary"},
        },
    )
    recipe = resolve_checked(extra=table)
    train_run(folder / "run", recipe, prepare_corpus(folder / "run", recipe))
    return folder / "run"


def recipe_from(task, folder, out, *models, **model):
    """Return a recipe for the example of a task that starts from ``models``."""
    training = {**SETTINGS["training"], "steps": 4, "validate_every": 2}
    table = {
        "task": task,
        "data": {"corpora": [EXAMPLES[task](folder)]},
        "training": training,
        "model": {"dropout": 0.0, **model},
        "initialize_from": [str(each) for each in models],
    }
    return resolve_checked(extra=table, out=out)


def start(task, tmp_path, *models, **model):
    """Train for some steps from ``models``; return the run folder."""
    out = tmp_path / "fine-tuned"
    recipe = recipe_from(task, tmp_path, out, *models, **model)
    train_run(out, recipe, prepare_corpus(out, recipe))
    return out


def begin(recipe, corpus):
    """Return the model that training would begin with, and what was copied."""
    from headwise.run_folder.run import open_task

    model = open_task(recipe, corpus).new_model(recipe.model, seed=recipe.seed)
    pretrained = Pretrained.open(recipe.initialize_from, recipe.task)
    return model, pretrained.load_into(model, recipe)


@pytest.mark.parametrize("task", ["classification", "regression", "tagging"])
def test_an_encoder_task_begins_with_the_weights_of_a_pretrained_encoder(
    task, encoder, tmp_path
):
    recipe = recipe_from(task, tmp_path, tmp_path / "run", encoder)
    model, notes = begin(recipe, prepare_corpus(tmp_path / "run", recipe))
    theirs = load_predictor(encoder).opened.model.encoder_only.state_dict()
    ours = model.encoder_only.state_dict()

    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert len(notes) == 1
    assert f"{len(ours)} of {len(ours)} tensors" in notes[0]


def test_its_outputs_are_the_encoders_vectors(encoder, tmp_path):
    """Pooling of a classifier that was not trained is the mean of the same vectors."""
    recipe = recipe_from("classification", tmp_path, tmp_path / "run", encoder)
    corpus = prepare_corpus(tmp_path / "run", recipe)
    model, _ = begin(recipe, corpus)
    from headwise.run_folder.run import open_task

    texts = ["one two three", "six"]
    ours = open_task(recipe, corpus).vectors(model, texts)
    theirs = load_predictor(encoder).embed(texts)
    torch.testing.assert_close(torch.stack(ours), torch.as_tensor(theirs))


def test_architecture_and_tokenizer_come_with_the_weights(encoder, tmp_path):
    out = start("classification", tmp_path, encoder)
    ours, theirs = (load_predictor(each).opened for each in (out, encoder))

    assert ours.config.positions == theirs.config.positions == "rotary"
    assert ours.config.d_model == 32
    text = "two one six"
    assert ours.tokenizers.source.encode(text) == theirs.tokenizers.source.encode(text)


def test_a_translator_takes_the_encoder_of_one_and_the_decoder_of_another(
    encoder, decoder, tmp_path
):
    source, _ = write_text(tmp_path)
    table = {
        "data": {"corpora": [{"source": str(source), "target": str(source)}]},
        "model": {"dropout": 0.0, "tie_embeddings": "output"},
        "training": SETTINGS["training"],
        "initialize_from": [str(encoder), str(decoder)],
    }
    recipe = resolve_checked(extra=table, out=tmp_path / "run")
    model, notes = begin(recipe, prepare_corpus(tmp_path / "run", recipe))
    bert, gpt = (load_predictor(each).opened.model for each in (encoder, decoder))

    weights = model.state_dict()
    for name, theirs in bert.encoder_only.encoder.state_dict().items():
        assert torch.equal(weights[f"encoder.{name}"], theirs)
    for name, theirs in gpt.decoder.state_dict().items():
        assert torch.equal(weights[f"decoder.{name}"], theirs)
    embeddings = weights["embeddings.source.vectors"], bert.encoder_only.embedding
    assert torch.equal(embeddings[0], embeddings[1].vectors)
    assert torch.equal(weights["embeddings.target.vectors"], gpt.embedding.vectors)
    assert len(notes) == 2


def test_a_stack_with_deep_norm_computes_the_same_in_a_model_of_another_depth(tmp_path):
    """An encoder alone has another α than one with a decoder; W^O and W₂ make up."""
    table = settings_of("masked_language_model", tmp_path)
    table = merged(table, {"model": {"norm": "deep"}, "training": {"steps": 2}})
    recipe = resolve_checked(extra=table)
    corpus = prepare_corpus(tmp_path / "run", recipe)
    train_run(tmp_path / "run", recipe, corpus)
    bert = load_predictor(tmp_path / "run").opened.model.encoder_only
    tied = {"tie_embeddings": "output"}
    recipe = recipe_from(
        "translation", tmp_path, tmp_path / "out", tmp_path / "run", **tied
    )
    model = Transformer(recipe.model, bert.vocab_size, 50, seed=1).eval()
    Pretrained.open(recipe.initialize_from, "translation").load_into(model, recipe)

    scales = [
        each.encoder.blocks[0].around_attention.residual_scale for each in (bert, model)
    ]
    assert scales[0] != scales[1]
    tokens = torch.randint(4, bert.vocab_size, (2, 6))
    is_real = torch.ones_like(tokens, dtype=torch.bool)
    with torch.no_grad():
        expected = bert.eval().encode(tokens, is_real)
        found = model.encode_source(tokens, is_real)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_run_that_began_resumes_without_the_model_it_started_from(encoder, tmp_path):
    import shutil

    moved = tmp_path / "bert"
    shutil.copytree(encoder, moved)
    out = start("classification", tmp_path, moved)
    shutil.rmtree(moved)

    recipe = recipe_from("classification", tmp_path, out, moved)
    state = train_run(out, recipe, prepare_corpus(out, recipe))
    assert state.step == 4
    card = (out / "best" / "README.md").read_text(encoding="utf-8")
    assert "started from the weights of `bert`." in card


def test_a_model_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelError, match="no-such-model"):
        recipe_from("classification", tmp_path, tmp_path, tmp_path / "no-such-model")


def test_a_decoder_alone_gives_nothing_to_a_classifier(decoder, tmp_path):
    with pytest.raises(SettingsError, match=r"has the decoder; .* needs the encoder"):
        recipe_from("classification", tmp_path, tmp_path, decoder)


def test_a_first_model_that_was_replaced_by_another_kind_says_no_length(
    encoder, decoder, tmp_path
):
    recipe = recipe_from("classification", tmp_path, tmp_path, encoder)
    other = replace(recipe, initialize_from=(str(decoder),))
    train = PreparedCorpus.open(encoder / "prepared").facts.train

    assert longest_texts(tmp_path, other, train) == train.longest


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"model": {"d_model": 64}}, r"model\.d_model is 64, but .* has 32"),
        ({"text": {"tokenizer": "bpe"}}, r"text\.tokenizer is 'bpe', .* has 'words'"),
        ({"text": {"normalization": "none"}}, r"text\.normalization is 'none'"),
    ],
)
def test_settings_that_contradict_the_model_are_refused_before_preparation(
    setting, message, encoder, tmp_path
):
    out = tmp_path / "run"
    table = {
        "task": "classification",
        "data": {"corpora": [EXAMPLES["classification"](tmp_path)]},
        "initialize_from": [str(encoder)],
        **setting,
    }
    recipe = resolve_checked(extra=table, out=out)
    with pytest.raises(SettingsError, match=message):
        prepare_corpus(out, recipe)
    assert not (out / "prepared").exists()


def test_a_corpus_with_another_tokenizer_is_refused(encoder, tmp_path):
    from headwise.recipe import resolve

    plain = resolve(extra=settings_of("classification", tmp_path))
    corpus = prepare_corpus(tmp_path / "plain", plain)
    recipe = recipe_from("classification", tmp_path, tmp_path / "run", encoder)
    with pytest.raises(DataError, match="another tokenizer for the source"):
        train_run(tmp_path / "run", recipe, corpus)

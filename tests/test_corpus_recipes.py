"""Recipes of public corpora name what ``headwise data get`` writes, and train on it."""

import gzip
import re
from pathlib import Path

import pytest

from headwise.data.public.catalogue import CORPORA
from headwise.data.public.multi30k import multi30k
from headwise.recipe import resolve

RECIPES = {
    path: re.search(r"^#   headwise data get (\S+)$", path.read_text(), re.MULTILINE)
    for path in sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
}
PUBLIC = {path: found[1] for path, found in RECIPES.items() if found}
"""Recipes that name a public corpus in their head."""

PUBLISHED = re.compile(r"Published|published")


def files_of(recipe):
    return [
        file for each in (*recipe.data.corpora, recipe.data.dev) for file in each.files
    ]


def test_there_is_a_recipe_for_each_corpus_but_the_czech_one():
    assert set(PUBLIC.values()) == set(CORPORA) - {"multi30k-en-cs"}


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_a_recipe_says_what_is_published_and_reads_its_corpus(path):
    name = PUBLIC[path]
    recipe = resolve(file=path)
    text = path.read_text(encoding="utf-8")
    head = text.split("preset =")[0].replace("\n# ", " ")

    assert path.stem.startswith(name)
    assert recipe.languages == CORPORA[name]().languages
    assert all(file.startswith(f"corpora/{name}/") for file in files_of(recipe))
    assert PUBLISHED.search(head)
    assert re.search("easured by us", head), "what is ours, and what is not"
    assert f"headwise run --recipe recipes/{path.name} --out" in head


def test_the_papers_models_are_those_of_sections_5_and_6():
    """Table 3 and Sections 5.1 to 5.4; P_drop is 0.1 in the big model of French."""

    def facts(name):
        recipe = resolve(file=Path(__file__).parents[1] / "recipes" / f"{name}.toml")
        model, training = recipe.model, recipe.training
        assert training.batch_tokens == 25_000
        assert training.warmup_steps == 4000
        assert training.label_smoothing == 0.1
        assert training.learning_rate is None, "Equation 3"
        assert (
            recipe.decoding
            == resolve(
                assignments=[
                    *(
                        "decoding.beam=4",
                        "decoding.alpha=0.6",
                        "decoding.stopping=exact",
                    ),
                    *("decoding.length_penalty=gnmt", "decoding.max_length_factor=1.0"),
                    "decoding.max_length_offset=50",
                ]
            ).decoding
        )
        return (
            *(model.d_model, model.d_ff, model.num_heads, model.dropout),
            *(training.steps, training.average_last, recipe.text.vocab_size),
        )

    assert facts("wmt14-en-de-base") == (512, 2048, 8, 0.1, 100_000, 5, 37_000)
    assert facts("wmt14-en-de-big") == (1024, 4096, 16, 0.3, 300_000, 20, 37_000)
    assert facts("wmt14-en-fr-big") == (1024, 4096, 16, 0.1, 300_000, 20, 32_000)


def write_start(source, to):
    """Write the first 300 lines of a text, plain or gzip."""
    packed = source.with_name(f"{source.name}.gz")
    content = source.read_bytes() if source.exists() else None
    lines = (content or gzip.decompress(packed.read_bytes())).split(b"\n")[:300]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def written(corpora, tmp_path):
    """Lay out the start of staged corpora as ``headwise data get`` does."""
    for other in ("de", "fr"):
        for each in multi30k(other, tests=()).downloads:
            if "/tok/" in each.name:
                path = each.name.removeprefix("multi30k/")
                to = tmp_path / "corpora" / f"multi30k-en-{other}" / path
                write_start(corpora / each.name, to)
        for part in ("train", "dev", "test"):
            name = f"tatoeba-en-{other}/{part}.tsv"
            write_start(corpora / name, tmp_path / "corpora" / name)
    return tmp_path


LOCAL = ("multi30k-en-de", "multi30k-en-fr", "tatoeba-en-de", "tatoeba-en-fr")


@pytest.mark.parametrize("name", LOCAL)
def test_a_recipe_trains_on_what_was_downloaded(name, written, monkeypatch):
    from headwise.data.prepare import prepare
    from headwise.run_folder.run import train_run

    path = Path(__file__).parents[1] / "recipes" / f"{name}.toml"
    monkeypatch.chdir(written)
    small = ["training.steps=3", "training.validate_every=3", "text.vocab_size=900"]
    small += ["training.batch_tokens=512", "training.validation_pairs=4"]
    recipe = resolve(file=path, assignments=small)
    corpus = prepare(recipe.data, recipe.text, Path("prepared"), seed=recipe.seed)
    train_run(Path("run"), recipe, corpus)

    assert corpus.facts.train.pairs > 250
    assert (written / "run" / "best" / "model.safetensors").exists()

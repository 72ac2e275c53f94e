"""Prepared pictures: rows, splits, counts in patches, and faults."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image

from headwise.data.batches import TrainingOrder, largest_batch, make_batch
from headwise.data.pair_formats import CAPTIONS, PICTURES
from headwise.data.picture_store import PictureStore
from headwise.data.prepare import fingerprint, prepare
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError, SettingsError
from headwise.text.settings import TextSettings
from headwise.text.vocabulary import END

TEXT = TextSettings(tokenizer="patches", target_tokenizer="labels", joint=False)


def save(path, count, *, seed=1, size=(4, 6), labels=("dark", "light")):
    """Write pictures [N H W] of two classes; return the settings of a corpus."""
    images = np.random.default_rng(seed).integers(0, 256, (count, *size), np.uint8)
    names = np.array(labels)[np.arange(count) % len(labels)]
    np.savez_compressed(path, images=images, labels=names)
    return CorpusSettings(source=str(path), format="pictures")


def prepared(folder, data, *, patch_size=2, seed=1, say=lambda _: None):
    return prepare(
        data,
        TEXT,
        folder / "prepared",
        seed=seed,
        pair_format=PICTURES,
        patch_size=patch_size,
        say=say,
    )


@pytest.fixture
def corpus(tmp_path):
    data = DataSettings(corpora=(save(tmp_path / "a.npz", 40),), dev_pairs=8)
    return prepared(tmp_path, data)


def test_counts_are_in_patches(corpus):
    facts = corpus.facts

    assert (facts.train.pairs, facts.dev.pairs) == (32, 8)
    assert facts.train.longest == (6, 1)
    assert facts.train.source_tokens == 32 * 6
    assert facts.patch_values == 4
    assert corpus.tokenizers.target.labels == ("dark", "light")
    assert corpus.train.count_tokens(np.array([1, 2])) == (12, 2)


def test_what_a_batch_holds(corpus):
    batch = make_batch(corpus.dev, np.array([3, 0]))
    urls, labels = corpus.dev_text
    tokenizers = corpus.tokenizers

    assert batch.source.tokens.shape == (12, 4)
    assert batch.source.padded().shape == (2, 6, 4)
    assert batch.source.tokens.dtype == torch.uint8
    for row, number in enumerate((3, 0)):
        expected = tokenizers.source.encode(urls[number])
        assert batch.source.padded()[row].flatten().tolist() == expected
        assert batch.target.padded()[row].tolist() == (
            tokenizers.target.encode(labels[number])
        )


def test_rows_of_a_batch_are_those_of_a_smaller_one(corpus):
    whole, one = (make_batch(corpus.train, np.array(x)) for x in ([1, 2, 3], [2]))
    row = whole.rows(torch.tensor([1]))

    assert torch.equal(row.source.tokens, one.source.tokens)
    assert torch.equal(row.target.tokens, one.target.tokens)


def test_the_budget_of_a_batch_is_in_patches(corpus):
    order = TrainingOrder(corpus.train, seed=1, batch_tokens=21)
    batches = list(order.batches(0))

    assert max(map(len, batches)) == 3  # of 6 patches and the [class] token
    assert sorted(i for b in batches for i in b.indices.tolist()) == [*range(32)]
    dummy = largest_batch(
        *corpus.facts.train.longest, 21, ends=corpus.facts.ends, patch_values=4
    )
    assert dummy.source.tokens.shape == (18, 4)


def test_no_held_out_picture_is_trained_on(corpus):
    train = {
        make_batch(corpus.train, np.array([i])).source.tokens.numpy().tobytes()
        for i in range(32)
    }
    dev = {
        make_batch(corpus.dev, np.array([i])).source.tokens.numpy().tobytes()
        for i in range(8)
    }
    assert not train & dev


def test_a_copy_of_a_held_out_picture_is_dropped(tmp_path):
    one = save(tmp_path / "a.npz", 40)
    said = []
    corpus = prepared(
        tmp_path, DataSettings(corpora=(one, one), dev_pairs=8), say=said.append
    )

    assert (corpus.facts.train.pairs, corpus.facts.dev.pairs) == (64, 8)
    assert corpus.facts.corpora[1].held_out == 8
    dropped = (tmp_path / "prepared" / "dropped.tsv").read_text().splitlines()
    assert len(dropped) == 1 + 8
    assert "8 dropped" in said[-1]


def test_a_validation_set_is_used_whole(tmp_path):
    train, dev = save(tmp_path / "a.npz", 20), save(tmp_path / "b.npz", 6, seed=2)
    corpus = prepared(tmp_path, DataSettings(corpora=(train,), dev=dev))

    assert (corpus.facts.train.pairs, corpus.facts.dev.pairs) == (20, 6)
    assert corpus.facts.dev_corpus.read == 6


def test_a_folder_of_files_gives_the_same_rows(tmp_path):
    data = DataSettings(corpora=(save(tmp_path / "a.npz", 20),), dev_pairs=4)
    arrays = np.load(tmp_path / "a.npz")
    for number, (pixels, label) in enumerate(
        zip(arrays["images"], arrays["labels"], strict=True)
    ):
        path = tmp_path / "png" / str(label) / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    files = CorpusSettings(source=str(tmp_path / "png"), format="pictures")
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    one = prepared(tmp_path / "1", data)
    two = prepared(tmp_path / "2", dataclasses.replace(data, corpora=(files,)))

    assert sorted(one.dev_text[0]) == sorted(two.dev_text[0])
    assert one.facts.train == two.facts.train


def test_the_fingerprint_is_of_pixels_labels_and_patch_size(tmp_path):
    def name(*, patch_size=2, **options):
        data = DataSettings(corpora=(save(tmp_path / "a.npz", 20, **options),))
        return fingerprint(
            data, TEXT, seed=1, pair_format=PICTURES, patch_size=patch_size
        )

    first = name()
    assert name() == first
    others = {name(seed=2), name(labels=("x", "y")), name(patch_size=1)}
    assert len({first, *others}) == 4


def test_a_corpus_that_is_up_to_date_is_used_again(tmp_path):
    data = DataSettings(corpora=(save(tmp_path / "a.npz", 20),))
    said = []
    prepared(tmp_path, data)
    prepared(tmp_path, data, say=said.append)

    assert "up to date" in said[0]


def test_pictures_of_two_sizes_are_refused(tmp_path):
    one = save(tmp_path / "a.npz", 20)
    other = save(tmp_path / "b.npz", 20, size=(4, 4))
    with pytest.raises(DataError, match=r"4 x 4 pixels, L, but .* of 6 x 4 pixels, L"):
        prepared(tmp_path, DataSettings(corpora=(one, other)))


def test_a_label_that_was_never_trained_on_is_named(tmp_path):
    train = save(tmp_path / "a.npz", 20)
    dev = save(tmp_path / "b.npz", 4, labels=("dark", "red"))
    with pytest.raises(DataError, match=r"b\.npz, images\[1\]: the label 'red'"):
        prepared(tmp_path, DataSettings(corpora=(train,), dev=dev))


def test_a_patch_size_that_does_not_fit_is_refused(tmp_path):
    data = DataSettings(corpora=(save(tmp_path / "a.npz", 20),))
    with pytest.raises(SettingsError, match="patch sizes 1, 2 would work"):
        prepared(tmp_path, data, patch_size=4)


def test_more_patches_than_max_tokens_are_refused(tmp_path):
    data = DataSettings(corpora=(save(tmp_path / "a.npz", 20),), max_tokens=5)
    with pytest.raises(SettingsError, match="6 patches, which is above"):
        prepared(tmp_path, data)


@pytest.mark.parametrize("swapped", ["pixels", "tokens", "offsets"])
def test_files_that_do_not_fit_each_other_are_refused(corpus, swapped):
    names = {each: f"train.{each}.npy" for each in ("pixels", "tokens", "offsets")}
    names[swapped] = f"dev.{swapped}.npy"
    paths = [corpus.folder / name for name in names.values()]
    with pytest.raises(DataError, match="does not fit"):
        PictureStore(*paths, num_patches=6, patch_values=4, ends=(False, False))


CAPTIONS_TEXT = TextSettings(
    tokenizer="patches", target_tokenizer="words", joint=False, vocab_size=20
)


def captioned(folder, data, **changes):
    return prepare(
        data,
        dataclasses.replace(CAPTIONS_TEXT, **changes),
        folder / "prepared",
        seed=1,
        pair_format=CAPTIONS,
        patch_size=2,
    )


def test_captions_are_rows_of_any_length(tmp_path):
    captions = "a dark one", "light"
    data = DataSettings(
        corpora=(save(tmp_path / "a.npz", 40, labels=captions),), dev_pairs=8
    )
    corpus = captioned(tmp_path, data)
    target = corpus.tokenizers.target
    sources, targets = corpus.train.lengths()
    batch = make_batch(corpus.dev, np.array([3, 0]))
    texts = corpus.dev_text[1]

    assert set(sources) == {6}
    assert set(targets) == {1, 3}
    assert corpus.facts.train.longest == (6, 3)
    assert corpus.facts.train.target_tokens == targets.sum()
    assert corpus.train.count_tokens(np.array([0, 1])) == (12, targets[:2].sum() + 2)
    rows = batch.target.tokens.split(batch.target.lengths.tolist())
    for row, text in zip(rows, (texts[3], texts[0]), strict=True):
        assert row.tolist() == [*target.encode(text), END]


def test_captions_that_are_too_long_are_dropped_and_listed(tmp_path):
    long = " ".join(["long"] * 7)
    corpora = (save(tmp_path / "a.npz", 40, labels=(long, "short")),)
    corpus = captioned(
        tmp_path, DataSettings(corpora=corpora, max_tokens=6, dev_pairs=4)
    )
    (facts,) = corpus.facts.corpora
    dropped = (corpus.folder / "dropped.tsv").read_text().splitlines()

    assert (facts.read, facts.too_long) == (40, 20)
    assert dropped[1].split("\t")[1:] == ["1", "too_long", "6", "7"]
    assert len(dropped) == 1 + 20


def test_captions_that_are_all_too_long_are_an_error(tmp_path):
    corpora = (save(tmp_path / "a.npz", 40, labels=("one two three", "four five")),)
    data = DataSettings(corpora=corpora, dev=corpora[0], max_tokens=6)
    with pytest.raises(DataError, match="no picture is left for training"):
        captioned(tmp_path, data, target_tokenizer="characters")

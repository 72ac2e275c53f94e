"""What the masked language model of the sentiment benchmark is trained on."""

import gzip

from benchmarks.review_texts import (
    PRETRAINING_DEV,
    as_in_treebank,
    is_positive,
    labelled_phrases,
    pretraining_texts,
)


def test_words_are_divided_as_in_the_treebank():
    text = "It's \"fun\" , but they don't care--  really ."
    expected = "it 's '' fun '' , but they do n't care -- really ."
    assert as_in_treebank(text) == expected


def test_the_text_of_a_treebank_stays_as_it_is():
    text = "you 've got ice water in your veins , and do n't you know it ."
    assert as_in_treebank(text) == text


def test_each_phrase_of_the_trees_has_the_label_of_its_first_one(tmp_path):
    trees = r"(3 (2 A) (4 (3 fine) (2 film\/book)))", "(1 (1 fine) (2 -LRB-))"
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress("\n".join(trees).encode()))

    assert labelled_phrases(path) == {
        "a fine film/book": "3",
        "a": "2",
        "fine film/book": "4",
        "fine": "3",
        "film/book": "2",
        "fine (": "1",
        "(": "2",
    }


def test_the_two_classes_of_a_side_are_taken_together():
    assert is_positive({"4": 0.3, "0": 0.4, "3": 0.2, "1": 0.05, "2": 0.05})
    assert not is_positive({"2": 0.8, "1": 0.15, "3": 0.05})


def test_no_sentence_that_is_held_out_is_learned_from(tmp_path):
    dev, test = "2\tWe saw it , twice .", "4\tA fine film !"
    many = [f"3\tSentence number {n} ." for n in range(PRETRAINING_DEV + 5)]
    train = ["1\twe saw it twice", *many, "0\ta FINE film"]
    files = {
        "sst/sst5_train.tsv.gz": gzip.compress("\n".join(train).encode()),
        "sst/sst5_dev.tsv": dev.encode(),
        "sst/sst5_test.tsv.gz": gzip.compress(test.encode()),
        "movie-reviews/reviews.folds.tsv.gz": gzip.compress(b"0\t1\tcv1\tWe can't ."),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = pretraining_texts(tmp_path)
    assert found["reviews"] == ["we ca n't ."]
    assert found["dev"] == [f"sentence number {n} ." for n in range(PRETRAINING_DEV)]
    assert found["sentences"] == [
        f"sentence number {n} ." for n in range(PRETRAINING_DEV, PRETRAINING_DEV + 5)
    ]

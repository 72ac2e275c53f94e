"""What the masked language model of the sentiment benchmark is trained on."""

import gzip

from benchmarks.review_texts import PRETRAINING_DEV, as_in_treebank, pretraining_texts


def test_words_are_divided_as_in_the_treebank():
    text = "It's \"fun\" , but they don't care--  really ."
    expected = "it 's '' fun '' , but they do n't care -- really ."
    assert as_in_treebank(text) == expected


def test_the_text_of_a_treebank_stays_as_it_is():
    text = "you 've got ice water in your veins , and do n't you know it ."
    assert as_in_treebank(text) == text


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

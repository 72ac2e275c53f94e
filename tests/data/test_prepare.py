"""Preparation: every pair is in one part, is counted once; nothing is repeated."""

import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from headwise.data import prepare as module
from headwise.data.pair_formats import LABELLED_TEXT, TRANSLATION
from headwise.data.prepare import fingerprint, prepare
from headwise.data.prepared import PreparedCorpus
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.errors import DataError, HeadwiseError, SettingsError, UsageError
from headwise.text.settings import TextSettings

WORDS = TextSettings(tokenizer="words", vocab_size=500)
ENGLISH = "zero one two three four five six seven eight nine"
GERMAN = "null eins zwei drei vier fünf sechs sieben acht neun"

LABELLED = TextSettings(
    tokenizer="words", target_tokenizer="labels", vocab_size=500, joint=False
)


def spelled(number: int, words: str) -> str:
    return " ".join(words.split()[int(digit)] for digit in str(number))


def pairs(count: int, start: int = 0) -> list[tuple[str, str]]:
    return [
        (spelled(number, ENGLISH), spelled(number, GERMAN))
        for number in range(start, start + count)
    ]


@pytest.fixture
def corpus(tmp_path):
    """Return a function that writes pairs as a TSV and gives its settings."""

    def write(name: str, rows: list[tuple[str, str]], **more) -> CorpusSettings:
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
        return CorpusSettings(source=str(path), **more)

    return write


@pytest.fixture
def done(tmp_path):
    """Return a function that prepares corpora at ``tmp_path / "prepared"``."""

    def run(
        *corpora,
        text=WORDS,
        seed=1,
        pair_format=TRANSLATION,
        say=lambda _: None,
        **data,
    ):
        settings = DataSettings(corpora=corpora, **data)
        return prepare(
            settings,
            text,
            tmp_path / "prepared",
            seed=seed,
            pair_format=pair_format,
            say=say,
        )

    return run


def decoded(store, tokenizers) -> list[tuple[str, str]]:
    return [
        (
            tokenizers.source.decode(store.source(index).tolist()),
            tokenizers.target.decode(store.target(index).tolist()),
        )
        for index in range(len(store))
    ]


def all_bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_pair_is_either_for_training_or_held_out(corpus, done):
    rows = pairs(600)

    prepared = done(corpus("a", rows))

    train = decoded(prepared.train, prepared.tokenizers)
    dev = decoded(prepared.dev, prepared.tokenizers)
    assert len(dev) == 50
    assert sorted(train + dev) == sorted(rows)
    assert [row for row in rows if row in train] == train  # order is kept
    assert list(zip(*prepared.dev_text, strict=True)) == dev


def test_a_source_that_is_held_out_stays_in_train_in_no_copy(corpus, done):
    """100 sources three times, once with another target: 300 pairs in 100 sources."""
    rows = pairs(100)
    others = [(source, f"{target} !") for source, target in rows]

    prepared = done(corpus("a", [*rows, *others, *rows]))

    facts = prepared.facts.corpora[0]
    dev = [source for source, _ in decoded(prepared.dev, prepared.tokenizers)]
    train = [source for source, _ in decoded(prepared.train, prepared.tokenizers)]
    assert (facts.dev, facts.held_out, facts.train) == (10, 20, 270)
    assert not set(dev) & set(train)
    assert len(set(dev)) == 10


def test_what_is_held_out_does_not_depend_on_the_order_of_lines(corpus, done):
    rows = pairs(300)

    one = done(corpus("a", rows)).dev_text
    other = done(corpus("a", rows[::-1])).dev_text
    another_seed = done(corpus("a", rows), seed=2).dev_text

    assert sorted(one[0]) == sorted(other[0])
    assert sorted(one[0]) != sorted(another_seed[0])


def test_tokenizers_never_see_what_is_held_out(corpus, done):
    rows = [(f"w{number}", f"z{number}") for number in range(200)]

    prepared = done(corpus("a", rows))

    dev_tokens = np.concatenate([prepared.dev.source(i) for i in range(20)])
    assert len(prepared.dev) == 20
    assert set(dev_tokens) == {3}  # all unknown


@pytest.mark.parametrize(
    ("pair_format", "text", "held_out"),
    [(TRANSLATION, WORDS, 50), (LABELLED_TEXT, LABELLED, 80)],
)
def test_more_texts_with_one_label_are_held_out_than_pairs(
    corpus, done, pair_format, text, held_out
):
    """Of 800: 2%, but at least 50, and 10%."""
    rows = [(source, f"{n % 2}") for n, (source, _) in enumerate(pairs(800))]
    prepared = done(corpus("a", rows), text=text, pair_format=pair_format)

    assert prepared.facts.dev.pairs == held_out
    assert prepared.facts.train.pairs == 800 - held_out


def test_long_texts_with_a_label_are_learned_in_the_parts_that_they_are_read_in(
    corpus, done, tmp_path
):
    """A text of 7 words becomes 3 + 2 + 2; the validation text stays whole."""
    long = "one two three four five six seven"
    said: list[str] = []
    first = corpus("a", [("nine", "odd"), (long, "even"), ("two one", "odd")])
    second = corpus("b", [("six", "odd")], weight=2.0)
    dev = corpus("dev", [("one two three four", "even"), ("two", "odd")])

    prepared = done(
        *(first, second),
        text=LABELLED,
        pair_format=LABELLED_TEXT,
        dev=dev,
        max_tokens=3,
        say=said.append,
    )

    assert decoded(prepared.train, prepared.tokenizers) == [
        ("nine", "odd"),
        ("one two three", "even"),
        ("four five", "even"),
        ("six seven", "even"),
        ("two one", "odd"),
        ("six", "odd"),
    ]
    assert decoded(prepared.dev, prepared.tokenizers)[:2] == [
        ("one two", "even"),
        ("three four", "even"),
    ]
    assert prepared.dev_text == (["one two three four", "two"], ["even", "odd"])
    facts = prepared.facts
    assert (facts.train.pairs, facts.train.texts, facts.dev.texts) == (6, 4, 2)
    assert [(each.train, each.first_pair) for each in facts.corpora] == [(3, 0), (1, 5)]
    assert (tmp_path / "prepared" / "dropped.tsv").read_text().count("\n") == 1
    assert said[-3:] == [
        f"{first.source}: 3 pairs read: 3 for training in 5 parts of at most "
        "max_tokens=3",
        f"{second.source}: 1 pair read: 1 for training",
        f"{dev.source}: 2 pairs read: 2 for validation",
    ]
    in_epoch = prepared.train.ranges
    assert [(each.start, each.stop, each.weight) for each in in_epoch] == [
        (0, 5, 1.0),
        (5, 6, 2.0),
    ]


def test_pairs_left_out_are_counted_and_listed_with_the_reason(corpus, done, tmp_path):
    rows = [
        ("one two", "eins zwei"),
        ("", "eins"),
        ("one", "\u3000"),
        ("one two three four", "eins"),
        ("one", "eins zwei drei"),
        ("one two three", "eins zwei drei"),
    ]
    said: list[str] = []
    first = corpus("a", rows)
    dev = corpus("dev", [("one", "eins"), ("one", "")])

    prepared = done(first, dev=dev, max_tokens=3, say=said.append)

    facts = prepared.facts.corpora[0]
    assert (facts.read, facts.train, facts.empty, facts.too_long) == (6, 3, 2, 1)
    assert prepared.facts.train.longest_source == 3
    assert (tmp_path / "prepared" / "dropped.tsv").read_text().splitlines() == [
        "file\tline\treason\tsource_tokens\ttarget_tokens",
        f"{first.source}\t2\tempty\t0\t1",
        f"{first.source}\t3\tempty\t1\t0",
        f"{first.source}\t4\ttoo_long\t4\t1",
        f"{dev.source}\t2\tempty\t1\t0",
    ]
    assert said[-2] == (
        f"{first.source}: 6 pairs read: 3 for training, 2 dropped with an empty side, "
        "1 dropped with more than max_tokens=3"
    )


def test_several_corpora_follow_one_another_with_their_weights(corpus, done):
    one = corpus("a", pairs(5))
    two = corpus("b", pairs(3, start=50), weight=2.5)
    dev = corpus("dev", pairs(2, start=90))

    prepared = done(one, two, dev=dev)

    assert [(s.start, s.stop, s.weight) for s in prepared.train.ranges] == [
        (0, 5, 1.0),
        (5, 8, 2.5),
    ]
    assert decoded(prepared.train, prepared.tokenizers) == [
        *pairs(5),
        *pairs(3, start=50),
    ]
    assert prepared.dev_text == tuple(map(list, zip(*pairs(2, start=90), strict=True)))


def test_a_dev_corpus_that_overlaps_is_said_and_train_is_left_alone(corpus, done):
    said: list[str] = []

    prepared = done(
        corpus("a", pairs(5)), dev=corpus("dev", pairs(2, start=4)), say=said.append
    )

    assert len(prepared.train) == 5
    assert "whose source is also in the dev corpus: 1;" in said[0]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_prepared_corpus_is_not_prepared_again(corpus, done, tmp_path, zipped):
    first = corpus("a", pairs(60))
    if zipped:
        raw = Path(first.source).read_bytes()
        Path(f"{first.source}.gz").write_bytes(gzip.compress(raw))
        first = CorpusSettings(source=f"{first.source}.gz")
    done(first)
    before = os.stat(tmp_path / "prepared")
    said: list[str] = []

    again = done(first, say=said.append)

    after = os.stat(tmp_path / "prepared")  # reading may change the time of access
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    assert said == [f"{again.folder} is up to date: same text, same settings"]


def test_the_same_text_elsewhere_has_the_same_fingerprint(corpus, tmp_path):
    first = corpus("a", pairs(60))
    shutil.copy(first.source, tmp_path / "b.tab")
    moved = CorpusSettings(source=str(tmp_path / "b.tab"))

    assert fingerprint(DataSettings(corpora=(first,)), WORDS, seed=1) == fingerprint(
        DataSettings(corpora=(moved,)), WORDS, seed=1
    )


def test_every_relevant_setting_changes_the_fingerprint(corpus):
    first, second = corpus("a", pairs(60)), corpus("b", pairs(61))
    source = first.source
    swapped = CorpusSettings(source=source, source_column=2, target_column=1)
    weighed = CorpusSettings(source=source, weight=2.0)
    choices = [
        (DataSettings(corpora=(first,)), WORDS, 1),
        (DataSettings(corpora=(first,)), WORDS, 2),
        (DataSettings(corpora=(first,)), TextSettings(tokenizer="words"), 1),
        (DataSettings(corpora=(first,), max_tokens=9), WORDS, 1),
        (DataSettings(corpora=(first,), dev=second), WORDS, 1),
        (DataSettings(corpora=(second,)), WORDS, 1),
        (DataSettings(corpora=(swapped,)), WORDS, 1),
        (DataSettings(corpora=(weighed,)), WORDS, 1),
        (DataSettings(corpora=(first, second)), WORDS, 1),
        (DataSettings(corpora=(second, first)), WORDS, 1),
    ]

    names = [fingerprint(data, text, seed=seed) for data, text, seed in choices]

    assert len(set(names)) == len(choices)


def test_other_languages_change_the_fingerprint(corpus):
    data = DataSettings(corpora=(corpus("a", pairs(60)),))
    choices = [(), ("en", "de"), ("de", "en"), ("en", "nl")]

    names = [fingerprint(data, WORDS, seed=1, languages=each) for each in choices]

    assert len(set(names)) == len(choices)


def test_a_change_of_text_or_a_damaged_folder_is_prepared_anew(corpus, done, tmp_path):
    done(corpus("a", pairs(60)))
    changed = done(corpus("a", pairs(61)))
    whole = all_bytes(tmp_path / "prepared")
    tokens = tmp_path / "prepared" / "train.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\x09")

    mended = done(corpus("a", pairs(61)))

    assert changed.facts.corpora[0].read == 61
    assert all_bytes(mended.folder) == whole


@pytest.mark.parametrize("tokenizer", ["bpe", "unigram", "words", "characters"])
def test_the_same_text_gives_the_same_bytes(corpus, tmp_path, tokenizer):
    data = DataSettings(corpora=(corpus("a", pairs(300)),))
    text = TextSettings(tokenizer=tokenizer, vocab_size=60, sample_pairs=100)

    for name in "one", "other":
        prepare(data, text, tmp_path / name, seed=3)

    assert all_bytes(tmp_path / "one") == all_bytes(tmp_path / "other")


def test_two_vocabularies_may_differ(corpus, done):
    text = TextSettings(tokenizer="words", target_tokenizer="characters", joint=False)

    prepared = done(corpus("a", pairs(60)), text=text)

    assert prepared.facts.source_vocabulary == prepared.tokenizers.source.size
    assert prepared.facts.target_vocabulary == prepared.tokenizers.target.size
    assert prepared.facts.target_vocabulary != prepared.facts.source_vocabulary


@pytest.mark.parametrize(
    ("rows", "data", "said"),
    [
        ([("", "a"), ("b", " ")], {}, "there is no training data: all 2 pairs"),
        ([("a", "b")], {}, "all source texts are the same one"),
        (pairs(20), {"dev_pairs": 20}, "20 of 20 different source texts"),
        (pairs(200, start=100), {"max_tokens": 2}, "no pair is left"),
    ],
)
def test_text_of_which_nothing_is_left_is_refused(
    corpus, done, tmp_path, rows, data, said
):
    with pytest.raises(DataError) as raised:
        done(corpus("a", rows), **data)

    assert said in str(raised.value)
    assert not (tmp_path / "prepared").exists()


def test_a_dev_corpus_of_which_nothing_is_left_is_refused_with_counts(corpus, done):
    dev = corpus("dev", pairs(4, start=1000))

    with pytest.raises(
        DataError, match="4 pairs read: 4 dropped with more than max_tok"
    ):
        done(corpus("a", pairs(60)), dev=dev, max_tokens=3)


def test_no_corpus_at_all_is_refused(done):
    with pytest.raises(SettingsError, match=r"data\.corpora is empty"):
        done()


def test_an_error_in_the_last_line_keeps_the_older_corpus(corpus, done, tmp_path):
    first = corpus("a", pairs(60))
    done(first)
    before = all_bytes(tmp_path / "prepared")
    with Path(first.source).open("ab") as file:
        file.write(b"one\teins \xe4\n")

    with pytest.raises(DataError, match="line 61, byte 10 of the line"):
        done(first)

    assert all_bytes(tmp_path / "prepared") == before
    assert sorted(os.listdir(tmp_path)) == ["a.tsv", "prepared"]


@pytest.mark.parametrize("what", ["a file", "somebody's folder"])
def test_other_folders_are_never_replaced(corpus, done, tmp_path, what):
    folder = tmp_path / "prepared"
    if what == "a file":
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")

    with pytest.raises(UsageError, match="not replaced"):
        done(corpus("a", pairs(60)))

    assert (folder if what == "a file" else folder / "thesis.tex").read_text() == "mine"


def test_an_empty_folder_may_be_filled(corpus, done, tmp_path):
    (tmp_path / "prepared").mkdir()

    assert len(done(corpus("a", pairs(60))).train) == 54


def test_a_file_that_changes_meanwhile_is_noticed(corpus, done, monkeypatch):
    first = corpus("a", pairs(60))
    train = module.train_tokenizers

    def meanwhile(*arguments, **named):
        with Path(first.source).open("a") as file:
            file.write("one\teins\n")
        return train(*arguments, **named)

    monkeypatch.setattr(module, "train_tokenizers", meanwhile)

    with pytest.raises(DataError, match="it had 60 lines, then 61"):
        done(first)


def test_settings_and_counts_are_written_for_people_too(corpus, done):
    prepared = done(corpus("a", pairs(60)))

    written = json.loads((prepared.folder / "prepared.json").read_text())
    facts = written["facts"]["corpora"][0]

    assert written["settings"]["text"]["tokenizer"] == "words"
    assert facts["read"] == 60
    outcomes = ("train", "dev", "empty", "too_long", "held_out")
    assert sum(facts[outcome] for outcome in outcomes) == 60


def test_real_captions_come_back_from_their_tokens(corpora, tmp_path):
    folder = corpora / "multi30k"
    val, test = (
        CorpusSettings(
            source=str(folder / f"{name}.en.gz"), target=str(folder / f"{name}.de.gz")
        )
        for name in ("val", "test_2016_flickr")
    )
    text = TextSettings(vocab_size=1000)

    prepared = prepare(
        DataSettings(corpora=(val,), dev=test), text, tmp_path / "p", seed=1
    )

    assert (len(prepared.train), len(prepared.dev)) == (1014, 1000)
    for index in range(0, 1000, 100):
        tokens = prepared.dev.target(index).tolist()
        decoded = prepared.tokenizers.target.decode(tokens)
        assert decoded == " ".join(prepared.dev_text[1][index].split())


def test_prepared_folders_open_again_and_errors_are_ours(corpus, done):
    prepared = done(corpus("a", pairs(60)))

    assert PreparedCorpus.open(prepared.folder).facts == prepared.facts
    with pytest.raises(HeadwiseError):
        PreparedCorpus.open(prepared.folder / "tokenizer")

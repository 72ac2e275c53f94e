"""Texts that are drawn anew in each epoch: what may change, and that budgets hold."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.tiny import write_text

from headwise.data import text_augmentation as module
from headwise.data.batches import TrainingOrder, make_batch, worst_case_batches
from headwise.data.prepare import prepare
from headwise.data.sequence_packing import PackedShape, pack_batch
from headwise.data.settings import CorpusSettings, DataSettings
from headwise.data.source_noise import NoiseSettings
from headwise.data.text_augmentation import TextAugmentation
from headwise.text.settings import TextSettings

NO_NOISE = NoiseSettings()
RATES = {"bpe": 0.3, "unigram": 0.2}


def prepared(folder, kind, *, files=None, max_tokens=256, vocab_size=60, **text):
    source, target = files or write_text(folder / "text", num_pairs=400)
    data = DataSettings(
        corpora=(CorpusSettings(source=str(source), target=str(target)),),
        max_tokens=max_tokens,
    )
    settings = TextSettings(tokenizer=kind, vocab_size=vocab_size, **text)
    return prepare(data, settings, folder / "prepared", seed=1)


@pytest.fixture(scope="module")
def corpora_of_kinds(tmp_path_factory):
    return {
        kind: prepared(tmp_path_factory.mktemp(kind), kind)
        for kind in ("bpe", "unigram", "characters", "words")
    }


@pytest.fixture(scope="module")
def captions(corpora, tmp_path_factory):
    """Return real captions, with few pieces, so that segmentations differ a lot."""
    folder = corpora / "multi30k"
    files = (folder / "val.en.gz", folder / "val.de.gz")
    return prepared(
        tmp_path_factory.mktemp("captions"), "bpe", files=files, vocab_size=2000
    )


def augmented(corpus, *, seed=1, rates=(None, None), noise=NO_NOISE, **others):
    return TextAugmentation(corpus, seed=seed, rates=rates, noise=noise, **others)


def rows(sides):
    return [
        [each.tolist() for each in np.split(side.tokens, np.cumsum(side.lengths)[:-1])]
        for side in sides
    ]


def drawn(augmentation, epoch=0, indices=None):
    """Return the sources and the targets of ``epoch`` as lists of tokens."""
    if indices is None:
        indices = np.arange(len(augmentation._store))
    return rows(augmentation.sides(epoch, indices))


def texts(corpus, sides):
    pair = corpus.tokenizers.source, corpus.tokenizers.target
    return [
        [t.decode(row) for row in side] for t, side in zip(pair, sides, strict=True)
    ]


def stored(corpus):
    return rows(corpus.train.sides(np.arange(len(corpus.train))))


@pytest.mark.parametrize("kind", RATES)
def test_other_segmentations_are_of_the_same_texts(corpora_of_kinds, kind):
    corpus = corpora_of_kinds[kind]
    augmentation = augmented(corpus, rates=(RATES[kind], RATES[kind]))

    first, second = drawn(augmentation, 0), drawn(augmentation, 1)

    before = texts(corpus, stored(corpus))
    assert texts(corpus, first) == texts(corpus, second) == before
    for side in (0, 1):
        others = [a != b for a, b in zip(first[side], second[side], strict=True)]
        assert sum(others) > 0.2 * len(others)


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_without_a_rate_stays_as_it_was_prepared(corpora_of_kinds, side):
    corpus = corpora_of_kinds["bpe"]
    rates = (0.5, None) if side else (None, 0.5)

    found = drawn(augmented(corpus, rates=rates))

    assert found[side] == stored(corpus)[side]
    assert found[1 - side] != stored(corpus)[1 - side]


def test_what_is_drawn_depends_on_seed_epoch_and_index_alone(corpora_of_kinds):
    corpus = corpora_of_kinds["bpe"]
    noise = NoiseSettings(upper_case=0.1, final_punctuation=0.2, typos=0.3)
    options = {"rates": (0.3, 0.3), "noise": noise}
    chosen = np.array([7, 300, 7, 2])

    whole = drawn(augmented(corpus, **options), 5)
    part = drawn(augmented(corpus, **options), 5, chosen)

    assert part == [[side[index] for index in chosen] for side in whole]
    for other in ({"seed": 2}, {}):
        epoch = 5 if other else 6
        assert drawn(augmented(corpus, **options, **other), epoch) != whole


def test_rate_1_of_bpe_is_characters_but_of_the_few_texts_beyond_the_margin(
    corpora_of_kinds,
):
    corpus = corpora_of_kinds["bpe"]
    tokenizer = corpus.tokenizers.source
    sources, _ = drawn(augmented(corpus, rates=(1.0, None)))

    before = stored(corpus)[0]
    others = [row for row, plain in zip(sources, before, strict=True) if row != plain]
    assert len(others) > 0.95 * len(before)
    for row in others:
        text = tokenizer.decode(row)
        assert tokenizer.pieces(row) == [*f"▁{text.replace(' ', '▁')}"]


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_no_batch_exceeds_its_budget_and_most_texts_are_drawn(captions, rate):
    augmentation = augmented(captions, rates=(rate, rate))
    order = TrainingOrder(
        captions.train, seed=1, batch_tokens=1024, augmentation=augmentation
    )
    batches = list(order.batches(0))

    assert all(batch.padded_tokens <= 1024 for batch in batches)
    assert sorted(np.concatenate([batch.indices for batch in batches]).tolist()) == [
        *range(len(captions.train))
    ]
    plain = stored(captions)
    same = [a == b for a, b in zip(drawn(augmentation)[0], plain[0], strict=True)]
    sure = {0.1: 0.15, 0.5: 0.03, 1.0: 0.03}[rate]  # some are drawn as they were
    assert sum(same) <= sure * len(same)


@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_a_batch_of_drawn_texts_fits_into_its_rows(captions, rate):
    order = TrainingOrder(
        captions.train,
        seed=1,
        batch_tokens=1024,
        packed=True,
        augmentation=augmented(captions, rates=(rate, rate)),
    )

    for batch in order.batches(0):
        assert len(pack_batch(batch, PackedShape.of(batch.max_length, 1024))) == 1


def test_lengths_are_planned_by_growth_and_margin(corpora_of_kinds, monkeypatch):
    """4 tokens become up to 1.5 · 4 + 2 · √4 = 10, and never more than max_tokens."""
    corpus = corpora_of_kinds["bpe"]
    augmentation = augmented(corpus, rates=(0.3, None))
    growth = module.Growth(1.5, 2.0), module.Growth(1.0, 0.0)
    augmentation.__dict__["_growth"] = {0: growth}
    lengths = np.array([4, 1, 200, 9])

    planned = augmentation._planned(lengths, lengths, np.zeros(4, np.int64))

    assert planned[0].tolist() == [10, 4, 256, 20]  # 1.5 + 2 is 3.5, rounded up
    assert planned[1].tolist() == lengths.tolist()


def test_growth_is_the_mean_and_the_margin_holds_98_of_100():
    """Four tokens become 5, and 2 of 100 times 9: 508 / 400 is 1.27, and 5 fits."""
    stored_lengths = np.full(100, 4)
    growth = module.Growth.measured(stored_lengths, [5] * 98 + [9] * 2)

    assert growth.factor == 1.27
    assert 0 <= growth.margin < (9 - 1.27 * 4) / 2
    assert growth.applied_to(np.array([4.0]))[0] < 9
    assert module.Growth.measured(stored_lengths, [4] * 100) == module.Growth(1, 0)


def test_a_segmentation_that_is_too_long_gives_way_to_that_of_the_corpus(
    tmp_path,
):
    corpus = prepared(tmp_path, "bpe", max_tokens=5)
    augmentation = augmented(corpus, rates=(1.0, 1.0))
    found, before = drawn(augmentation), stored(corpus)

    for one, other in zip(found[0], before[0], strict=True):
        assert len(one) <= 5
        assert one == other or len(one) > len(other)
    assert any(a == b for a, b in zip(found[0], before[0], strict=True))


def test_the_worst_batch_before_training_is_still_the_worst(captions):
    noise = NoiseSettings(upper_case=0.3, typos=0.2)
    augmentation = augmented(captions, rates=(0.1, 0.1), noise=noise)
    facts = augmentation.planned_facts(captions.facts.train)
    order = TrainingOrder(
        captions.train, seed=3, batch_tokens=512, augmentation=augmentation
    )
    (longest, *_) = worst_case_batches(facts, 512)

    for epoch in range(3):
        for batch in order.batches(epoch):
            assert batch.source.max_length <= facts.longest_source + 1
            assert batch.target.max_length <= facts.longest_target + 1
            assert batch.padded_tokens <= 512
    assert longest.max_length == max(facts.longest) + 1
    assert facts.longest_source > captions.facts.train.longest_source
    assert facts.mean_source > captions.facts.train.mean_source
    assert max(facts.longest) <= captions.facts.max_tokens


def test_planning_reads_no_tokens(captions, monkeypatch):
    augmentation = augmented(captions, rates=(0.1, 0.1))
    order = TrainingOrder(
        captions.train, seed=1, batch_tokens=1024, augmentation=augmentation
    )
    assert augmentation.growth > (1.1, 1.1)  # which is measured on some of them
    monkeypatch.setattr(captions.train, "sides", None)

    assert order.num_batches(3) == len(list(order.epoch(3)))


def test_the_weight_of_a_batch_makes_its_loss_a_mean_of_the_drawn_tokens(captions):
    plain = make_batch(captions.train, np.arange(20))
    for keeps_mean in (True, False):
        order = TrainingOrder(
            captions.train,
            seed=1,
            batch_tokens=1024,
            augmentation=augmented(captions, rates=(0.2, 0.2), keeps_mean=keeps_mean),
        )
        batch = order.make_batch(0, np.arange(20))
        assert batch.num_target_tokens > plain.num_target_tokens
        ratio = plain.num_target_tokens / batch.num_target_tokens
        assert batch.weight == (ratio if keeps_mean else 1.0)


def test_without_augmentation_batches_are_those_of_the_corpus(captions):
    order = TrainingOrder(captions.train, seed=1, batch_tokens=1024)
    batch = order.make_batch(3, np.arange(9))
    plain = make_batch(captions.train, np.arange(9))

    assert batch.weight == 1.0
    assert batch.target.tokens.tolist() == plain.target.tokens.tolist()
    assert batch.source.tokens.tolist() == plain.source.tokens.tolist()


CASE_OF = {"upper_case": str.upper, "lower_case": str.lower}


@pytest.mark.parametrize("name", CASE_OF)
@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_the_case_of_a_source_changes_where_its_characters_have_tokens(
    tmp_path, kind, name
):
    """All letters of this text occur in both cases."""
    source, target = write_text(tmp_path / "text")
    for file in (source, target):
        lines = file.read_text(encoding="utf-8")
        file.write_text(lines + lines.upper(), encoding="utf-8")
    corpus = prepared(tmp_path, kind, files=(source, target))
    before = texts(corpus, stored(corpus))

    found = texts(corpus, drawn(augmented(corpus, noise=NoiseSettings(**{name: 1.0}))))

    assert found[0] == [CASE_OF[name](text) for text in before[0]]
    changes_target = name == "upper_case"
    assert found[1] == [str.upper(t) if changes_target else t for t in before[1]]


def test_a_change_whose_characters_have_no_token_is_not_made(corpora_of_kinds):
    """The corpus has small letters alone, so capitals are unknown."""
    corpus = corpora_of_kinds["bpe"]

    found = drawn(augmented(corpus, noise=NoiseSettings(upper_case=1.0)))

    assert found == stored(corpus)


@pytest.mark.parametrize("change_target", [True, False])
def test_both_sides_lose_their_full_stop(corpora_of_kinds, change_target):
    corpus = corpora_of_kinds["bpe"]
    noise = NoiseSettings(final_punctuation=1.0, change_target=change_target)
    before = texts(corpus, stored(corpus))

    found = texts(corpus, drawn(augmented(corpus, noise=noise)))

    assert found[0] == [text.removesuffix(".") for text in before[0]]
    assert found[1] == [t.removesuffix(".") if change_target else t for t in before[1]]


def test_a_target_of_words_stays(tmp_path):
    corpus = prepared(tmp_path, "bpe", target_tokenizer="words", joint=False)
    found = drawn(augmented(corpus, noise=NoiseSettings(final_punctuation=1.0)))

    assert found[1] == stored(corpus)[1]
    assert found[0] != stored(corpus)[0]


def test_changes_come_as_often_as_their_probability_says(captions):
    noise = NoiseSettings(
        upper_case=0.2, title_case=0.1, lower_case=0.1, final_punctuation=0.3, typos=0.4
    )
    augmentation = augmented(captions, noise=noise)
    numbers = augmentation._changes(1, 0, np.arange(20_000))
    changes = Counter(map(module._change, numbers.tolist()))

    def share(**facts):
        fitting = [
            count
            for change, count in changes.items()
            if all(getattr(change, name) == value for name, value in facts.items())
        ]
        return sum(fitting) / 20_000

    assert share(case="upper") == pytest.approx(0.2, abs=0.015)
    assert share(case="title") == pytest.approx(0.1, abs=0.015)
    assert share(case="lower") == pytest.approx(0.1, abs=0.015)
    assert share(case=None) == pytest.approx(0.6, abs=0.02)
    assert share(drops_punctuation=True) == pytest.approx(0.3, abs=0.02)
    assert share(has_typos=True) == pytest.approx(0.4, abs=0.02)
    assert share(has_typos=True, case="upper") == pytest.approx(0.08, abs=0.01)


def test_texts_with_unknown_characters_get_no_noise_and_are_sampled_around_them(
    tmp_path,
):
    source, target = write_text(tmp_path / "text")
    lines = source.read_text(encoding="utf-8")
    source.write_text(lines.replace("six.", "猫.", 1), encoding="utf-8")
    corpus = prepared(tmp_path, "bpe", files=(source, target), character_coverage=0.998)
    before = stored(corpus)
    (unknown,) = [index for index, row in enumerate(before[0]) if 3 in row]

    noise = NoiseSettings(final_punctuation=1.0)
    noisy = drawn(augmented(corpus, noise=noise))
    assert noisy[0][unknown] == before[0][unknown]

    sampled = drawn(augmented(corpus, rates=(0.9, None)))
    assert sampled[0][unknown].count(3) == 1
    assert texts(corpus, sampled)[0] == texts(corpus, before)[0]


def test_labels_stay_and_their_texts_are_drawn(tmp_path):
    source, target = write_text(tmp_path / "text")
    lines = target.read_text(encoding="utf-8").split("\n")[:-1]
    words = [line.split()[0].removesuffix(".") for line in lines]
    target.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    corpus = prepared(
        tmp_path,
        "bpe",
        files=(source, target),
        target_tokenizer="labels",
        joint=False,
    )
    noise = NoiseSettings(final_punctuation=1.0)
    augmentation = augmented(corpus, rates=(0.3, None), noise=noise)

    found, before = drawn(augmentation), stored(corpus)

    assert found[1] == before[1]
    assert texts(corpus, found)[0] == [
        text.removesuffix(".") for text in texts(corpus, before)[0]
    ]
    facts = augmentation.planned_facts(corpus.facts.train)
    assert replace(facts, source_tokens=0, longest_source=0) == replace(
        corpus.facts.train, source_tokens=0, longest_source=0
    )

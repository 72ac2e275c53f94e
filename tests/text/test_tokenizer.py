import gzip
import json

import pytest

from headwise.errors import DataError, ModelError
from headwise.text.lines import split_lines
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import (
    TOKENIZERS,
    GivenTokenizers,
    open_tokenizers,
    train_tokenizer,
    train_tokenizers,
)
from headwise.text.vocabulary import PAD, SPECIALS

PAIRS = [
    ("The cat sees the dog.", "Le chat voit le chien."),
    ("The dog didn't see it.", "Le chien ne l'a pas vu."),
    ("Is the street wide?", "La rue est-elle large ?"),
] * 4

TEXT_KINDS = sorted(TOKENIZERS.keys() - {"labels", "numbers", "trees", "patches"})
each_kind = pytest.mark.parametrize("kind", TEXT_KINDS)


def trained(pairs=PAIRS, *, seed=1, **options):
    settings = TextSettings(**{"vocab_size": 60, **options})
    return train_tokenizers(lambda: iter(pairs), settings, seed=seed)


def real_lines(path):
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return [line.text for line in split_lines(file, name=str(path))]


@each_kind
def test_a_joint_pair_is_one_tokenizer_for_both_sides(kind):
    pair = trained(tokenizer=kind, vocab_size=70)

    assert pair.joint
    assert pair.source is pair.target
    for source, target in PAIRS:
        assert pair.source.decode(pair.source.encode(source)) == source
        assert pair.target.decode(pair.target.encode(target)) == target


@each_kind
def test_every_tokenizer_starts_with_the_same_special_symbols(kind):
    pair = trained(tokenizer=kind)
    assert pair.source.pieces(range(PAD, len(SPECIALS))) == list(SPECIALS)


@each_kind
def test_blank_text_has_no_tokens(kind):
    tokenizer = trained(tokenizer=kind).source
    for blank in ("", "  ", "\u2028"):
        assert tokenizer.encode(blank) == []
    assert tokenizer.decode([]) == ""


def test_separate_tokenizers_know_only_their_side():
    pair = trained(
        tokenizer="words",
        target_tokenizer="characters",
        joint=False,
        vocab_size=12,
        target_vocab_size=30,
    )
    assert not pair.joint
    assert pair.source.size == 12
    assert "▁The" in pair.source.pieces(range(12))
    assert "v" in pair.target.pieces(range(pair.target.size))


def test_notes_name_the_side_they_speak_of():
    joint = trained(tokenizer="words", vocab_size=500)
    apart = trained(tokenizer="words", vocab_size=500, joint=False)

    assert len(joint.notes) == 1
    assert [note.split(":")[0] for note in apart.notes] == [
        "source tokenizer",
        "target tokenizer",
    ]


@each_kind
@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_pair_is_opened_again_and_gives_the_same_ids(tmp_path, kind, joint):
    pair = trained(tokenizer=kind, joint=joint, symbols=(">>fr<<",))
    pair.save(tmp_path / "tokenizer")

    opened = open_tokenizers(tmp_path / "tokenizer")

    assert opened.settings == pair.settings
    assert (opened.source is opened.target) == joint
    for source, target in PAIRS:
        tagged = f">>fr<< {source} ﬁ 猫"
        assert opened.source.encode(tagged) == pair.source.encode(tagged)
        assert opened.target.encode(target) == pair.target.encode(target)


def test_the_files_have_the_names_that_other_tools_look_for(tmp_path):
    trained().save(tmp_path / "joint")
    trained(joint=False, target_tokenizer="characters").save(tmp_path / "apart")

    assert {path.name for path in (tmp_path / "joint").iterdir()} == {
        "tokenizer.json",
        "spm.model",
    }
    assert {path.name for path in (tmp_path / "apart").iterdir()} == {
        "tokenizer.json",
        "source.spm.model",
        "target.vocabulary.json",
    }


@each_kind
def test_the_same_pairs_and_seed_give_the_same_files(tmp_path, kind):
    for name in ("one", "two"):
        pair = trained(tokenizer=kind, joint=False, sample_pairs=5, seed=7)
        pair.save(tmp_path / name)

    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_sample_is_drawn_from_all_pairs_and_never_splits_one():
    """Of 1,000 pairs of numbers 20 are drawn, half of them from the later half."""
    numbers = [(f"a{n}", f"b{n}") for n in range(1000)]
    drawn = trained(
        numbers, tokenizer="words", joint=False, vocab_size=2000, sample_pairs=20
    )
    sources = [int(p[2:]) for p in drawn.source.pieces(range(4, drawn.source.size))]
    targets = [int(p[2:]) for p in drawn.target.pieces(range(4, drawn.target.size))]

    assert len(sources) == 20
    assert sorted(sources) == sorted(targets)
    assert 3 <= sum(number >= 500 for number in sources) <= 17


@pytest.mark.parametrize("joint", [True, False])
def test_the_text_is_not_read_if_no_tokenizer_is_trained(joint):
    pair = trained(joint=joint)
    given = GivenTokenizers(pair.source, pair.target)

    def unread():
        pytest.fail("the text was read")

    found = train_tokenizers(unread, pair.settings, seed=1, given=given)

    assert (found.source, found.target) == (pair.source, pair.target)


def test_no_pairs_are_a_data_error():
    with pytest.raises(DataError, match="text is empty"):
        trained([])


def edited(folder, change):
    """Save a pair into ``folder`` and change its description."""
    trained().save(folder)
    path = folder / "tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    change(table)
    path.write_text(json.dumps(table), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.update(format=2), "reads format 1: use a newer headwise"),
        (lambda t: t.pop("format"), "is not a description of tokenizers"),
        (lambda t: t.pop("files"), "lacks the tables"),
        (lambda t: t.update(settings=[]), "lacks the tables"),
        (lambda t: t["settings"].update(tokenizer="x"), "settings.tokenizer"),
        (lambda t: t["settings"].update(tokenzier="bpe"), "mean settings.tokenizer"),
        (lambda t: t["settings"].update(joint=False), "does not list source.spm"),
        (lambda t: t["settings"].update(symbols=["<x>"]), "lacks the symbols <x>"),
        (lambda t: t["files"].clear(), "does not list spm.model"),
        (lambda t: t["files"]["spm.model"].update(sha256="0"), "SHA-256 differs"),
        (lambda t: t["files"]["spm.model"].update(size=61), "has 60 entries, but"),
    ],
)
def test_a_wrong_description_is_a_model_error(tmp_path, change, said):
    edited(tmp_path, change)
    with pytest.raises(ModelError) as caught:
        open_tokenizers(tmp_path)
    assert said in str(caught.value)


def test_a_missing_or_broken_file_is_a_model_error(tmp_path):
    trained().save(tmp_path)
    model = tmp_path / "spm.model"

    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(ModelError, match="SHA-256 differs"):
        open_tokenizers(tmp_path)
    model.unlink()
    with pytest.raises(ModelError, match="is missing"):
        open_tokenizers(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match="cannot be read as JSON"):
        open_tokenizers(tmp_path)
    with pytest.raises(ModelError, match="is missing"):
        open_tokenizers(tmp_path / "nowhere")


def test_bpe_gives_multi30k_back(corpora):
    folder = corpora / "multi30k"
    english, german = (real_lines(folder / f"val.{side}.gz") for side in ("en", "de"))
    assert len(english) == len(german) == 1014

    pair = trained(list(zip(english, german, strict=True)), vocab_size=2000)

    assert pair.source.size == 2000
    for line in english + german:
        assert pair.source.decode(pair.source.encode(line)) == " ".join(line.split())


def test_bpe_and_characters_give_japanese_back(corpora):
    lines = real_lines(corpora / "small-parallel-en-ja" / "dev.ja")
    assert len(lines) == 500
    for kind in ("bpe", "characters"):
        settings = TextSettings(tokenizer=kind, normalization="none")
        tokenizer = train_tokenizer(kind, lines, vocab_size=3000, settings=settings)
        for line in lines:
            assert tokenizer.decode(tokenizer.encode(line)) == line


def test_words_are_the_sounds_of_a_pronunciation_list(corpora):
    """The third column of the list writes sounds apart, marks and all: t͡ʃ."""
    lines = real_lines(corpora / "g2p-sigmorphon2020" / "dev.tsv.gz")
    sounds = [line.split("\t")[-1] for line in lines]
    settings = TextSettings(tokenizer="words", normalization="none")
    tokenizer = train_tokenizer("words", sounds, vocab_size=3000, settings=settings)
    for line in sounds:
        ids = tokenizer.encode(line)
        assert len(ids) == len(line.split())
        assert tokenizer.decode(ids) == line

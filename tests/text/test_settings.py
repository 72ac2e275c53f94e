import pytest

from headwise.errors import SettingsError
from headwise.settings import as_table, read
from headwise.text.settings import TextSettings


def problems_of(**values):
    with pytest.raises(SettingsError) as caught:
        TextSettings(**values)
    return caught.value.problems


def test_the_defaults_are_a_joint_bpe():
    settings = TextSettings()
    assert (settings.source_kind, settings.target_kind) == ("bpe", "bpe")
    assert settings.joint


def test_the_target_may_have_a_tokenizer_of_its_own():
    settings = TextSettings(
        tokenizer="characters", target_tokenizer="words", joint=False
    )
    assert (settings.source_kind, settings.target_kind) == ("characters", "words")


def test_all_problems_are_reported_together():
    problems = problems_of(tokenizer="bep", vocab_size=4, sample_pairs=0)
    assert len(problems) == 3
    assert "tokenizer must be one of bpe, unigram, words, " in problems[0]
    assert "not 'bep'" in problems[0]


def test_a_vocabulary_must_hold_more_than_its_special_symbols():
    assert "more than 5 " in problems_of(vocab_size=5, symbols=("<a>",))[0]
    assert "more than 260 " in problems_of(vocab_size=260, byte_fallback=True)[0]
    TextSettings(vocab_size=6, symbols=("<a>",))


@pytest.mark.parametrize("symbol", ["", "a b", "<s>", "▁x", "a\u2028", "\x07"])
def test_symbols_that_cannot_be_kept_whole_are_refused(symbol):
    assert problems_of(symbols=(symbol,))


def test_a_symbol_given_twice_is_refused():
    assert "twice" in problems_of(symbols=("<a>", "<a>"))[0]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"target_tokenizer": "words"}, "joint needs one kind"),
        ({"target_vocab_size": 500}, "no effect with a joint vocabulary"),
        ({"tokenizer": "words", "byte_fallback": True}, "needs bpe or unigram"),
        ({"tokenizer": "words", "character_coverage": 0.99}, "no effect for words"),
        ({"tokenizer": "spaces", "character_coverage": 0.99}, "no effect for spaces"),
        (
            {
                "tokenizer": "words",
                "target_tokenizer": "labels",
                "joint": False,
                "character_coverage": 0.99,
            },
            "no effect for labels and words",
        ),
        ({"character_coverage": 0.5}, "from 0.98 to 1"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(values, said):
    assert said in problems_of(**values)[0]


def test_settings_are_written_and_read_back():
    settings = TextSettings(
        tokenizer="unigram", joint=False, target_vocab_size=9000, symbols=(">>fr<<",)
    )
    assert read(TextSettings, as_table(settings)) == settings

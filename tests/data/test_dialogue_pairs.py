"""Dialogues as pairs: the turns up to the last answer, and that answer."""

import pytest

from headwise.cli.corpus_tables import dialogue_table
from headwise.data.corpus_reader import read_pairs
from headwise.data.pair_formats import DIALOGUES
from headwise.data.settings import CorpusSettings
from headwise.errors import DataError
from headwise.text.dialogue import SYMBOLS
from headwise.text.settings import TextSettings
from headwise.text.tokenizer import train_tokenizers
from headwise.text.vocabulary import END

GOOD = (
    '{"turns": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"},'
    ' {"role": "user", "text": "c\\nd"}, {"role": "assistant", "text": "e 😀"}]}'
)


def pairs_of(tmp_path, *lines):
    path = tmp_path / "dialogues.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return list(read_pairs(CorpusSettings(source=str(path), format="dialogues")))


def test_a_line_is_a_dialogue_and_a_blank_one_is_empty(tmp_path):
    first, blank, other = pairs_of(tmp_path, GOOD, "", GOOD)

    assert first.source == "<user>a<assistant>b<user>c d"
    assert first.target == other.target == "e 😀"
    assert blank.is_empty
    assert [each.line for each in (first, blank, other)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a", r"dialogues.jsonl, line 2: not JSON"),
        ("[]", r"line 2: '\[\]' is not a JSON object"),
        ('{"source": "a"}', r"line 2: the key \"turns\""),
        (
            '{"turns": [{"role": "user", "text": "a"}]}',
            r"line 2: a dialogue to learn from needs two turns or more",
        ),
    ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        pairs_of(tmp_path, GOOD, line)


def test_rows_have_roles_and_ends():
    text = TextSettings(
        tokenizer="characters", normalization="lossless", symbols=SYMBOLS
    )
    tokenizers = train_tokenizers(lambda: [("", "abc")], text, seed=1)
    encode = tokenizers.target.encode
    a, b, c = (encode(each)[0] for each in "abc")
    _, user, assistant = (encode(each)[0] for each in SYMBOLS)

    source, target = DIALOGUES.encode(tokenizers, "<user>a<assistant>b<user>c", "ab")

    assert source == [user, a, assistant, b, END, user, c, assistant]
    assert target == [a, b]
    assert DIALOGUES.encode(tokenizers, " ", "ab")[0] == []


def test_questions_with_answers_are_read_from_a_table_too(tmp_path):
    path = tmp_path / "questions.tsv"
    path.write_text("What?\tThis.\n", encoding="utf-8")

    (pair,) = read_pairs(CorpusSettings(**dialogue_table(path, None)))

    assert (pair.source, pair.target) == ("What?", "This.")

from headwise.text.settings import TextSettings
from headwise.text.space_tokenizer import SpaceTokenizer
from headwise.text.vocabulary import END, START, UNKNOWN


def trained(lines, vocab_size=100):
    settings = TextSettings(tokenizer="spaces", vocab_size=vocab_size)
    return SpaceTokenizer.train(lines, vocab_size=vocab_size, settings=settings)


def test_what_stands_between_spaces_is_a_token():
    tokens = trained(["t͡ʃ æ-t ."])

    assert tokens.pieces(tokens.encode("æ-t  t͡ʃ")) == ["æ-t", "t͡ʃ"]


def test_decoding_puts_one_space_between_tokens():
    tokens = trained(["I_LOOK I_JUMP"])
    ids = [START, *tokens.encode("I_JUMP I_LOOK"), END]

    assert tokens.decode(ids) == "I_JUMP I_LOOK"


def test_a_rare_token_is_unknown_and_counted():
    tokens = trained(["a a b"], vocab_size=5)

    assert tokens.encode("a b") == [4, UNKNOWN]
    assert tokens.decode([4, UNKNOWN]) == "a ⁇"
    assert "too rare to get an entry: 1 " in tokens.notes[0]

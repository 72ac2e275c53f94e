"""Settings of tokenizers; no tokenizer is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from headwise.errors import SettingsError
from headwise.text.placeholders import PLACEHOLDER
from headwise.text.vocabulary import SPECIALS, WORD_START

TokenizerName = Literal[
    "bpe",
    "unigram",
    "words",
    "characters",
    "spaces",
    "labels",
    "numbers",
    "patches",
    "trees",
]
Normalization = Literal["nfkc", "none", "lossless"]

SENTENCEPIECE = ("bpe", "unigram")

# Byte fallback needs one piece for each byte.
BYTE_PIECES = 256

TARGET_ONLY = ("labels", "numbers", "trees")
"""Tokenizers of the target side alone, which suit one task each."""

# The smallest value that SentencePiece accepts.
MIN_COVERAGE = 0.98


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSettings:
    """Tokenizers of source and target, and how they are trained."""

    tokenizer: TokenizerName = "bpe"
    """Tokenizer of the source: bpe, unigram, words, characters, or spaces (what
    stands between spaces); of pictures: patches."""

    target_tokenizer: TokenizerName | None = None
    """Tokenizer of the target; not set: the same kind as the source. Also labels: a
    whole line is one token, and an unknown one an error; numbers, one a line; or
    trees, in brackets."""

    joint: bool = True
    """One tokenizer and one vocabulary for both sides."""

    vocab_size: int = 8000
    """Size of the vocabulary at most, special symbols included."""

    target_vocab_size: int | None = None
    """Size of a separate target vocabulary; not set: ``vocab_size``."""

    symbols: tuple[str, ...] = ()
    """Symbols that are never split, such as language tags (">>fr<<")."""

    placeholders: float = 0.0
    """Share of training pairs in which a name or number that both sides have is
    replaced by a placeholder (Crego et al. 2016). Above 0, translation copies URLs,
    e-mail addresses and words in unknown characters from the source exactly."""

    byte_fallback: bool = False
    """Encode unknown characters as bytes (bpe and unigram only)."""

    normalization: Normalization = "nfkc"
    """Unicode normalization before tokenization: nfkc; none: spaces are collapsed;
    lossless (bpe, unigram and characters): nothing is changed, line ends are tokens."""

    character_coverage: float = 1.0
    """Share of the text whose characters get a token, from 0.98 to 1; not for words."""

    sample_pairs: int = 200_000
    """Pairs, sampled at random, on which tokenizers are trained."""

    def __post_init__(self) -> None:
        problems = [*self._problems_of_values(), *self._problems_of_symbols()]
        if not problems:
            problems += self._problems_of_combinations()
        if problems:
            raise SettingsError(problems)

    @property
    def source_kind(self) -> TokenizerName:
        """The tokenizer of the source side."""
        return self.tokenizer

    @property
    def target_kind(self) -> TokenizerName:
        """The tokenizer of the target side, chosen or inherited."""
        return self.target_tokenizer or self.tokenizer

    @property
    def min_vocab_size(self) -> int:
        """Number of reserved entries: special symbols, user symbols and bytes."""
        bytes_ = BYTE_PIECES * int(self.byte_fallback)
        return len(SPECIALS) + len(self.all_symbols) + bytes_

    @property
    def all_symbols(self) -> tuple[str, ...]:
        """``symbols``, and the placeholder if there are placeholders."""
        return (*self.symbols, PLACEHOLDER) if self.placeholders else self.symbols

    def _problems_of_values(self) -> list[str]:
        choices = {
            "tokenizer": (self.tokenizer, get_args(TokenizerName)),
            "normalization": (self.normalization, get_args(Normalization)),
        }
        if self.target_tokenizer is not None:
            choices["target_tokenizer"] = (
                self.target_tokenizer,
                get_args(TokenizerName),
            )
        problems = [
            f"{name} must be one of {', '.join(allowed)}, not {value!r}"
            for name, (value, allowed) in choices.items()
            if value not in allowed
        ]
        sizes = {"vocab_size": self.vocab_size}
        if self.target_vocab_size is not None:
            sizes["target_vocab_size"] = self.target_vocab_size
        problems += [
            f"{name} must be more than {self.min_vocab_size} (special symbols, your "
            f"symbols and bytes take that many), not {size}"
            for name, size in sizes.items()
            if size <= self.min_vocab_size
        ]
        if not MIN_COVERAGE <= self.character_coverage <= 1:
            problems.append(
                f"character_coverage must be from {MIN_COVERAGE} to 1, "
                f"not {self.character_coverage}"
            )
        if not 0 <= self.placeholders <= 1:
            problems.append(
                f"placeholders must be from 0 to 1, not {self.placeholders}"
            )
        if self.sample_pairs < 1:
            problems.append(f"sample_pairs must be 1 or more, not {self.sample_pairs}")
        return problems

    def _problems_of_symbols(self) -> list[str]:
        problems = []
        for symbol in self.symbols:
            if not symbol or any(c.isspace() or c == WORD_START for c in symbol):
                problems.append(
                    f"symbols must be texts without white space or {WORD_START!r}, "
                    f"such as '>>fr<<', not {symbol!r}"
                )
            elif not symbol.isprintable():
                problems.append(f"symbols must be printable; {symbol!r} is not")
            elif symbol in SPECIALS:
                problems.append(
                    f"symbols contains {symbol!r}, which is built in: leave it out"
                )
        if self.placeholders and PLACEHOLDER in self.symbols:
            problems.append(
                f"symbols contains {PLACEHOLDER!r}, which placeholders adds: leave it "
                "out"
            )
        if len(set(self.symbols)) < len(self.symbols):
            problems.append("symbols contains the same symbol twice")
        return problems

    def _problems_of_combinations(self) -> list[str]:
        problems = []
        kinds = {self.source_kind, self.target_kind}
        if self.joint and len(kinds) > 1:
            problems.append(
                f"joint needs one kind of tokenizer, not {self.source_kind} and "
                f"{self.target_kind}: set joint = false"
            )
        if self.joint and self.target_vocab_size is not None:
            problems.append(
                "target_vocab_size has no effect with a joint vocabulary: leave it "
                "out, or set joint = false"
            )
        if self.normalization == "lossless" and kinds & {"words", "spaces"}:
            problems.append(
                "normalization = 'lossless' needs bpe, unigram or characters; "
                "words and spaces do not keep white space"
            )
        if self.source_kind in TARGET_ONLY:
            problems.append(
                f"tokenizer must turn text into several tokens; {self.source_kind!r} "
                "is for target_tokenizer only"
            )
        if self.target_kind == "patches":
            problems.append("target_tokenizer cannot be 'patches': pictures are read")
        if self.byte_fallback and not kinds & set(SENTENCEPIECE):
            problems.append(
                f"byte_fallback needs bpe or unigram, not {self.target_kind}"
            )
        if self.placeholders and not kinds <= {*SENTENCEPIECE, "characters"}:
            problems.append(
                "placeholders needs bpe, unigram or characters, not "
                f"{', '.join(sorted(kinds))}: of those alone an unknown token is an "
                "unknown character"
            )
        if self.character_coverage < 1 and not kinds & {*SENTENCEPIECE, "characters"}:
            problems.append(
                "character_coverage has no effect for "
                f"{' and '.join(sorted(kinds))}: leave it out"
            )
        return problems

"""A PCFG read off a treebank, and its most probable parses: what parsers began with.

Trees are made binary as in Klein and Manning, "Accurate Unlexicalized Parsing" (2003):
chains of unary brackets become one symbol; a phrase of several children is built from
the right, and remembers so many of its children (horizontal Markovization); symbols may
be annotated with their parents (vertical). NLTK does that, counts the rules, and undoes
it in what is predicted. The most probable tree is found by CKY with NumPy.

Words that are rare or unknown are tagged by how they look: the distribution of tags of
each word is smoothed with that of its class (shape and last letters), that one with
that of its shape, and so on. Only words that are rare count for a class.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import nltk
import numpy as np
from numpy.typing import NDArray

from headwise.text.linearized_trees import WORD
from headwise.text.trees import Tree, escape_brackets, unescape_brackets

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]

RARE = 5
"""Most occurrences of the words that classes are estimated from."""

START = nltk.Nonterminal("START")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How trees become a grammar, and how much of its charts is kept."""

    horizontal: int = 2
    """Children that a part of a phrase remembers."""

    vertical: int = 1
    """1: a symbol is a label; 2: a label and that of its parent."""

    smoothing: float = 1.0
    """Occurrences that the class of a word counts as."""

    beam: float = np.inf
    """Symbols of a span that are less probable than the best by more (in nats) go."""


@dataclass(frozen=True)
class Grammar:
    """Binary rules in log space, sorted by parent; symbols are indices."""

    symbols: tuple[str, ...]
    """The tags of words come first."""

    num_tags: int
    parents: Ints
    left: Ints
    right: Ints
    log_p: Floats
    start: Floats
    """ln p that a tree has this symbol at its root."""

    prior: Floats
    """ln of the symbol's share of all brackets, which cells are pruned by."""


class Lexicon:
    """Tags of words: ln p(word | tag), but for what is the same for all tags."""

    def __init__(
        self, tagged: Iterable[tuple[str, int]], num_tags: int, smoothing: float
    ) -> None:
        pairs = Counter(tagged)
        occurrences: Counter[str] = Counter()
        for (word, _), count in pairs.items():
            occurrences[word] += count
        self._smoothing = smoothing
        self._counts: dict[tuple[str, ...], Floats] = {}
        total = np.zeros(num_tags)
        for (word, tag), count in pairs.items():
            total[tag] += count
            is_rare = occurrences[word] <= RARE
            for view in views(word)[: None if is_rare else 1]:
                self._counts.setdefault(view, np.zeros(num_tags))[tag] += count
        with np.errstate(divide="ignore"):
            self._log_share = np.log(total / total.sum())
        self._share = total / total.sum()
        self._known: dict[str, Floats] = {}

    def log_probabilities(self, word: str) -> Floats:
        """Return ln p(tag | word) - ln p(tag) of each tag."""
        if word not in self._known:
            p = self._share
            for view in reversed(views(word)):
                if (counts := self._counts.get(view)) is not None:
                    strength = self._smoothing
                    p = (counts + strength * p) / (counts.sum() + strength)
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.where(p > 0, np.log(p) - self._log_share, -np.inf)
            self._known[word] = found
        return self._known[word]


def views(word: str) -> list[tuple[str, ...]]:
    """Return the word, its class, its shape, and what all words have in common."""
    shape = re.sub(r"[A-Z]+", "A", re.sub(r"[a-z]+", "a", re.sub(r"\d+", "0", word)))
    kinds = "".join(dict.fromkeys(shape))  # each kind of character once
    return [("word", word), ("class", kinds, word[-3:].lower()), ("shape", kinds), ()]


class PCFG:
    """A grammar and a lexicon, estimated from trees."""

    def __init__(self, trees: Iterable[Tree], settings: Settings) -> None:
        self.settings = settings
        rules: Counter[nltk.Production] = Counter()
        starts: Counter[str] = Counter()
        tagged: list[tuple[str, str]] = []
        for tree in trees:
            binary = to_binary(tree, settings)
            starts[binary.label()] += 1
            for rule in binary.productions():
                if rule.is_lexical():
                    tagged.append((rule.rhs()[0], rule.lhs().symbol()))
                else:
                    rules[rule] += 1
        tags = Counter(tag for _, tag in tagged)
        self.grammar = grammar_of(rules, starts, tags)
        index = {symbol: i for i, symbol in enumerate(self.grammar.symbols)}
        self.lexicon = Lexicon(
            ((word, index[tag]) for word, tag in tagged),
            self.grammar.num_tags,
            settings.smoothing,
        )

    def parse(self, words: Sequence[str]) -> Tree | None:
        """Return the most probable tree over ``words``; None if there is none.

        Tags are ``XX``, as a parser of raw words is not asked for them.
        """
        emissions = np.array([self.lexicon.log_probabilities(word) for word in words])
        found = viterbi(self.grammar, emissions, self.settings.beam)
        if found is None:
            return None
        tree = nltk.Tree.fromstring(found)
        tree.un_chomsky_normal_form()
        return _from_nltk(tree, iter(words))


def to_binary(tree: Tree, settings: Settings) -> nltk.Tree:
    """Return ``tree`` with two children or a word in each bracket."""
    binary = _to_nltk(tree)
    binary.collapse_unary(collapsePOS=True, collapseRoot=True)
    binary.chomsky_normal_form(
        horzMarkov=settings.horizontal, vertMarkov=settings.vertical - 1
    )
    return binary


def grammar_of(
    rules: Counter[nltk.Production], starts: Counter[str], tags: Counter[str]
) -> Grammar:
    """Return the relative frequencies of binary rules and of roots."""
    induced = nltk.induce_pcfg(START, list(rules.elements()))
    found = [
        (rule.lhs().symbol(), *(each.symbol() for each in rule.rhs()), rule.logprob())
        for rule in induced.productions()
    ]
    phrases = {each for row in found for each in row[:3]} - tags.keys()
    symbols = sorted(tags) + sorted(phrases)
    index = {symbol: i for i, symbol in enumerate(symbols)}
    found.sort(key=lambda row: index[row[0]])
    parents, left, right = (
        np.array([index[row[column]] for row in found], dtype=np.int64)
        for column in range(3)
    )
    brackets = Counter(tags)
    for rule, count in rules.items():
        brackets[rule.lhs().symbol()] += count
    with np.errstate(divide="ignore"):
        return Grammar(
            symbols=tuple(symbols),
            num_tags=len(tags),
            parents=parents,
            left=left,
            right=right,
            log_p=math.log(2) * np.array([row[3] for row in found], np.float32),
            start=np.log([starts[symbol] / starts.total() for symbol in symbols]),
            prior=np.log(
                np.array([brackets[s] / brackets.total() for s in symbols], np.float32)
            ),
        )


def viterbi(grammar: Grammar, emissions: Floats, beam: float = np.inf) -> str | None:
    """Return the most probable tree, in brackets and with words as numbers, or None.

    ``emissions`` [words, tags] has ln p(word | tag), with -inf where it is 0.
    """
    chart = Chart(grammar, emissions, beam)
    root = chart.from_start[0, chart.length] + grammar.start
    best = int(root.argmax())
    if root[best] == -np.inf:
        return None
    return " ".join(chart.brackets(best))


class Chart:
    """ln p of the best tree of each symbol over each span, the shortest spans first.

    There are two copies, by the start of a span and by its end, so that the cells that
    are joined at each split stand one after another in either.
    """

    def __init__(self, grammar: Grammar, emissions: Floats, beam: float) -> None:
        self.grammar = grammar
        self.beam = beam
        self.length = len(emissions)
        shape = (self.length + 1, self.length + 1, len(grammar.symbols))
        self.from_start = np.full(shape, -np.inf, np.float32)
        self.from_end = np.full(shape, -np.inf, np.float32)
        # Symbols of the spans so far that begin, or end, at each place: to the spans
        # that are made of them, of all rules only a few apply.
        self._begins = np.zeros(shape[1:], bool)
        self._ends = np.zeros(shape[1:], bool)
        for i, row in enumerate(emissions):
            cell = np.full(shape[2], -np.inf)
            cell[: grammar.num_tags] = row
            self._set(i, i + 1, cell)
        for width in range(2, self.length + 1):
            for i in range(self.length - width + 1):
                self._set(i, i + width, self._join(i, i + width))

    def _join(self, i: int, j: int) -> Floats:
        """Return the best sum of a rule and two cells, for each parent."""
        grammar = self.grammar
        left, right = self._sides(i, j)
        is_used = self._begins[i].take(grammar.left)
        is_used &= self._ends[j].take(grammar.right)
        used = np.flatnonzero(is_used)
        cell = np.full(left.shape[1], -np.inf, np.float32)
        if len(used):
            both = left.take(grammar.left[used], 1) + right.take(grammar.right[used], 1)
            best = both.max(axis=0) + grammar.log_p[used]
            parents = grammar.parents[used]
            first = np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]])
            cell[parents[first]] = np.maximum.reduceat(best, first)
        return cell

    def _sides(self, i: int, j: int) -> tuple[Floats, Floats]:
        """Return the cells left and right of each split [splits, symbols]."""
        return self.from_start[i, i + 1 : j], self.from_end[j, i + 1 : j]

    def _set(self, i: int, j: int, cell: Floats) -> None:
        cell = cell.astype(np.float32)
        merit = cell + self.grammar.prior
        kept = np.where(merit >= merit.max() - self.beam, cell, -np.inf)
        self.from_start[i, j] = kept
        self.from_end[j, i] = kept
        is_kept = kept > -np.inf
        self._begins[i] |= is_kept
        self._ends[j] |= is_kept

    def brackets(self, root: int) -> Iterator[str]:
        """Yield the pieces of the best tree of ``root`` over all words."""
        waiting: list[tuple[int, int, int] | None] = [(0, self.length, root)]
        while waiting:
            span = waiting.pop()
            if span is None:
                yield ")"
                continue
            i, j, symbol = span
            yield f"({self.grammar.symbols[symbol]}"
            waiting.append(None)
            if j == i + 1:
                yield str(i)
            else:
                split, left, right = self._best(i, j, symbol)
                waiting += [(split, j, right), (i, split, left)]

    def _best(self, i: int, j: int, symbol: int) -> tuple[int, int, int]:
        """Return the split and the children of the best tree of a span.

        Looked for anew: there are few spans in a tree, and many in a chart.
        """
        grammar = self.grammar
        rules = slice(*np.searchsorted(grammar.parents, [symbol, symbol + 1]))
        left, right = self._sides(i, j)
        both = left[:, grammar.left[rules]] + right[:, grammar.right[rules]]
        split, rule = divmod(int((both + grammar.log_p[rules]).argmax()), both.shape[1])
        rule += rules.start
        return i + 1 + split, int(grammar.left[rule]), int(grammar.right[rule])


def _to_nltk(tree: Tree) -> nltk.Tree:
    levels: list[list[nltk.Tree]] = [[]]
    for event, node in tree.walk():
        if event == "open":
            levels.append([])
        elif event == "close":
            children = levels.pop()
            levels[-1].append(nltk.Tree(node.label, children))
        else:
            levels[-1].append(nltk.Tree(node.label, [unescape_brackets(node.word)]))
    ((converted,),) = levels
    return converted


def _from_nltk(tree: nltk.Tree, words: Iterator[str]) -> Tree:
    if not isinstance(tree[0], nltk.Tree):
        return Tree(WORD, escape_brackets(next(words)))
    return Tree(tree.label(), tuple(_from_nltk(child, words) for child in tree))

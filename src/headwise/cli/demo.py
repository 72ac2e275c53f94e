"""``headwise demo``: a corpus of our own, a model of it, and what it learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headwise.cli.checks import check_kernels
from headwise.cli.options import (
    MaxTime,
    Threads,
    minutes,
    say,
    to_folder,
    use_threads,
)
from headwise.cli.streams import output

if TYPE_CHECKING:
    from headwise.demo_corpus import DemoCorpus, ExactMatches, Pair
    from headwise.inference.translator import Translator

SETTINGS: dict[str, Any] = {
    "text": {"vocab_size": 3000},
    "model": {"encoder_layers": 3, "decoder_layers": 3, "dropout": 0.0},
    "training": {
        "steps": 2_000,
        "batch_tokens": 768,
        "warmup_steps": 200,
        "learning_rate": 0.003,
        "schedule": "linear",
        "validate_every": 1_000,
        "validation_pairs": 100,
        "average_last": 1,
    },
}
"""On top of the preset tiny: a language of a few hundred words is soon learned."""


def demo(
    out: Annotated[Path, to_folder("Folder for all that is made.")] = Path("demo"),
    max_time: MaxTime = None,
    threads: Threads = None,
) -> None:
    """Show everything in a few minutes: make a corpus, train, measure, translate.

    The corpus is English and French, made by a grammar: agreement, elision, negation,
    questions, tenses, and an "it" that is il or elle by what it stands for. It is
    measured on combinations of words that training never showed.

    \b
    headwise demo
    headwise demo --out somewhere --threads 4
    """
    from headwise.cli.common import prepared, trained, translations
    from headwise.demo_corpus import EXAMPLES, write
    from headwise.recipe import resolve
    from headwise.run_folder.claim import claimed

    limit = None if max_time is None else minutes(max_time)
    check_kernels()
    say("making an English-French corpus")
    text = out / "corpus"
    with claimed(out):
        corpus = write(text)
    extra = {
        **SETTINGS,
        "data": {
            "corpora": [_files(text, "train")],
            "dev": _files(text, "dev"),
        },
    }
    if limit is not None:
        extra["training"] = {**extra["training"], "max_minutes": limit}
    recipe = resolve(preset="tiny", extra=extra)
    use_threads(threads)
    trained(out, recipe, prepared(out, recipe), "cpu")
    from headwise.inference.translator import load

    translator = load(out)
    _show_scores(translator, corpus)
    output(
        "\nSome translations of sentences that stand in no part of the corpus (the "
        "first two differ in one word), beside what the grammar gives:\n"
    )
    found = translations(translator, [pair.english for pair in EXAMPLES])
    for pair, french in zip(EXAMPLES, found, strict=True):
        verdict = _verdict(pair, french)
        output(f"    {pair.english}\n    → {french}\n      {verdict}\n")
    output(_next_steps(out))


def _files(text: Path, part: str) -> dict[str, str]:
    return {"source": str(text / f"{part}.en"), "target": str(text / f"{part}.fr")}


def _show_scores(translator: Translator, corpus: DemoCorpus) -> None:
    from headwise.cli.common import translations
    from headwise.demo_corpus import (
        dictionary_baseline,
        exact_matches,
        pronoun_accuracy,
    )
    from headwise.metrics.registry import measure

    sources = [pair.english for pair in corpus.held_out]
    references = [pair.french for pair in corpus.held_out]
    outputs = translations(translator, sources)
    words = measure("bleu", [dictionary_baseline(each) for each in sources], references)
    cases = [
        (pair.pronoun, output)
        for pair, output in zip(corpus.held_out, outputs, strict=True)
        if pair.pronoun is not None
    ]
    accuracy = pronoun_accuracy([case for case, _ in cases], [out for _, out in cases])
    output(
        f"\nOn {len(sources):,} held-out sentences, whose combinations of words never "
        "occurred in training:\n"
    )
    output(f"word-by-word dictionary: {words}")
    output(
        f"il or elle: {100 * accuracy:.1f}% right of {len(cases)} "
        "(the noun alone, or the adjective alone, would give 50%)"
    )
    by_kind = exact_matches(corpus.held_out, outputs)
    right = sum(each.right for each in by_kind.values())
    output(
        f"the reference, word for word: {100 * right / len(outputs):.1f}%; least often "
        f"of {_least(by_kind)}"
    )
    output(str(measure("bleu", outputs, references)))


def _least(by_kind: dict[str, ExactMatches]) -> str:
    """Name the kinds of sentence that were learned least well."""
    kinds = sorted(by_kind, key=lambda kind: by_kind[kind].share)[:3]
    return ", ".join(
        f"{kind} ({by_kind[kind].right} of {by_kind[kind].of})" for kind in kinds
    )


def _verdict(pair: Pair, french: str) -> str:
    return "right" if french == pair.french else f"not the reference: {pair.french}"


def _next_steps(out: Path) -> str:
    return (
        "Next:\n"
        f'    echo "The cat is tired." | headwise translate {out}\n'
        f"    headwise evaluate {out} {out}/corpus/heldout.en {out}/corpus/heldout.fr\n"
        "    headwise run YOUR.en YOUR.fr --out my-model"
    )

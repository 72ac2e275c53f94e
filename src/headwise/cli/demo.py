"""``headwise demo``: generate a corpus, train a model on it, and show its scores."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.argument_checks import check_environment
from headwise.cli.options import (
    MaxTime,
    Threads,
    output_folder,
    parse_minutes,
    say,
    use_threads,
)
from headwise.cli.standard_streams import output
from headwise.errors import UsageError
from headwise.sample_data.samples import SAMPLES

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
        "weight_decay": 0.0,
        "schedule": "linear",
        "validate_every": 1_000,
        "validation_pairs": 100,
        "average_last": 1,
    },
}
"""On top of the preset tiny, for a language of a few hundred words."""


def demo(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="What is generated and learned. translation: English into French; "
            + "; ".join(f"{name}: {each.summary}" for name, each in SAMPLES.items()),
        ),
    ] = "translation",
    out: Annotated[
        Path | None,
        output_folder("Output folder. Default: demo, or demo-NAME."),
    ] = None,
    max_time: MaxTime = None,
    threads: Threads = None,
) -> None:
    """Generate a corpus, train a model and evaluate it, in minutes.

    The corpus of translation is English and French from a grammar with agreement,
    elision, negation, questions, tenses, and an "it" that becomes il or elle by the
    noun it refers to. Test sets have combinations that are not in the training set.

    \b
    headwise demo
    headwise demo reviews
    headwise demo --out somewhere --threads 4
    """
    limit = None if max_time is None else parse_minutes(max_time)
    check_environment()
    if name != "translation" and name not in SAMPLES:
        raise UsageError(
            f"{name} is not a demo; choose from translation, {', '.join(SAMPLES)}"
        )
    if name != "translation":
        from headwise.cli.demo_sample import demo_sample

        folder = out or Path(f"demo-{name}")
        demo_sample(name, folder, max_minutes=limit, threads=threads)
        return
    out = out or Path("demo")

    from headwise.cli.prepare_and_train import prepare_corpus, train_model
    from headwise.cli.translate_and_score import translate_lines
    from headwise.demo_corpus import EXAMPLES, write
    from headwise.recipe import resolve
    from headwise.run_folder.overwrite_protection import lock_run_folder

    say("generating an English-French corpus")
    text = out / "corpus"
    with lock_run_folder(out):
        corpus = write(text)
    extra = {
        **SETTINGS,
        "languages": ["en", "fr"],
        "data": {
            "corpora": [_files(text, "train")],
            "dev": _files(text, "dev"),
        },
    }
    if limit is not None:
        extra["training"] = {**extra["training"], "max_minutes": limit}
    recipe = resolve(preset="tiny", extra=extra)
    use_threads(threads)
    train_model(out, recipe, prepare_corpus(out, recipe), "cpu")
    from headwise.inference.translator import load

    translator = load(out)
    _show_scores(translator, corpus)
    output(
        "\nTranslations of sentences that are not in the corpus (the first two differ "
        "in one word), compared with the grammar's:\n"
    )
    found = translate_lines(translator, [pair.english for pair in EXAMPLES])
    for pair, french in zip(EXAMPLES, found, strict=True):
        verdict = _verdict(pair, french)
        output(f"    {pair.english}\n    → {french}\n      {verdict}\n")
    output(_next_steps(out))


def _files(text: Path, part: str) -> dict[str, str]:
    return {"source": str(text / f"{part}.en"), "target": str(text / f"{part}.fr")}


def _show_scores(translator: Translator, corpus: DemoCorpus) -> None:
    from headwise.cli.translate_and_score import translate_lines
    from headwise.demo_corpus import (
        dictionary_baseline,
        exact_matches,
        pronoun_accuracy,
    )
    from headwise.metrics.registry import measure

    sources = [pair.english for pair in corpus.held_out]
    references = [pair.french for pair in corpus.held_out]
    outputs = translate_lines(translator, sources)
    words = measure("bleu", [dictionary_baseline(each) for each in sources], references)
    cases = [
        (pair.pronoun, output)
        for pair, output in zip(corpus.held_out, outputs, strict=True)
        if pair.pronoun is not None
    ]
    accuracy = pronoun_accuracy([case for case, _ in cases], [out for _, out in cases])
    output(
        f"\nOn {len(sources):,} held-out sentences, with combinations of words that "
        "are not in the training set:\n"
    )
    output(f"word-by-word dictionary: {words}")
    output(
        f"il or elle: {100 * accuracy:.1f}% correct of {len(cases)} "
        "(the noun alone, or the adjective alone, would give 50%)"
    )
    by_kind = exact_matches(corpus.held_out, outputs)
    right = sum(each.right for each in by_kind.values())
    output(
        f"exact match: {100 * right / len(outputs):.1f}%; lowest for "
        f"{_hardest(by_kind)}"
    )
    output(str(measure("bleu", outputs, references)))


def _hardest(by_kind: dict[str, ExactMatches]) -> str:
    """Name the kinds of sentence with the fewest exact matches."""
    kinds = sorted(by_kind, key=lambda kind: by_kind[kind].share)[:3]
    return ", ".join(
        f"{kind} ({by_kind[kind].right} of {by_kind[kind].of})" for kind in kinds
    )


def _verdict(pair: Pair, french: str) -> str:
    return "correct" if french == pair.french else f"reference: {pair.french}"


def _next_steps(out: Path) -> str:
    folder = quote(str(out))
    english, french = (
        quote(str(out / "corpus" / f"heldout.{each}")) for each in ("en", "fr")
    )
    return (
        "Next:\n"
        f'    echo "The cat is tired." | headwise translate {folder}\n'
        f"    headwise evaluate {folder} {english} {french}\n"
        "    headwise run YOUR.en YOUR.fr --out my-model"
    )

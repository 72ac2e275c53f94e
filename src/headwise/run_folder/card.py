"""The model card: README.md of a model folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from headwise import __version__
from headwise.data.prepared import PreparedFacts
from headwise.metrics.score import Score, formatted
from headwise.model.config import TransformerConfig
from headwise.model.sequence_model import SequenceModel
from headwise.model.variants.names import variants_of
from headwise.run_folder.card_metadata import card_metadata
from headwise.run_folder.paths import BEST
from headwise.tasks import TASKS
from headwise.training.state import TrainingState
from headwise.training.validation import Validation
from headwise.wording import count_of, duration, without_surrogates

BAR = r"\|"
"""A bar inside a cell of a Markdown table."""

USE = """\
## Use

```
headwise {command} {folder} input.txt > output.txt
```

```python
import headwise

{variable} = headwise.load({quoted})
print({variable}.{method}("..."))
```

"""
"""How the model is used, which every card says."""

CARD = (
    """\
{head}
# {name}

{intro}

"""
    + USE
    + """\
## Data

{corpora}

{train} were learned from; {dev} were held out for validation. The longest
{side} has {longest}; {longer}.{start}

## Scores

Of {outputs} on {scored} held-out {noun}s, after {steps} ({epochs},
{time}){perplexity}:

| measure | value | signature |
| --- | --- | --- |
{scores}

## Architecture

{architecture}

## Limits

{limits} The scores
above are of text like the training text.
"""
)


@dataclass(frozen=True, slots=True)
class CardTexts:
    """What a card says of a task."""

    intro: str
    """With ``{version}``."""
    method: str
    variable: str
    outputs: str
    longer: str
    """What becomes of lines longer than those trained on."""
    limits: str
    side: str = "source"
    """What is read, of which the longest is named."""


TRANSLATION = CardTexts(
    intro=(
        "A Transformer (encoder-decoder, *Attention Is All You Need*) trained with "
        "headwise\n{version}: raw text in, raw text out."
    ),
    method="translate",
    variable="translator",
    outputs="greedy search",
    longer="longer lines are split, translated and rejoined",
    limits=(
        "The model knows what stood in its training text: other domains and longer "
        "sentences come\nout worse. It can leave out, add or invent; numbers and names "
        "may be wrong."
    ),
)

OTHERS = CardTexts(
    intro="A Transformer for {task}, trained with headwise {version}: {summary}.",
    method="predict",
    variable="model",
    outputs="the most probable outputs",
    longer="longer texts are read in parts",
    limits=(
        "The model knows what stood in its training text. A text unlike that gets an "
        "output\nall the same, and may get a wrong one with a high probability."
    ),
)

PICTURES = replace(OTHERS, longer="pictures of another size are refused")

CARD_TEXTS = {
    "translation": TRANSLATION,
    "parsing": replace(
        OTHERS,
        outputs="the most probable trees",
        longer="longer sentences are parsed all the same, and worse",
    ),
    "language_model": replace(
        OTHERS, side="text", longer="of a longer prompt the last tokens are read"
    ),
    "masked_language_model": replace(OTHERS, side="text"),
    "dialogue": replace(OTHERS, longer="of a longer dialogue the last tokens are read"),
    "captioning": PICTURES,
    "picture_classification": PICTURES,
}
"""The texts of tasks that have their own."""


def model_card(
    name: str,
    model: SequenceModel,
    facts: PreparedFacts,
    state: TrainingState,
    validation: Validation,
    *,
    task: str = "translation",
    languages: Sequence[str] = (),
    license: str | None = None,
    initialize_from: Sequence[str] = (),
) -> str:
    """Return the card of the model that was scored in ``validation``.

    ``initialize_from`` are the folders of models whose weights training started from.
    """
    name = _one_line(name)
    config, texts = model.config, CARD_TEXTS.get(task, OTHERS)
    pair_format = TASKS[task].pair_format
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    rows = [_row(score) for score in validation.scores.values()]
    if validation.perplexity is not None:
        rows.append(f"| perplexity of a token | {validation.perplexity:.3f} | e^loss |")
    corpora = [
        f"- `{PurePath(corpus.source).name}`"
        + (f" and `{PurePath(corpus.target).name}`" if corpus.target else "")
        + f": {count_of(corpus.train, pair_format.noun)}"
        + (" in both directions" if corpus.reversed else "")
        + f", weight {corpus.weight:g}"
        for corpus in facts.corpora
    ]
    head = card_metadata(
        name,
        facts.corpora,
        validation,
        task=task,
        languages=languages,
        license=license,
    )
    return CARD.format(
        head=head,
        name=name,
        folder=shlex.quote(name),
        quoted=json.dumps(name, ensure_ascii=False),
        intro=texts.intro.format(
            task=task, version=__version__, summary=TASKS[task].summary
        ),
        command=TASKS[task].command,
        method=texts.method,
        variable=texts.variable,
        outputs=texts.outputs,
        longer=texts.longer,
        limits=texts.limits,
        corpora="\n".join(corpora),
        train=count_of(facts.train.texts, pair_format.example_noun),
        dev=f"{facts.dev.texts:,}",
        noun=pair_format.example_noun,
        side=texts.side,
        longest=count_of(
            facts.train.longest_source or facts.train.longest_target, "token"
        ),
        start=_start(initialize_from),
        scored=_share(validation.num_scored, facts.dev.texts),
        steps=count_of(state.step, "update"),
        epochs=count_of(state.epoch, "epoch"),
        time=duration(state.seconds),
        perplexity=(
            "" if validation.perplexity is None else "; perplexity on all of them"
        ),
        scores="\n".join(rows),
        architecture=(
            f"{config.encoder_layers} + {config.decoder_layers} {_layers(config)}, "
            f"{count_of(num_parameters, 'parameter')}; "
            f"vocabulary {facts.target_vocabulary:,}."
        ),
    )


def model_name(folder: PurePath) -> str:
    """Return the name of a run or model folder, on one line, without its place."""
    return _one_line((folder.parent if folder.name == BEST else folder).name)


def _one_line(name: str) -> str:
    """Return the name of a folder, which may have line breaks or be no UTF-8."""
    return without_surrogates(" ".join(name.split()))


def _start(folders: Sequence[str]) -> str:
    """Return which models training started from, without the places of folders."""
    if not folders:
        return ""
    listed = " and ".join(f"`{model_name(PurePath(each))}`" for each in folders)
    return f"\n\nTraining started from the weights of {listed}."


def _row(score: Score) -> str:
    """Return a row of the table of scores."""
    value = formatted(score.value, score.higher_is_better, decimals=2)
    return f"| {score.name} | {value} | `{score.signature.replace('|', BAR)}` |"


def _layers(config: TransformerConfig) -> str:
    if config.kind != "transformer":
        return f"layers ({config.kind}), d_model {config.d_model}"
    sizes = (
        f"layers, d_model {config.d_model}, d_ff {config.d_ff}, "
        f"{config.num_heads} heads"
    )
    return ", ".join([sizes, *(f"`{each}`" for each in variants_of(config))])


def _share(count: int, whole: int) -> str:
    return f"all {whole:,}" if count == whole else f"{count:,} of {whole:,}"

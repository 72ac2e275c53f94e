"""Perplexity of a language model on a text, for ``headwise evaluate``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, cast

from headwise.cli.corpus_tables import document_table
from headwise.cli.options import say
from headwise.cli.standard_streams import output
from headwise.errors import DataError
from headwise.wording import count_of


def print_perplexity(
    folder: Path, file: Path, *, device: str, stride: int | None, as_json: bool
) -> None:
    """Print the mean loss of ``file`` per token, character and byte.

    A masked language model predicts each token from both sides of it, except unknown
    ones, which do not count.

    A file of text is one document; in JSON Lines each line is one. Raises ``DataError``
    for bytes that are not UTF-8, and for a file without text.
    """
    import torch

    from headwise.data.corpus_reader import read_documents
    from headwise.data.settings import CorpusSettings
    from headwise.inference.load import load_predictor
    from headwise.text.vocabulary import UNKNOWN

    opened = load_predictor(folder, device=device).opened
    task, model = cast(Any, opened.any_task), opened.model
    corpus = CorpusSettings(**document_table(file, None))
    documents: list[list[int]] = [[]]
    text = ""
    for line, ends in read_documents(corpus, note=say):
        (encoded,) = task.encode([line])
        documents[-1] += encoded
        text += line
        if ends:
            documents.append([])
    tokens = [token for document in documents for token in document]
    if not tokens:
        raise DataError(f"{file} has no text: all of its lines are blank")
    given = {} if stride is None else {"stride": stride}
    log_p = torch.cat(
        [task.log_probabilities(model, each, **given) for each in documents if each]
    ).double()
    unknown = tokens.count(UNKNOWN)
    if unknown:
        say(
            f"note: {count_of(unknown, 'token')} of {len(tokens):,} are unknown to the "
            "model: their characters are not told apart, so the figures are too good"
        )
    scored = int((~log_p.isnan()).sum())
    if not scored:
        raise DataError(f"{file}: the model knows none of its tokens")
    nats = -log_p.nansum().item()
    found = {
        "tokens": len(tokens),
        "characters": len(text),
        "bytes": len(text.encode()),
        "unknown_tokens": unknown,
        **task.context_facts(stride),
        "nats": nats,
        "nats_per_token": nats / scored,
        "perplexity": math.exp(nats / scored),
        "nats_per_character": nats / len(text),
        "bits_per_byte": nats / math.log(2) / len(text.encode()),
    }
    if as_json:
        output(json.dumps(found, indent=2))
        return
    facts = task.context_facts(stride)
    signature = "|".join(f"{name}:{value}" for name, value in facts.items())
    for name in ("nats_per_token", "perplexity", "nats_per_character", "bits_per_byte"):
        output(f"{name.replace('_', ' ')} {found[name]:.4f}  {signature}")

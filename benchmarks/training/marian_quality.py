"""Train Marian on headwise's corpus by a recipe of headwise's, until it is good enough.

Prints a line of JSON at each validation. Batches, learning rates, the decoded text and
the score come from headwise, so that only model and update differ; the search is
Marian's own ``generate``, greedy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import torch
from transformers import MarianMTModel

from headwise.data.batches import TrainingOrder, dev_batches, make_batch
from headwise.data.prepared import PreparedCorpus
from headwise.metrics.registry import measure
from headwise.recipe import Recipe, resolve
from headwise.training.schedule import learning_rate
from training.batches import Pairs
from training.facts import ADAM_BETAS, ADAM_EPSILON, Setup, Size
from training.marian import make_model, update

SEARCH_TOKENS = 4096
LONGEST_OUTPUT = 100


def setup_of(recipe: Recipe, corpus: PreparedCorpus, precision: str) -> Setup:
    """Say in the benchmark's terms what the recipe asks for."""
    model = recipe.model
    size = Size(
        model.encoder_layers,
        model.d_model,
        model.d_ff,
        model.num_heads,
        model.dropout,
    )
    vocabulary = corpus.tokenizers.target.size
    return Setup(size, vocabulary, precision, "usual", "auto", "")


def translated(model: MarianMTModel, corpus: PreparedCorpus) -> list[str]:
    """Translate the held-out sources greedily."""
    texts = [""] * len(corpus.dev)
    model.eval()
    with torch.inference_mode():
        for batch in dev_batches(corpus.dev, SEARCH_TOKENS):
            outputs = model.generate(
                input_ids=batch.source.padded(),
                attention_mask=batch.source.is_real.long(),
                num_beams=1,
                do_sample=False,
                max_new_tokens=LONGEST_OUTPUT,
            )
            for index, output in zip(batch.indices.tolist(), outputs, strict=True):
                texts[index] = corpus.tokenizers.target.decode(output.tolist())
    model.train()
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--target", type=float, required=True)
    arguments = parser.parse_args()
    recipe = resolve(file=arguments.recipe, assignments=arguments.assignments)
    training = recipe.training
    corpus = PreparedCorpus.open(arguments.corpus)
    setup = setup_of(recipe, corpus, arguments.precision)
    torch.manual_seed(recipe.seed)
    model = make_model(setup)
    optimizer = torch.optim.Adam(
        model.parameters(), betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True
    )
    order = TrainingOrder(
        corpus.train, seed=recipe.seed, batch_tokens=training.batch_tokens
    )
    batches = (
        make_batch(corpus.train, indices)
        for epoch in itertools.count()
        for indices in order.epoch(epoch)
    )
    model.train()
    training_seconds, tokens, began = 0.0, 0, time.monotonic()
    for step in range(1, training.steps + 1):
        started = time.monotonic()
        batch = next(batches)
        pairs = Pairs(batch.source.padded().numpy(), batch.target.padded().numpy())
        rate = learning_rate(step, training, setup.size.d_model)
        loss = update(model, optimizer, pairs, setup, rate)
        training_seconds += time.monotonic() - started
        tokens += batch.num_source_tokens + batch.num_target_tokens
        if step % training.validate_every and step != training.steps:
            continue
        bleu = measure("bleu", translated(model, corpus), corpus.dev_text[1]).value
        found = {
            "step": step,
            "loss": round(loss, 4),
            "bleu": round(bleu, 2),
            "tokens": tokens,
            "training_seconds": round(training_seconds, 1),
            "seconds_with_validations": round(time.monotonic() - began, 1),
        }
        print(json.dumps(found), flush=True)
        if bleu >= arguments.target:
            return


if __name__ == "__main__":
    main()

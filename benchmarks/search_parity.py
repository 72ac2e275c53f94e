"""Compare our beam search with those of Hugging Face and CTranslate2, word by word.

    python benchmarks/search_parity.py

Needs transformers and ctranslate2 beside headwise. All three searches ask the
same small Marian model with random weights, so that only the search can differ. The
result goes to benchmarks/results/search_parity.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.converters.transformers import MarianMTLoader
from result_file import Measurement, add_options, place_of
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from headwise.decoding.search import SearchRequest, search
from headwise.decoding.settings import DecodingSettings

RESULTS = Path(__file__).parent / "results" / "search_parity.json"
END, UNKNOWN, PAD = 0, 1, 499  # as in Marian models, PAD is last, and starts outputs
VOCAB_SIZE = 500
LONGEST = 40
BATCH = 50

Output = tuple[tuple[int, ...], float]  # tokens without END, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    add_options(parser, RESULTS)
    arguments = parser.parse_args()
    if arguments.rehearse:
        arguments.sentences = 20
    measurement = Measurement.begin(["src/headwise/decoding/**/*"])

    model = random_model(arguments.seed)
    sources = random_sources(arguments.sentences, arguments.seed)
    first_k = searching()
    exact = searching(stopping="exact")
    ours = headwise_outputs(model, sources, first_k)
    theirs = transformers_outputs(model, sources, first_k)
    fast = ctranslate2_outputs(model, sources, first_k)
    ours_exact = headwise_outputs(model, sources, exact)
    theirs_exact = transformers_outputs(model, sources, exact)
    gnmt = searching(length_penalty="gnmt", alpha=0.6, stopping="exact")
    the_papers = headwise_outputs(model, sources, gnmt)
    report = {
        "search": "beam 4, score / n, first-k stopping, at most 40 tokens",
        "sentences": len(sources),
        "outputs_cut_off": sum(len(found[0][0]) == LONGEST for found in ours),
        "mean_length": sum(len(found[0][0]) for found in ours) / len(ours),
        "agreement": {
            "transformers": compared(ours, theirs),
            "ctranslate2": compared(ours, fast),
            "transformers, exact stopping in both": compared(ours_exact, theirs_exact),
            "ctranslate2, if we searched as the paper did": {
                "equal_best": compared(the_papers, fast)["equal_best"]
            },
        },
    }
    measurement.write(place_of(arguments), report)
    print(json.dumps(report, indent=2))


def searching(**changes: Any) -> DecodingSettings:
    """Return the search that all tools share, of four, with one limit for all."""
    return DecodingSettings(
        num_best=4,
        patience=1.0,
        max_length_factor=0.0,
        max_length_offset=LONGEST,
        **changes,
    )


def compared(ours: list[list[Output]], theirs: list[list[Output]]) -> dict[str, float]:
    """Count equal best outputs, with their scores, and equal lists of four."""
    same_best = [o[0][0] == t[0][0] for o, t in zip(ours, theirs, strict=True)]
    same_lists = [
        [tokens for tokens, _ in o] == [tokens for tokens, _ in t]
        for o, t in zip(ours, theirs, strict=True)
    ]
    gaps = [
        abs(o[0][1] - t[0][1])
        for o, t, same in zip(ours, theirs, same_best, strict=True)
        if same
    ]
    return {
        "equal_best": sum(same_best),
        "equal_lists_of_four": sum(same_lists),
        "largest_gap_between_scores": max(gaps, default=0.0),
    }


def random_model(seed: int) -> MarianMTModel:
    """Return a model whose weights are random but whose choices are not even."""
    torch.manual_seed(seed)
    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        decoder_vocab_size=VOCAB_SIZE,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        activation_function="swish",
        scale_embedding=True,
        init_std=0.1,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        model.model.shared.weight[PAD] = 0.0  # CTranslate2 starts from zeros
        model.final_logits_bias[0, PAD] = -1e9  # never written, probability 0
        model.final_logits_bias[0, END] = 2.5  # so that most outputs end
    return model


def random_sources(num_sentences: int, seed: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 20, (num_sentences,), generator=generator).tolist()
    return [
        [*torch.randint(2, PAD, (length,), generator=generator).tolist(), END]
        for length in lengths
    ]


def batches(sources: list[list[int]]) -> list[tuple[Tensor, Tensor]]:
    """Return padded ids and what is real in them, ``BATCH`` sentences at a time."""
    result = []
    for first in range(0, len(sources), BATCH):
        rows = [torch.tensor(source) for source in sources[first : first + BATCH]]
        ids = torch.nn.utils.rnn.pad_sequence(rows, True, PAD)
        result.append((ids, ids != PAD))
    return result


@dataclass
class MarianState:
    """What Marian carries from token to token; its cache is changed in place."""

    encoded: Tensor
    is_real: Tensor
    cache: object | None

    def index_select(self, index: Tensor) -> MarianState:
        """Keep these rows."""
        if self.cache is not None:
            self.cache.reorder_cache(index)
        return MarianState(self.encoded[index], self.is_real[index], self.cache)


class MarianBackend:
    """A Marian model as a decoder backend of our searches."""

    def __init__(self, model: MarianMTModel) -> None:
        self.model = model

    def start(self, ids: Tensor, is_real: Tensor) -> MarianState:
        """Encode a batch of sources."""
        encoder = self.model.get_encoder()
        encoded = encoder(input_ids=ids, attention_mask=is_real.long())
        return MarianState(encoded.last_hidden_state, is_real, None)

    def step(self, tokens: Tensor, state: MarianState) -> tuple[Tensor, MarianState]:
        """Write a token in every row and score the next."""
        output = self.model(
            encoder_outputs=(state.encoded,),
            attention_mask=state.is_real.long(),
            decoder_input_ids=tokens[:, None],
            past_key_values=state.cache,
            use_cache=True,
        )
        cache = output.past_key_values
        return output.logits[:, -1], MarianState(state.encoded, state.is_real, cache)


@torch.inference_mode()
def headwise_outputs(
    model: MarianMTModel, sources: list[list[int]], settings: DecodingSettings
) -> list[list[Output]]:
    adapted = MarianBackend(model)
    outputs = []
    for ids, is_real in batches(sources):
        outputs += search(
            adapted,
            adapted.start(ids, is_real),
            settings,
            SearchRequest(
                source_lengths=(is_real.sum(dim=1) - 1).tolist(),
                start=PAD,
                end=END,
                forbidden=(PAD,),
            ),
        )
    return [[(each.tokens, each.score) for each in found] for found in outputs]


@torch.inference_mode()
def transformers_outputs(
    model: MarianMTModel, sources: list[list[int]], settings: DecodingSettings
) -> list[list[Output]]:
    outputs: list[list[Output]] = []
    for ids, is_real in batches(sources):
        found = model.generate(
            input_ids=ids,
            attention_mask=is_real.long(),
            num_beams=settings.beam,
            num_return_sequences=settings.num_best,
            early_stopping={"first-k": True, "exact": "never"}[settings.stopping],
            length_penalty=settings.alpha,
            max_new_tokens=LONGEST,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
        )
        flat = [
            (without_specials(row), score)
            for row, score in zip(
                found.sequences.tolist(), found.sequences_scores.tolist(), strict=True
            )
        ]
        outputs += in_groups(flat, settings.num_best)
    return outputs


def ctranslate2_outputs(
    model: MarianMTModel, sources: list[list[int]], settings: DecodingSettings
) -> list[list[Output]]:
    names = [f"t{token}" for token in range(VOCAB_SIZE)]
    names[END], names[UNKNOWN] = "</s>", "<unk>"
    spec = MarianMTLoader().get_model_spec(model)
    spec.register_source_vocabulary(names[:PAD])
    spec.register_target_vocabulary(names[:PAD])
    spec.config.eos_token = spec.config.decoder_start_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, compute_type="float32")
        results = translator.translate_batch(
            [[names[token] for token in source] for source in sources],
            max_batch_size=BATCH,
            beam_size=settings.beam,
            num_hypotheses=settings.num_best,
            length_penalty=settings.alpha,
            max_decoding_length=LONGEST,
            min_decoding_length=0,  # its own default forbids empty outputs
            return_scores=True,
        )
    ids = {name: token for token, name in enumerate(names)}
    return [
        [
            (tuple(ids[name] for name in hypothesis), score)
            for hypothesis, score in zip(result.hypotheses, result.scores, strict=True)
        ]
        for result in results
    ]


def without_specials(row: list[int]) -> tuple[int, ...]:
    """Take off the start and whatever follows END."""
    written = row[1:]
    return tuple(written[: written.index(END)] if END in written else written)


def in_groups(flat: list[Output], size: int) -> list[list[Output]]:
    return [flat[first : first + size] for first in range(0, len(flat), size)]


if __name__ == "__main__":
    main()
